"""The children of an MPIJob, as documents.

Names, labels, variables, mounts and files are the contract of mpi-operator 0.8.0
(``pkg/controller/mpi_job_controller.go``), which users' images and scripts rely on. For a job J:

    Service J                  headless: host names of the pods
    ConfigMap J-config         hostfile, discover_hosts.sh
    Secret J-ssh               a pair of ssh keys
    Pod J-worker-0, -1 and so on
    Job J-launcher
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpijob.types import (
    CONFIG_MOUNT,
    DEFAULT_SSH_MOUNT,
    LAUNCHER,
    WORKER,
    Implementation,
    MPIJobSpec,
)
from traincrew.plan.shared import reporting
from traincrew.plan.shared.model import FINGERPRINT
from traincrew.plan.shared.templates import openmpi, podtemplate
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traincrew.api.meta import Owner
    from traincrew.plan.shared.reporting import Endpoint

COMPONENT = "mpi-job-controller"
"""The source component of events."""
OPERATOR = "mpi-operator"
"""Value of `LABEL_OPERATOR`."""
_PREFIX = "training.kubeflow.org"
LABEL_OPERATOR = f"{_PREFIX}/operator-name"
LABEL_NAME = f"{_PREFIX}/job-name"
LABEL_ROLE = f"{_PREFIX}/job-role"
LABEL_INDEX = f"{_PREFIX}/replica-index"

HOSTFILE = "hostfile"
DISCOVER_HOSTS = "discover_hosts.sh"
CONFIG_VOLUME = "mpi-job-config"
SSH_VOLUME = "ssh-auth"
SSH_SECRET = "kubernetes.io/ssh-auth"  # noqa: S105 - the type of a Secret
PRIVATE_KEY = "ssh-privatekey"
PUBLIC_KEY = "ssh-publickey"
SSHD = ("/usr/sbin/sshd", "-De")

Document = dict[str, Any]


class Names:
    """Names of a job's children."""

    def __init__(self, job: str) -> None:
        self.service = job
        self.config = f"{job}-config"
        self.ssh = f"{job}-ssh"
        self.launcher = f"{job}-launcher"
        self._job = job

    def worker(self, index: int) -> str:
        """Return the name of the pod of a worker."""
        return f"{self._job}-worker-{index}"

    def host(self, pod: str, namespace: str) -> str:
        """Return the name by which the launcher finds a pod."""
        return f"{pod}.{self._job}.{namespace}.svc"


def labels(job: str, role: str = "") -> dict[str, str]:
    """Return the labels of the pods of a job, or of a role, in alphabetical order."""
    of_role = {LABEL_ROLE: role.lower()} if role else {}
    return {LABEL_NAME: job, **of_role, LABEL_OPERATOR: OPERATOR}


def _document(api_version: str, kind: str, name: str, owner: Owner, **content: Any) -> Document:
    metadata = {
        "name": name,
        "namespace": owner.namespace,
        "labels": {"app": owner.name, **labels(owner.name)},
        "ownerReferences": [owner.owner_reference()],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


# -- what pods refer to -----------------------------------------------------------------------


def service(owner: Owner, spec: MPIJobSpec) -> Document:
    """Return the Service that publishes the names of all pods.

    With `runLauncherAsWorker` also before they are ready: the launcher finds itself by its name.
    """
    content = {
        "clusterIP": "None",
        "selector": labels(owner.name),
        "publishNotReadyAddresses": spec.run_launcher_as_worker,
    }
    document = _document("v1", "Service", Names(owner.name).service, owner, spec=content)
    document["metadata"]["annotations"] = {FINGERPRINT: digest(content)}
    return document


def config(owner: Owner, spec: MPIJobSpec, running: Iterable[str]) -> Document:
    """Return the ConfigMap of the launcher.

    Args:
        owner: The job.
        spec: The desired state.
        running: Names of the workers that run, for elastic programs.
    """
    data = {HOSTFILE: hostfile(owner, spec), DISCOVER_HOSTS: discover_hosts(owner, spec, running)}
    return _document("v1", "ConfigMap", Names(owner.name).config, owner, data=data)


def hostfile(owner: Owner, spec: MPIJobSpec) -> str:
    """Return the hosts of all workers with their slots, in the format of the implementation."""
    names = Names(owner.name)
    pods = [names.launcher] if spec.run_launcher_as_worker else []
    pods += [names.worker(index) for index in range(spec.workers)]
    form = "{} slots={}\n" if spec.mpi_implementation == "OpenMPI" else "{}:{}\n"
    return "".join(
        form.format(names.host(pod, owner.namespace), spec.slots_per_worker) for pod in pods
    )


def discover_hosts(owner: Owner, spec: MPIJobSpec, running: Iterable[str]) -> str:
    """Return the script that prints the hosts that run now."""
    names = Names(owner.name)
    pods = [names.launcher] if spec.run_launcher_as_worker else []
    pods += sorted(running)
    lines = "".join(f"echo {names.host(pod, owner.namespace)}\n" for pod in pods)
    return f"#!/bin/sh\n{lines}"


def secret(owner: Owner) -> Document:
    """Return the Secret with the ssh keys, but without the keys: see `Write.key_pair`."""
    return _document("v1", "Secret", Names(owner.name).ssh, owner, type=SSH_SECRET)


# -- pods -------------------------------------------------------------------------------------


def _pod(owner: Owner, spec: MPIJobSpec, role: str, host: str) -> Document:
    """Return the template of a role, with labels, host name and ssh keys."""
    replica = spec.mpi_replica_specs[role]
    template = podtemplate.plain(replica.template)
    template = podtemplate.with_labels(template, labels(owner.name, role))
    template = podtemplate.with_spec(template, hostname=host, subdomain=owner.name)
    template = podtemplate.with_cluster_names(template)
    policy = replica.restart_policy or ("OnFailure" if role == LAUNCHER else "Never")
    template = podtemplate.with_spec(template, restartPolicy=policy)
    keys: Document = {
        "secretName": Names(owner.name).ssh,
        "items": [
            {"key": PRIVATE_KEY, "path": "id_rsa"},
            {"key": PUBLIC_KEY, "path": "id_rsa.pub"},
            {"key": PUBLIC_KEY, "path": "authorized_keys"},
        ],
    }
    if spec.ssh_auth_mount_path == DEFAULT_SSH_MOUNT:
        keys["defaultMode"] = 0o600
    template = podtemplate.with_volumes(template, [{"name": SSH_VOLUME, "secret": keys}])
    return _with_main(
        template, {"K_MPI_JOB_ROLE": role.lower()}, (SSH_VOLUME, spec.ssh_auth_mount_path)
    )


def _with_main(
    template: Document, variables: Mapping[str, str], mount: tuple[str, str] | None = None
) -> Document:
    """Add variables and a mount to the first container, behind the user's.

    The last variable of a name counts.
    """
    first, *others = template["spec"]["containers"]
    env = [{"name": name, "value": value} for name, value in variables.items()]
    first = {**first, "env": [*(first.get("env") or []), *env]}
    if mount is not None:
        name, path = mount
        first = podtemplate.add_mounts(first, [{"name": name, "mountPath": path}])
    return podtemplate.with_spec(template, containers=[first, *others])


def worker(
    owner: Owner, spec: MPIJobSpec, index: int, endpoint: Endpoint | None = None
) -> Document:
    """Return the pod of a worker; its ranks report their positions to an endpoint."""
    name = Names(owner.name).worker(index)
    template = _pod(owner, spec, WORKER, name)
    # With a launcher among the workers, that has the first index.
    number = index + 1 if spec.run_launcher_as_worker else index
    template = podtemplate.with_labels(template, {LABEL_INDEX: str(number)})
    # Intel MPI and MPICH connect to the launcher by its host name alone.
    domain = f"{owner.name}.{owner.namespace}.svc.cluster.local"
    dns = template["spec"].get("dnsConfig") or {}
    dns = {**dns, "searches": [*(dns.get("searches") or []), domain]}
    template = podtemplate.with_spec(template, dnsConfig=dns)
    first, *others = template["spec"]["containers"]
    if not first.get("command") and not first.get("args"):
        first = {**first, "command": [*SSHD]}
    template = podtemplate.with_spec(template, containers=[first, *others])
    template = reporting.with_reporting(template, endpoint, owner, 0)
    template = podtemplate.with_log_fallback(template)
    kept = {
        name: template["metadata"][name]
        for name in ("labels", "annotations")
        if template["metadata"].get(name)
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **kept,
            "name": name,
            "namespace": owner.namespace,
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": template["spec"],
    }


def launcher(owner: Owner, spec: MPIJobSpec, endpoint: Endpoint | None = None) -> Document:
    """Return the Job of the launcher; its program reports its progress to an endpoint."""
    names = Names(owner.name)
    template = _pod(owner, spec, LAUNCHER, names.launcher)
    if spec.run_launcher_as_worker:
        template = podtemplate.with_labels(template, {LABEL_INDEX: "0"})
    items = [
        {"key": HOSTFILE, "path": HOSTFILE, "mode": 0o444},
        {"key": DISCOVER_HOSTS, "path": DISCOVER_HOSTS, "mode": 0o555},
    ]
    volume = {"name": CONFIG_VOLUME, "configMap": {"name": names.config, "items": items}}
    template = podtemplate.with_volumes(template, [volume])
    template = _with_main(template, variables(owner, spec), (CONFIG_VOLUME, CONFIG_MOUNT))
    template = reporting.with_reporting(template, endpoint, owner, 0)
    template = podtemplate.with_log_fallback(template)
    policy = spec.run_policy
    limits = {
        "backoffLimit": policy.backoff_limit,
        "activeDeadlineSeconds": policy.active_deadline_seconds,
    }
    content = {name: limit for name, limit in limits.items() if limit is not None}
    document = _document(
        "batch/v1", "Job", names.launcher, owner, spec={**content, "template": template}
    )
    document["metadata"]["annotations"] = {FINGERPRINT: launcher_fingerprint(spec)}
    return document


def launcher_fingerprint(spec: MPIJobSpec) -> str:
    """Return the hash of what the spec says about the launcher's pod.

    Not of the generated template: a new version of the operator must not restart a launcher.
    """
    return digest(
        spec.launcher.template,
        spec.launcher.restart_policy,
        spec.mpi_implementation,
        spec.slots_per_worker,
        spec.ssh_auth_mount_path,
        spec.run_launcher_as_worker,
    )


def variables(owner: Owner, spec: MPIJobSpec) -> dict[str, str]:
    """Return the variables by which mpirun finds the hosts, in mpi-operator's order.

    Without ranks of its own, the launcher is given no GPU.
    """
    found = _implementation(spec.mpi_implementation, spec.slots_per_worker)
    if spec.mpi_implementation == "OpenMPI":
        names = Names(owner.name)
        hosts = [names.host(pod, owner.namespace) for pod in (names.launcher, names.worker(0))]
        found |= openmpi.host_name_environment(hosts)
    if not spec.run_launcher_as_worker:
        found |= {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
    return found


def _implementation(name: Implementation, slots: int) -> dict[str, str]:
    path, patience = f"{CONFIG_MOUNT}/{HOSTFILE}", "-o ConnectionAttempts=10"
    if name == "OpenMPI":
        return {
            "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_default_hostfile": path,
            "OMPI_MCA_plm_rsh_args": patience,
            "OMPI_MCA_orte_set_default_slots": str(slots),
        }
    if name == "Intel":
        return {
            "I_MPI_HYDRA_HOST_FILE": path,
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": patience,
            "I_MPI_PERHOST": str(slots),
        }
    return {"HYDRA_HOST_FILE": path, "HYDRA_LAUNCH_EXTRA_ARGS": patience}
