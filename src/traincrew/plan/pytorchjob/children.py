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
    TYPES,
    WORKER,
    ElasticPolicy,
    PyTorchJobSpec,
)
from traincrew.plan.shared.model import FINGERPRINT
from traincrew.plan.shared.replicas.places import Place, Replicas
from traincrew.plan.shared.replicas.trainingoperator import Training
from traincrew.plan.shared.writes import digest

if TYPE_CHECKING:
    from traincrew.api.meta import Owner
    from traincrew.plan.shared.reporting import Endpoint

COMPONENT = "pytorchjob-controller"
"""Source component of events."""
TRAINING = Training(
    component=COMPONENT,
    types=TYPES,
    container=CONTAINER,
    port_name=PORT_NAME,
    default_port=DEFAULT_PORT,
)
LABELS = TRAINING.labels

MASTER_PLACE = Place(MASTER, 0)
FIRST_WORKER = Place(WORKER, 0)
INIT_IMAGE = "alpine:3.10"
"""Image of the init container: ``PyTorchInitContainerImageDefault`` of ``pkg/config``."""
INIT_TRIES = 100
"""How often it looks for the master, at intervals of two seconds: likewise."""
AUTOSCALER = "HorizontalPodAutoscaler"

Document = dict[str, Any]


def replicas(spec: PyTorchJobSpec) -> dict[str, Replicas]:
    """Return the pods that a job asks for, by type."""
    return {
        name: Replicas(each.count, each.template, each.policy)
        for name, each in spec.pytorch_replica_specs.items()
    }


def port_of(spec: PyTorchJobSpec, type_name: str) -> int:
    """Return the port at which pods of a type are reached."""
    return TRAINING.port_of(spec.pytorch_replica_specs[type_name].template)


def service(owner: Owner, spec: PyTorchJobSpec, place: Place) -> Document:
    """Return the Service of a pod, with the ports of its container."""
    return TRAINING.service(owner, replicas(spec)[place.type], place)


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
    waits = spec.has_master and place.type == WORKER
    return TRAINING.pod(
        owner,
        replicas(spec)[place.type],
        place,
        variables(owner.name, spec, place),
        leads=place == (MASTER_PLACE if spec.has_master else FIRST_WORKER),
        init_containers=[_wait_for_master(owner.name)] if waits else [],
        endpoint=endpoint,
    )


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
            "labels": LABELS.of_job(owner.name),
            "annotations": {FINGERPRINT: digest(wanted)},
            "ownerReferences": [owner.owner_reference()],
        },
        "spec": wanted,
    }
