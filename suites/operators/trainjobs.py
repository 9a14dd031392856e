"""TrainJobs that are given to Trainer and to ours, their runtimes, and what is compared of each."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from suites.operators.beside import OURS, TOKEN, Case, Document

if TYPE_CHECKING:
    from suites.shell import User

GROUP = "trainer.kubeflow.org"
LABEL = "jobset.sigs.k8s.io/jobset-name"
ANCESTOR = f"{GROUP}/trainjob-ancestor-step"
CLUSTER = "ClusterTrainingRuntime"
TERMINAL = ("Complete", "Failed", "Suspended")
LONG = "sleep 600"


def container(name: str = "node", script: str = "sleep 1", **fields: Any) -> Document:
    """A container that runs a shell script."""
    return {"name": name, "image": "busybox:1", "command": ["sh", "-c", script], **fields}


def replicated(
    name: str = "node", step: str = "", *containers: Document, job: Document | None = None,
    **fields: Any,
) -> Document:  # fmt: skip
    """A replicated job; `job` are fields of its Jobs, `fields` those beside its template."""
    pods = {"spec": {"containers": list(containers) or [container(name)]}}
    metadata = {"labels": {ANCESTOR: step}} if step else {}
    return {
        "name": name,
        "template": {"metadata": metadata, "spec": {"template": pods, **(job or {})}},
        **fields,
    }


def runtime(
    name: str, *jobs: Document, kind: str = CLUSTER, policy: Document | None = None,
    template: Document | None = None, labels: Document | None = None, **spec: Any,
) -> Document:  # fmt: skip
    """A runtime; without jobs one with a plain node."""
    metadata: Document = {"name": name, "labels": labels or {}}
    if kind != CLUSTER:
        metadata["namespace"] = "default"
    found = [*jobs] or [replicated("node", "trainer")]
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": {
            "mlPolicy": {"numNodes": 1, **(policy or {})},
            "template": {**(template or {}), "spec": {"replicatedJobs": found, **spec}},
        },
    }


_FAILING = container(script="exit 3")
_ONCE = {"backoffLimit": 0}
_FAILS = replicated("node", "trainer", _FAILING, job=_ONCE)
_FAILS["template"]["spec"]["template"]["spec"]["restartPolicy"] = "Never"
_AFTER = [{"name": "dataset-initializer", "status": "Complete"}]
_MPI: Document = {"mpi": {"numProcPerNode": 2, "sshAuthMountPath": "/keys"}}
_LAUNCHED: Document = {"mpi": {**_MPI["mpi"], "runLauncherAsNode": True}}
_LAUNCHER = replicated("launcher", "trainer", container())
_SERVER = replicated("node", "", container(script=LONG))
_TARGET = {"operator": "All", "targetReplicatedJobs": ["launcher"]}
_GPUS = container(resources={"limits": {"nvidia.com/gpu": "2"}})
_STEPS = (
    replicated("dataset-initializer", "dataset-initializer"),
    replicated("model-initializer", "model-initializer"),
    replicated("node", "trainer", container(), container("side"), dependsOn=_AFTER),
)
RUNTIMES: dict[str, Document] = {
    "plain": runtime("plain"),
    "torch": runtime("torch", policy={"torch": {}}),
    "torch-gpus": runtime(
        "torch-gpus", replicated("node", "trainer", _GPUS), policy={"torch": {}, "numNodes": 3}
    ),
    "jax": runtime("jax", policy={"jax": {}}),
    "xgboost": runtime("xgboost", policy={"xgboost": {}}),
    "mpi": runtime("mpi", _LAUNCHER, _SERVER, policy=_MPI, successPolicy=_TARGET),
    "launched": runtime("launched", _LAUNCHER, _SERVER, policy=_LAUNCHED, successPolicy=_TARGET),
    "alone": runtime("alone", replicated("node", "trainer"), policy=_LAUNCHED),
    "steps": runtime("steps", *_STEPS),
    "labelled": runtime(
        "labelled",
        template={
            "metadata": {
                "labels": {"example.com/team": "vision"},
                "annotations": {"example.com/note": "kept"},
            }
        },
        network={"subdomain": "inside"},
    ),
    "local": runtime("local", kind="TrainingRuntime"),
    "fails": runtime("fails", _FAILS),
    "deprecated": runtime("deprecated", labels={f"{GROUP}/support": "deprecated"}),
}


def spec(name: str = "plain", trainer: Document | None = None, **fields: Any) -> Document:
    """The spec of a TrainJob."""
    found: Document = {"runtimeRef": {"name": name}, **copy.deepcopy(fields)}
    if trainer is not None:
        found["trainer"] = copy.deepcopy(trainer)
    return found


def manifest(name: str, content: Document) -> Document:
    """A TrainJob."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": content,
    }


def patched(*jobs: Document, **metadata: Any) -> list[Document]:
    """Patches of a runtime."""
    template: Document = {"spec": {"replicatedJobs": list(jobs)}}
    if metadata:
        template["metadata"] = metadata
    runtime_spec = {"template": template}
    return [{"manager": "example.com/me", "trainingRuntimeSpec": runtime_spec}]


def pods(job: str = "node", **fields: Any) -> Document:
    """A patch of the pods of a replicated job."""
    return {"name": job, "template": {"spec": {"template": {"spec": fields}}}}


_ENV = [{"name": "LEVEL", "value": "debug"}]
_FULL = {
    "numNodes": 2,
    "image": "busybox:2",
    "command": ["sh", "-c"],
    "args": ["sleep 1"],
    "env": _ENV,
    "resourcesPerNode": {"requests": {"cpu": "100m"}},
}
_PATCHES = patched(
    {
        "name": "node",
        "template": {
            "metadata": {"labels": {"example.com/tier": "jobs"}},
            "spec": {
                "template": {
                    "metadata": {"annotations": {"example.com/why": "also"}},
                    "spec": {
                        "volumes": [{"name": "scratch", "emptyDir": {}}],
                        "tolerations": [{"key": "gpu", "operator": "Exists"}],
                        "nodeSelector": {"kubernetes.io/os": "linux"},
                        "containers": [
                            {
                                "name": "side",
                                "env": _ENV,
                                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                            }
                        ],
                    },
                }
            },
        },
    },
    labels={"example.com/team": "mine"},
)
_DATASET = {"storageUri": "hf://example/dataset", "env": _ENV}
_ELSEWHERE = "kueue.x-k8s.io/multikueue"
CASES: dict[str, Case] = {
    "plain": Case(spec(), "Complete"),
    "full": Case(spec("plain", _FULL), "Complete"),
    "torch": Case(spec("torch", {"numNodes": 2, "env": _ENV}), "Complete"),
    "torch-processes": Case(spec("torch", {"numProcPerNode": 2}), "Complete"),
    "torch-cpus": Case(
        spec("torch", {"resourcesPerNode": {"requests": {"cpu": "1500m"}}}), "Complete"
    ),
    "torch-gpus": Case(spec("torch-gpus", {}, suspend=True), "Suspended"),
    "torch-nothing": Case(spec("torch"), "Complete"),
    "jax": Case(spec("jax", {"numNodes": 2, "env": _ENV}), "Complete"),
    "xgboost": Case(spec("xgboost", {"numNodes": 2}), "Complete"),
    "mpi": Case(spec("mpi", {"numNodes": 2, "env": _ENV}), "Complete"),
    "launched": Case(spec("launched", {"numNodes": 3, "numProcPerNode": 4}), "Complete"),
    "steps": Case(
        spec("steps", {}, initializer={"dataset": _DATASET, "model": {}}, runtimePatches=_PATCHES),
        "Complete",
    ),
    "secret": Case(
        spec("steps", initializer={"dataset": {"secretRef": {"name": "no"}}}, suspend=True),
        "Suspended",
    ),
    "labelled": Case(spec("labelled"), "Complete"),
    "local": Case(
        {**spec(), "runtimeRef": {"name": "local", "kind": "TrainingRuntime"}}, "Complete"
    ),
    "fails": Case(spec("fails", {"numNodes": 2}), "Failed"),
    "suspended": Case(spec("plain", suspend=True), "Suspended"),
    "late": Case(
        spec("plain", {"command": ["sh", "-c", LONG]}, activeDeadlineSeconds=10), "Failed"
    ),
    "tune": Case(
        spec(
            "torchtune-llama3.2-1b",
            {
                "command": ["tune", "run"],
                "args": ["model.lora_attn_modules=[q_proj]"],
                "numProcPerNode": 2,
            },
            suspend=True,
        ),
        "Suspended",
    ),
    **{
        f"tune-{model.replace('.', '-')}": Case(
            spec(
                f"torchtune-{model}",
                {"command": ["tune", "run"], "resourcesPerNode": {"limits": {"nvidia.com/gpu": 1}}},
                initializer={"dataset": {"storageUri": "hf://some/data"}},
                suspend=True,
            ),
            "Suspended",
        )
        for model in ("llama3.2-3b", "qwen2.5-1.5b")
    },
    "deprecated": Case(spec("deprecated"), "Complete"),
    "elsewhere": Case(spec("plain", managedBy=_ELSEWHERE), ""),
    "runs": Case(spec("plain", {"command": ["sh", "-c", LONG]}), ""),
}
_RESERVED = [{"name": "PET_NNODES", "value": "1"}]
_WORKERS = [{"name": "DMLC_NUM_WORKER", "value": "1"}]
BROKEN: dict[str, tuple[Document, str]] = {
    "1-name": (spec(), "RFC 1035"),
    "reserved": (spec("torch", {"env": _RESERVED}), "must not have reserved envs"),
    "workers": (spec("xgboost", {"env": _WORKERS}), "is reserved for the XGBoost runtime"),
    "nothing": (spec("nothing"), "must be created before"),
    "kind": (
        {**spec(), "runtimeRef": {"name": "plain", "kind": "Runtime"}},
        "unsupported runtime",
    ),
    "dataset": (spec("plain", initializer={"dataset": {}}), "must have dataset-initializer job"),
    "model": (spec("plain", initializer={"model": {}}), "must have model-initializer job"),
    "replicated": (
        spec("plain", runtimePatches=patched({"name": "no"})),
        "must not have replicated job that doesn't exist",
    ),
    "env": (
        spec("plain", runtimePatches=patched(pods(containers=[{"name": "node", "env": _ENV}]))),
        "must not have envs for the",
    ),
    "patch-manager": (spec("plain", runtimePatches=[{"manager": "me"}]), "manager"),
    "manager": (spec("plain", managedBy="me"), "ManagedBy must be"),
    "model-name": (
        spec("torch", {"command": ["tune", "run"]}),
        "must have a supported pretrained model",
    ),
    "model-nodes": (
        spec("torchtune-llama3.2-1b", {"command": ["tune", "run"], "numNodes": 2}),
        "must be 1 for llama3_2/1B model",
    ),
    "deadline": (spec("plain", activeDeadlineSeconds=0), "activeDeadlineSeconds"),
    "launcher": (spec("alone", {"numNodes": 2}), "must have 1 when MPI trainingRuntime"),
}
"""Specs that both refuse, and a word that both say."""
_TWO: Document = {"torch": {}, "jax": {}}
BROKEN_RUNTIMES: dict[str, tuple[Document, str]] = {
    "replicas": (
        runtime("replicas", replicated("node", "trainer", replicas=2)),
        "always must be 1",
    ),
    "container": (
        runtime("container", replicated("node", "trainer", container("main"))),
        "must contain the required container for the ancestor: trainer",
    ),
    "policies": (runtime("policies", policy=_TWO), "Only one of the policy can be configured"),
}
CHANGES: dict[str, tuple[str, Document]] = {
    "image": ("full", {"path": "/spec/trainer/image", "value": "busybox:3"}),
    "runtime": ("plain", {"path": "/spec/runtimeRef/name", "value": "torch"}),
    "manager": ("plain", {"path": "/spec/managedBy", "value": _ELSEWHERE}),
    "deadline": ("late", {"path": "/spec/activeDeadlineSeconds", "value": 100}),
    "patches": ("runs", {"path": "/spec/runtimePatches", "value": _PATCHES}),
}
"""Changes that both refuse, of a case."""


def observed(user: User, name: str) -> Document:
    """What a user sees of a TrainJob that has come to rest."""
    status = user.get("trainjob", name).get("status", {})
    listed = status.get("conditions", [])
    return {
        "jobset": [_jobset(each) for each in _of(user, "jobset", name)],
        "secret": [_secret(each) for each in _of(user, "secret", f"{name}-mpi-ssh-auth")],
        "hosts": [_config(each) for each in _of(user, "configmap", f"{name}-mpi-hostfile")],
        "conditions": sorted(
            (each["type"], each["status"], each["reason"], each["message"].partition(". ")[0])
            for each in listed
            if each["type"] in TERMINAL
        ),
        "jobs": sorted(status.get("jobsStatus", []), key=lambda each: str(each["name"])),
    }


def _of(user: User, kind: str, name: str) -> list[Document]:
    """The object of a name, if there is one."""
    found = user.get(kind, "--field-selector", f"metadata.name={name}")
    return list(found["items"])


def _owners(found: Document) -> list[Document]:
    return [
        {key: value for key, value in each.items() if key != "uid"}
        for each in found["metadata"]["ownerReferences"]
    ]


def _texts(metadata: Document) -> Document:
    """Labels and annotations, without those by which ours finds an object."""
    return {
        name: {
            key: text
            for key, text in (metadata.get(name) or {}).items()
            if key != LABEL and not key.startswith("traincrew.dev/")
        }
        for name in ("labels", "annotations")
    }


def _jobset(found: Document) -> Document:
    content = found["spec"]
    return {
        "owners": _owners(found),
        **_texts(found["metadata"]),
        "suspend": content["suspend"],
        "subdomain": (content.get("network") or {}).get("subdomain"),
        "targets": (content.get("successPolicy") or {}).get("targetReplicatedJobs"),
        "claims": [
            (each["metadata"]["name"], each["spec"])
            for policy in content.get("volumeClaimPolicies", [])
            for each in policy["templates"]
        ],
        "jobs": [_job(each) for each in content["replicatedJobs"]],
    }


def _job(found: Document) -> Document:
    template = found["template"]
    pod = template["spec"]["template"]
    content = pod["spec"]
    return {
        "name": found["name"],
        "replicas": found.get("replicas", 1),
        "dependsOn": found.get("dependsOn"),
        **_texts(template.get("metadata") or {}),
        **{name: template["spec"].get(name) for name in ("parallelism", "completions")},
        "pods": _texts(pod.get("metadata") or {}),
        **{name: content.get(name) for name in ("nodeSelector", "tolerations")},
        "volumes": [each for each in content.get("volumes", []) if each["name"] != TOKEN],
        "containers": [_container(each) for each in content["containers"]],
    }


def _container(found: Document) -> Document:
    fields = ("name", "image", "command", "args", "envFrom", "securityContext")
    return {
        **{name: found.get(name) for name in fields},
        # Theirs writes quantities as strings.
        "resources": {
            kind: {name: str(amount) for name, amount in amounts.items()}
            for kind, amounts in (found.get("resources") or {}).items()
        },
        "ports": [each["containerPort"] for each in found.get("ports", [])],
        "env": [each for each in found.get("env", []) if not each["name"].startswith(OURS)],
        "mounts": [each for each in found.get("volumeMounts", []) if each["name"] != TOKEN],
    }


def _secret(found: Document) -> Document:
    begins = {key: text[:12] for key, text in found["data"].items()}
    return {
        "owners": _owners(found),
        "type": found["type"],
        "immutable": found.get("immutable"),
        "data": begins,
    }


def _config(found: Document) -> Document:
    return {"owners": _owners(found), "data": found["data"]}
