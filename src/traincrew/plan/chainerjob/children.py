"""The children of a ChainerJob, as documents.

Names, labels and contents are the contract of kubeflow/chainer-operator, which users' scripts and
dashboards rely on. For a job J with a worker set W:

    ServiceAccount J-launcher, Role J-launcher-role, RoleBinding J-launcher-rolebinding
    ConfigMap J-assets                 distributed jobs only
    StatefulSet J-workerset-W          one for each worker set
    Job J-master
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.chainerjob.types import (
    CONTAINER,
    OWN_MOUNTS,
    ChainerJobSpec,
    main_container,
    slots,
)
from traincrew.plan.shared import reporting
from traincrew.plan.shared.kind import RBAC
from traincrew.plan.shared.model import FINGERPRINT
from traincrew.plan.shared.templates import openmpi, podtemplate
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traincrew.api.meta import Owner
    from traincrew.plan.shared.reporting import Endpoint

LABEL_NAME = "chainerjob.kubeflow.org/name"
LABEL_ROLE = "chainerjob.kubeflow.org/role"
LABEL_SET = "chainerjob.kubeflow.org/workersetname"
ROLE_MASTER = "master"
ROLE_WORKERS = "workerset"

PATHS = openmpi.Paths(OWN_MOUNTS)
GENERATED_VOLUME = "chainer-operator-volume-generated"
KUBECTL_VOLUME = "chainer-operator-volume-kubectl"
ASSETS_VOLUME = "chainer-operator-volume-assets"
DOWNLOADER = "chainer-operator-kubectl-downloader"
GENERATOR = "chainer-operator-hostfile-generator"

POD_SUFFIX = 5
"""Random characters, letters or digits, at the end of the name of a Job's pod."""

Document = dict[str, Any]


class Names:
    """Names of a job's children."""

    def __init__(self, job: str) -> None:
        self.service_account = f"{job}-launcher"
        self.role = f"{job}-launcher-role"
        self.role_binding = f"{job}-launcher-rolebinding"
        self.assets = f"{job}-assets"
        self.master = f"{job}-master"
        self._job = job

    def workers(self, set_name: str) -> str:
        """Return the name of the StatefulSet of a worker set."""
        return f"{self._job}-workerset-{set_name}"

    def worker(self, set_name: str, index: int) -> str:
        """Return the name of a pod of a worker set."""
        return f"{self.workers(set_name)}-{index}"


def _document(
    api_version: str,
    kind: str,
    name: str,
    owner: Owner,
    *,
    labels: Mapping[str, str] | None = None,
    fingerprint: str | None = None,
    **content: Any,
) -> Document:
    metadata: Document = {
        "name": name,
        "namespace": owner.namespace,
        "labels": {**(labels or {}), LABEL_NAME: owner.name},
        "ownerReferences": [owner.owner_reference()],
    }
    if fingerprint is not None:
        metadata["annotations"] = {FINGERPRINT: fingerprint}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


# -- permissions of the pods ------------------------------------------------------------------


def service_account(owner: Owner) -> Document:
    """Return the ServiceAccount of every pod of the job; only a master with workers uses it."""
    return _document("v1", "ServiceAccount", Names(owner.name).service_account, owner)


def role(owner: Owner, sets: Sequence[str], pods: Sequence[str]) -> Document:
    """Return the Role with the permissions needed to start processes on the workers, and no more.

    Args:
        owner: The job.
        sets: The StatefulSets that may be read.
        pods: The pods that processes may be started in.
    """
    rules: list[Document] = []
    if sets:  # an empty list of names would mean every set
        rules = [
            {
                "apiGroups": ["apps"],
                "resources": ["statefulsets"],
                "resourceNames": [*sets],
                "verbs": ["get"],
            }
        ]
    rules += openmpi.exec_rules(pods, "list")
    return _document(f"{RBAC}/v1", "Role", Names(owner.name).role, owner, rules=rules)


def role_binding(owner: Owner) -> Document:
    """Return the RoleBinding that grants the Role to the pods."""
    names = Names(owner.name)
    return _document(
        f"{RBAC}/v1",
        "RoleBinding",
        names.role_binding,
        owner,
        **openmpi.binding(names.service_account, owner.namespace, names.role),
    )


def assets(owner: Owner, spec: ChainerJobSpec) -> Document:
    """Return the ConfigMap with the scripts, and the worker sets with their slots."""
    names = Names(owner.name)
    data = openmpi.assets(
        PATHS,
        {names.workers(name): slots(workers) for name, workers in spec.worker_sets.items()},
        CONTAINER,
    )
    return _document("v1", "ConfigMap", names.assets, owner, fingerprint=digest(data), data=data)


# -- pods -------------------------------------------------------------------------------------


def _volumes(names: Names) -> list[Document]:
    items = [{"key": name, "path": name, "mode": 0o555} for name in openmpi.ASSETS]
    return [
        {"name": GENERATED_VOLUME, "emptyDir": {}},
        {"name": KUBECTL_VOLUME, "emptyDir": {}},
        {"name": ASSETS_VOLUME, "configMap": {"name": names.assets, "items": items}},
    ]


def _mounts() -> list[Document]:
    return [
        {"name": GENERATED_VOLUME, "mountPath": PATHS.generated},
        {"name": KUBECTL_VOLUME, "mountPath": PATHS.kubectl},
        {"name": ASSETS_VOLUME, "mountPath": PATHS.assets},
    ]


def _downloader(template: Document, image: str) -> Document:
    main = main_container(template) or {}
    return openmpi.kubectl_container(DOWNLOADER, image, main, PATHS, _mounts())


def _generator(template: Document, image: str, master_slots: int) -> Document:
    return podtemplate.helper(
        GENERATOR,
        image,
        main_container(template) or {},
        command=[f"{PATHS.assets}/{openmpi.GENERATE_HOSTFILE}"],
        args=[
            PATHS.hostfile,
            "$(POD_NAME)",
            f"slots={master_slots}",
            f"{PATHS.assets}/{openmpi.SETS_AND_SLOTS}",
        ],
        env=[{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        volumeMounts=_mounts(),
    )


def _pod(owner: Owner, template: Document, labels: Mapping[str, str]) -> Document:
    pod = podtemplate.plain(template)
    pod = podtemplate.with_labels(pod, labels)
    pod = podtemplate.with_cluster_names(pod)
    pod["spec"].pop("serviceAccount", None)  # the deprecated name of the field
    return podtemplate.with_spec(pod, serviceAccountName=Names(owner.name).service_account)


def _hosts(owner: Owner, spec: ChainerJobSpec) -> list[str]:
    """Return names like those in the hostfile: the longest of each kind."""
    names = Names(owner.name)
    return [
        f"{names.master}-{'x' * POD_SUFFIX}",
        *(names.worker(name, 0) for name in spec.worker_sets),
    ]


def _with_mpi(
    owner: Owner, spec: ChainerJobSpec, template: Document, init_steps: Iterable[Document]
) -> Document:
    """Add what a pod needs to take part in an MPI job."""
    variables = openmpi.environment(PATHS) | openmpi.host_name_environment(_hosts(owner, spec))

    def mounted(container: Document) -> Document:
        return podtemplate.add_mounts(container, _mounts())

    def ready(container: Document) -> Document:
        return podtemplate.add_env(mounted(container), variables)

    template = podtemplate.map_containers(template, ready)
    template = podtemplate.map_containers(template, mounted, init=True)
    template = podtemplate.with_volumes(template, _volumes(Names(owner.name)))
    return podtemplate.with_init_containers(template, init_steps)


def master(
    owner: Owner, spec: ChainerJobSpec, helper_image: str, endpoint: Endpoint | None = None
) -> Document:
    """Return the Job of the master; its program, with rank 0, reports progress to an endpoint.

    A pod that is evicted, preempted or lost with its node is not a failure of the program, so it
    does not use up a retry. (The Job API allows such rules only with restartPolicy Never.)
    """
    labels = {LABEL_NAME: owner.name, LABEL_ROLE: ROLE_MASTER}
    template = _pod(owner, spec.master.template, labels)
    template = podtemplate.with_default(template, restartPolicy="Never")
    if spec.distributed:
        steps = [
            _downloader(template, helper_image),
            _generator(template, helper_image, slots(spec.master)),
        ]
        template = _with_mpi(owner, spec, template, steps)
    else:
        template = podtemplate.without_token(template)
    main = podtemplate.index_of(template, CONTAINER)
    template = reporting.with_reporting(template, endpoint, owner, main)
    template = podtemplate.with_log_fallback(template)
    content: Document = {"completions": 1, "parallelism": 1}
    if spec.backoff_limit is not None:
        content["backoffLimit"] = spec.backoff_limit
    if spec.active_deadline_seconds is not None:
        content["activeDeadlineSeconds"] = spec.active_deadline_seconds
    if template["spec"]["restartPolicy"] == "Never":
        condition = {"type": "DisruptionTarget", "status": "True"}
        content["podFailurePolicy"] = {
            "rules": [{"action": "Ignore", "onPodConditions": [condition]}]
        }
    return _document(
        "batch/v1",
        "Job",
        Names(owner.name).master,
        owner,
        labels={**owner.labels, LABEL_ROLE: ROLE_MASTER},
        fingerprint=master_fingerprint(spec),
        spec={**content, "template": template},
    )


def master_fingerprint(spec: ChainerJobSpec) -> str:
    """Return the hash of what the spec says about the master's pod; see `workers` for the rest."""
    if not spec.distributed:
        return digest(spec.master.template)
    return digest(spec.master.template, slots(spec.master))


def workers(
    owner: Owner,
    spec: ChainerJobSpec,
    set_name: str,
    helper_image: str,
    endpoint: Endpoint | None = None,
) -> Document:
    """Return the StatefulSet of a worker set, whose ranks report their positions to an endpoint.

    The fingerprint covers the user's template, not the generated one: a new version of the operator
    must not restart the workers of a running job.
    """
    workers = spec.worker_sets[set_name]
    labels = {LABEL_NAME: owner.name, LABEL_ROLE: ROLE_WORKERS, LABEL_SET: set_name}
    template = _pod(owner, workers.template, labels)
    template = _with_mpi(owner, spec, template, [_downloader(template, helper_image)])
    template = podtemplate.without_token(template)
    # What mpiexec starts by kubectl exec has the environment of the container.
    main = podtemplate.index_of(template, CONTAINER)
    template = reporting.with_reporting(template, endpoint, owner, main)
    template = podtemplate.with_log_fallback(template)
    name = Names(owner.name).workers(set_name)
    return _document(
        "apps/v1",
        "StatefulSet",
        name,
        owner,
        labels={**owner.labels, LABEL_ROLE: ROLE_WORKERS, LABEL_SET: set_name},
        fingerprint=digest(workers.template),
        spec={
            "podManagementPolicy": "Parallel",
            "replicas": workers.replicas,
            # Our labels only: the user's labels may change, a selector may not.
            "selector": {"matchLabels": labels},
            "serviceName": name,
            "template": template,
        },
    )
