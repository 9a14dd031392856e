"""MPIJobs that are given to mpi-operator and to ours, and what is compared of each."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from suites.operators import beside
from suites.operators.beside import Case, Document, head, name

if TYPE_CHECKING:
    from suites.shell import User

LABEL = "training.kubeflow.org/job-name"
_LAST = "sleep 25"
_LONG = "sleep 600"


def replicas(count: int | None, script: str, policy: str | None = None, **pod: Any) -> Document:
    """Replicas of one type, whose only container runs a shell script."""
    container = {"name": "main", "image": "busybox:1", "command": ["sh", "-c", script]}
    found: Document = {"template": {"spec": {"containers": [container], **pod}}}
    if count is not None:
        found["replicas"] = count
    if policy is not None:
        found["restartPolicy"] = policy
    return found


def job(launcher: Document | None, worker: Document | None, **spec: Any) -> Document:
    """The spec of a job."""
    specs = {"Launcher": launcher, "Worker": worker}
    given = {kind: each for kind, each in specs.items() if each is not None}
    return {"mpiReplicaSpecs": copy.deepcopy(given), **spec}


def manifest(of: str, spec: Document) -> Document:
    """A job."""
    metadata = {"name": of, "namespace": "default"}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata,
            "spec": spec}  # fmt: skip


_LAUNCHER = replicas(None, _LAST)
_WORKER = replicas(2, _LONG)
_ONE = replicas(1, _LONG)
_TEMPLATE: Document = {
    "metadata": {"labels": {"team": "fluids"}, "annotations": {"example.com/note": "kept"}},
    "spec": {
        "dnsConfig": {"searches": ["example.com"]},
        "containers": [
            {
                "name": "first",
                "image": "busybox:1",
                "command": ["sh", "-c", _LAST],
                "env": [{"name": "OMPI_MCA_orte_set_default_slots", "value": "9"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            },
            {"name": "beside", "image": "busybox:1", "command": ["sh", "-c", "sleep 1"]},
        ],
        "volumes": [{"name": "data", "emptyDir": {}}],
    },
}
_WORKERS = copy.deepcopy(_TEMPLATE)
_WORKERS["spec"]["containers"][0]["command"] = ["sh", "-c", _LONG]
del _WORKERS["spec"]["containers"][1]

CASES: dict[str, Case] = {
    "plain": Case(job(_LAUNCHER, _WORKER), "Succeeded"),
    "alone": Case(job(_LAUNCHER, None), "Succeeded"),
    "slots": Case(job(_LAUNCHER, _WORKER, slotsPerWorker=4), "Succeeded"),
    "intel": Case(job(_LAUNCHER, _WORKER, mpiImplementation="Intel"), "Succeeded"),
    "mpich": Case(job(_LAUNCHER, _WORKER, mpiImplementation="MPICH"), "Succeeded"),
    "as-worker": Case(job(_LAUNCHER, _WORKER, runLauncherAsWorker=True), "Succeeded"),
    "intel-as-worker": Case(
        job(_LAUNCHER, _ONE, runLauncherAsWorker=True, mpiImplementation="Intel"), "Succeeded"
    ),
    "waits": Case(
        job(_LAUNCHER, _WORKER, launcherCreationPolicy="WaitForWorkersReady"), "Succeeded"
    ),
    "mounted": Case(job(_LAUNCHER, _ONE, sshAuthMountPath="/home/mpiuser/.ssh"), "Succeeded"),
    "template": Case(
        job({"template": _TEMPLATE}, {"replicas": 1, "template": _WORKERS}), "Succeeded"
    ),
    "limits": Case(
        job(_LAUNCHER, _ONE, runPolicy={"backoffLimit": 3, "activeDeadlineSeconds": 900}),
        "Succeeded",
    ),
    "host-network": Case(
        job(replicas(1, _LAST, hostNetwork=True), replicas(1, _LONG, hostNetwork=True)),
        "Succeeded",
    ),
    "policies": Case(
        job(replicas(1, _LAST, "Never"), replicas(1, _LONG, "OnFailure")), "Succeeded"
    ),
    "overridden": Case(job(replicas(1, _LAST, restartPolicy="Never"), _ONE), "Succeeded"),
    "fails": Case(
        job(replicas(1, f"{_LAST}; exit 3", "Never"), _ONE, runPolicy={"backoffLimit": 0}),
        "Failed",
    ),
    "deadline": Case(
        job(replicas(1, _LONG), _ONE, runPolicy={"activeDeadlineSeconds": 30}), "Failed"
    ),
    "worker-fails": Case(job(_LAUNCHER, replicas(1, "sleep 15; exit 1")), "Succeeded"),
    "worker-ends": Case(job(_LAUNCHER, replicas(1, "sleep 15")), "Succeeded"),
    "clean-running": Case(
        job(_LAUNCHER, _WORKER, runPolicy={"cleanPodPolicy": "Running"}), "Succeeded"
    ),
    "clean-all": Case(job(_LAUNCHER, _WORKER, runPolicy={"cleanPodPolicy": "All"}), "Succeeded"),
    "suspended": Case(job(_LAUNCHER, _WORKER, runPolicy={"suspend": True}), "Suspended"),
    "managed": Case(
        job(_LAUNCHER, _ONE, runPolicy={"managedBy": "kubeflow.org/mpi-operator"}), "Succeeded"
    ),
    "elsewhere": Case(
        job(_LAUNCHER, _ONE, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}), ""
    ),
}
_NONE = {"replicas": 1, "template": {"spec": {"containers": []}}}
BROKEN: dict[str, tuple[Document, str]] = {
    "1-name": (job(_LAUNCHER, _ONE), "name"),
    "no-launcher": (job(None, _ONE), "Launcher"),
    "launchers": (job(replicas(2, _LAST), _ONE), "replicas"),
    "no-workers": (job(_LAUNCHER, replicas(0, _LONG)), "replicas"),
    "count": (job(_LAUNCHER, replicas(None, _LONG)), "replicas"),
    "always": (job(replicas(1, _LAST, "Always"), _ONE), "restartPolicy"),
    "exit-code": (job(_LAUNCHER, replicas(1, _LONG, "ExitCode")), "restartPolicy"),
    "implementation": (job(_LAUNCHER, _ONE, mpiImplementation="MVAPICH"), "mpiImplementation"),
    "slots-negative": (job(_LAUNCHER, _ONE, slotsPerWorker=-1), "slotsPerWorker"),
    "clean": (job(_LAUNCHER, _ONE, runPolicy={"cleanPodPolicy": "Some"}), "cleanPodPolicy"),
    "ttl": (
        job(_LAUNCHER, _ONE, runPolicy={"ttlSecondsAfterFinished": -1}),
        "ttlSecondsAfterFinished",
    ),
    "retries": (job(_LAUNCHER, _ONE, runPolicy={"backoffLimit": -1}), "backoffLimit"),
    "containers": (job(_NONE, _ONE), "containers"),
    "none": ({}, "mpiReplicaSpecs"),
}
"""Specs that both refuse, and a word of the field that both name."""
OF_NOBODY = job(_LAUNCHER, _ONE, runPolicy={"managedBy": "me"})
"""A job that mpi-operator leaves to a manager that it does not know."""


def observed(user: User, of: str) -> Document:
    """What a user sees of a job that has come to rest."""
    found = user.get("pod,job,service,configmap,secret")["items"]
    pods = [
        each
        for each in found
        if each["kind"] == "Pod" and each["metadata"].get("labels", {}).get(LABEL) == of
    ]

    def named(kind: str, wanted: str) -> list[Document]:
        return [each for each in found if (each["kind"], name(each)) == (kind, wanted)]

    return {
        "pods": {_anonymous(each): _pod(each) for each in pods},
        "jobs": [_job(each) for each in named("Job", f"{of}-launcher")],
        "services": [_service(each) for each in named("Service", of)],
        "files": [each["data"] for each in named("ConfigMap", f"{of}-config")],
        "secrets": [_secret(each) for each in named("Secret", f"{of}-ssh")],
        **beside.status(user.get("mpijob", of).get("status", {})),
        **beside.events(user, "MPIJob", of),
    }


def _anonymous(found: Document) -> str:
    """The name of a pod without the letters that a Job has chosen."""
    before, _, last = name(found).rpartition("-")
    return before if before.endswith("-launcher") else f"{before}-{last}"


def _head(found: Document) -> Document:
    """Labels and owners; ours has more labels on what is no pod, by which it is found."""
    known = head(found)
    labels = {key: text for key, text in known["labels"].items() if not key.startswith("training.")}
    return {**known, "labels": labels}


def _pod(found: Document) -> Document:
    known, spec = head(found), found["spec"]
    notes = found["metadata"].get("annotations", {})
    labels = {key: text for key, text in known["labels"].items() if "controller-uid" not in key}
    return {
        **known,
        "labels": labels,
        "annotations": {key: notes[key] for key in notes if key.startswith("example.com/")},
        **_pod_spec(spec),
    }


def _pod_spec(spec: Document) -> Document:
    fields = ("restartPolicy", "hostname", "subdomain", "dnsPolicy", "dnsConfig", "hostNetwork")
    return {
        **{field: spec.get(field) for field in fields},
        "containers": [_container(each) for each in spec["containers"]],
        "volumes": [each for each in spec.get("volumes", []) if _is_theirs(each)],
    }


def _container(found: Document) -> Document:
    mounts = [each for each in found.get("volumeMounts", []) if _is_theirs(each)]
    return {**beside.container(found), "volumeMounts": mounts}


def _is_theirs(found: Document) -> bool:
    """Whether a volume is not one that every pod has here, or that only ours has."""
    return not found["name"].startswith(("kube-api-access", "kubeflow-trainer"))


def _job(found: Document) -> Document:
    spec = found["spec"]
    fields = ("backoffLimit", "activeDeadlineSeconds", "completions", "parallelism", "suspend")
    return {
        **_head(found),
        **{field: spec.get(field) for field in fields},
        "template": _pod_spec(spec["template"]["spec"]),
    }


def _service(found: Document) -> Document:
    spec = found["spec"]
    fields = ("selector", "clusterIP", "ports", "publishNotReadyAddresses")
    return {**_head(found), **{field: spec.get(field) for field in fields}}


def _secret(found: Document) -> Document:
    return {**_head(found), "type": found["type"], "keys": sorted(found["data"])}
