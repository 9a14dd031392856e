"""The children of a PyTorchJob, as documents.

Names, labels, variables and the init container are the contract of training-operator 1.9.0
(``pkg/controller.v1/pytorch`` and ``common``), which users' programs and dashboards rely on. For a
job J with a replica type T (``Master``, ``Worker``), and i from 0:

    Service J-t-i                    headless; its name resolves to the pod of the same name
    Pod J-t-i
    HorizontalPodAutoscaler J        if ``elasticPolicy.metrics`` is set
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.pytorchjob.types import (
    CONTAINER,
    DEFAULT_PORT,
    MASTER,
    PORT_NAME,
    WORKER,
    ElasticPolicy,
    PyTorchJobSpec,
)
from traincrew.plan.shared import reporting
from traincrew.plan.shared.model import FINGERPRINT
from traincrew.plan.shared.replicas.places import Place
from traincrew.plan.shared.templates import podtemplate
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traincrew.api.meta import Owner
    from traincrew.plan.shared.reporting import Endpoint

COMPONENT = "pytorchjob-controller"
"""Value of `LABEL_OPERATOR`, and the source component of events."""
_PREFIX = "training.kubeflow.org"
LABEL_OPERATOR = f"{_PREFIX}/operator-name"
LABEL_NAME = f"{_PREFIX}/job-name"
LABEL_TYPE = f"{_PREFIX}/replica-type"
LABEL_INDEX = f"{_PREFIX}/replica-index"
LABEL_ROLE = f"{_PREFIX}/job-role"

MASTER_PLACE = Place(MASTER, 0)
FIRST_WORKER = Place(WORKER, 0)
INIT_IMAGE = "alpine:3.10"
"""Image of the init container: ``PyTorchInitContainerImageDefault`` of ``pkg/config``."""
INIT_TRIES = 100
"""How often it looks for the master, at intervals of two seconds: likewise."""
AUTOSCALER = "HorizontalPodAutoscaler"

Document = dict[str, Any]


def places(spec: PyTorchJobSpec) -> Iterator[Place]:
    """Yield the place of every desired pod, the master first."""
    for name, replica in sorted(spec.pytorch_replica_specs.items()):
        for index in range(replica.count):
            yield Place(name, index)


def selector(job: str, type_name: str) -> dict[str, str]:
    """Return the labels of all pods of a type, in alphabetical order."""
    return {LABEL_NAME: job, LABEL_OPERATOR: COMPONENT, LABEL_TYPE: type_name.lower()}


def labels(job: str, place: Place) -> dict[str, str]:
    """Return the labels of one Service, which also select its pod."""
    return {**selector(job, place.type), LABEL_INDEX: str(place.number)}


def port_of(spec: PyTorchJobSpec, type_name: str) -> int:
    """Return the port at which pods of a type are reached."""
    for port in _ports(spec.pytorch_replica_specs[type_name].template):
        if port.get("name") == PORT_NAME:
            return int(port["containerPort"])
    return DEFAULT_PORT


def _ports(template: Document) -> list[Document]:
    """Return the ports of the container that trains, with the default one."""
    main = podtemplate.index_of(template, CONTAINER)
    if main is None:
        return []
    found = list(template["spec"]["containers"][main].get("ports") or [])
    if not any(port.get("name") == PORT_NAME for port in found):
        found.append({"name": PORT_NAME, "containerPort": DEFAULT_PORT, "protocol": "TCP"})
    return found


def service(owner: Owner, spec: PyTorchJobSpec, place: Place) -> Document:
    """Return the Service of a pod, with the ports of its container."""
    mine = labels(owner.name, place)
    ports = [
        {"name": port.get("name", ""), "port": port["containerPort"]}
        for port in _ports(spec.pytorch_replica_specs[place.type].template)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": place.name(owner.name),
            "namespace": owner.namespace,
            "labels": mine,
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": {"clusterIP": "None", "selector": mine, "ports": ports},
    }


def variables(job: str, spec: PyTorchJobSpec, place: Place) -> dict[str, str]:
    """Return the variables of every container of a pod, in training-operator's order."""
    found = {"PYTHONUNBUFFERED": "1"}
    if spec.has_master:
        port, address = str(port_of(spec, MASTER)), MASTER_PLACE.name(job)
        rank = str(place.number + (place.type == WORKER))
        found |= {
            "MASTER_PORT": port,
            "PET_MASTER_PORT": port,
            "MASTER_ADDR": address,
            "PET_MASTER_ADDR": address,
            "WORLD_SIZE": str(spec.total * _processes(spec)),
            "RANK": rank,
            "PET_NODE_RANK": rank,
        }
    if spec.processes_per_node is not None:
        found["PET_NPROC_PER_NODE"] = spec.processes_per_node
    if spec.elastic_policy is None:
        return {**found, "PET_NNODES": str(spec.total)}
    return {**found, **_elastic_variables(job, spec, spec.elastic_policy)}


def _processes(spec: PyTorchJobSpec) -> int:
    """Return the number of processes of a pod, as far as training-operator knows it."""
    given = spec.processes_per_node or ""
    return int(given) if given.isascii() and given.isdecimal() else 1


def _elastic_variables(job: str, spec: PyTorchJobSpec, policy: ElasticPolicy) -> dict[str, str]:
    host = policy.rdzv_host if policy.rdzv_host is not None else FIRST_WORKER.name(job)
    port = policy.rdzv_port if policy.rdzv_port is not None else port_of(spec, WORKER)
    low, high = spec.limits
    backend = policy.rdzv_backend if policy.rdzv_backend is not None else "c10d"
    found = {
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_BACKEND": backend,
        "PET_NNODES": f"{low}:{high}",
    }
    if policy.max_restarts is not None:
        found["PET_MAX_RESTARTS"] = str(policy.max_restarts)
    if policy.n_proc_per_node is not None:
        found["PET_NPROC_PER_NODE"] = str(policy.n_proc_per_node)
    if policy.rdzv_id is not None:
        found["PET_RDZV_ID"] = policy.rdzv_id
    if policy.rdzv_conf:
        found["PET_RDZV_CONF"] = ",".join(f"{each.key}={each.value}" for each in policy.rdzv_conf)
    if policy.standalone:
        found["PET_STANDALONE"] = ""
    return found


def _wait_for_master(job: str) -> Document:
    """Return the init container of a Worker, which waits until the master's name resolves."""
    master = MASTER_PLACE.name(job)
    script = (
        f"err=1;for i in $(seq {INIT_TRIES}); do if nslookup {master}; then err=0 && break; fi;"
        "echo waiting for master; sleep 2; done; exit $err"
    )
    return {
        "name": "init-pytorch",
        "image": INIT_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "limits": {"cpu": "100m", "memory": "20Mi"},
            "requests": {"cpu": "50m", "memory": "10Mi"},
        },
        "command": ["sh", "-c", script],
    }


def pod(
    owner: Owner, spec: PyTorchJobSpec, place: Place, endpoint: Endpoint | None = None
) -> Document:
    """Return the pod of a place; its program reports its progress to an endpoint."""
    replica = spec.pytorch_replica_specs[place.type]
    template = podtemplate.plain(replica.template)
    mine = labels(owner.name, place)
    if place == (MASTER_PLACE if spec.has_master else FIRST_WORKER):
        mine[LABEL_ROLE] = "master"
    template = podtemplate.with_labels(template, mine)
    added = variables(owner.name, spec, place)
    ports = _ports(replica.template)
    template = podtemplate.map_containers(
        template, lambda container: _equipped(container, added, ports)
    )
    if spec.has_master and place.type == WORKER:
        template = podtemplate.with_init_containers(template, [_wait_for_master(owner.name)])
    policy = "Never" if replica.policy == "ExitCode" else replica.policy
    template = podtemplate.with_spec(template, restartPolicy=policy)
    template = podtemplate.with_cluster_names(template)
    main = podtemplate.index_of(template, CONTAINER)
    template = reporting.with_reporting(template, endpoint, owner, main)
    template = podtemplate.with_log_fallback(template)
    kept = {
        name: template["metadata"][name]
        for name in ("labels", "annotations", "finalizers")
        if template["metadata"].get(name)
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **kept,
            "name": place.name(owner.name),
            "namespace": owner.namespace,
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": template["spec"],
    }


def _equipped(container: Document, added: Mapping[str, str], ports: list[Document]) -> Document:
    """Add the variables behind the user's, where the last one of a name counts, and the port."""
    env = [{"name": name, "value": value} for name, value in added.items()]
    container = {**container, "env": [*(container.get("env") or []), *env]}
    return {**container, "ports": ports} if container.get("name") == CONTAINER else container


def autoscaler(owner: Owner, spec: PyTorchJobSpec) -> Document | None:
    """Return the HorizontalPodAutoscaler of the Workers; None if none is asked for."""
    policy = spec.elastic_policy
    if policy is None or policy.metrics is None:
        return None
    low, high = spec.limits
    wanted = {
        "scaleTargetRef": {
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
        },
        "minReplicas": low,
        "maxReplicas": high,
        "metrics": policy.metrics,
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": AUTOSCALER,
        "metadata": {
            "name": owner.name,
            "namespace": owner.namespace,
            "labels": {LABEL_NAME: owner.name, LABEL_OPERATOR: COMPONENT},
            "annotations": {FINGERPRINT: digest(wanted)},
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": wanted,
    }
