"""The children of an MXJob, as documents.

Names, labels and variables are the contract of training-operator 1.8.1 (``pkg/controller.v1/mxnet``
and ``common``), which users' programs and dashboards rely on. For a job J with a replica type T,
and i from 0:

    Service J-t-i    headless; its name resolves to the pod of the same name
    Pod J-t-i
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from traincrew.api.kinds.mxjobv1.types import (
    CONTAINER,
    DEFAULT_PORT,
    PORT_NAME,
    SCHEDULER,
    SERVER,
    TUNER_KEY,
    TYPES,
    WORKER,
)
from traincrew.plan.shared.replicas.places import Place, Replicas
from traincrew.plan.shared.replicas.trainingoperator import Training

if TYPE_CHECKING:
    from traincrew.api.kinds.mxjobv1.types import MXJobSpec
    from traincrew.api.meta import Owner
    from traincrew.plan.shared.reporting import Endpoint

COMPONENT = "mxjob-controller"
"""Source component of events."""
TRAINING = Training(
    component=COMPONENT,
    types=TYPES,
    container=CONTAINER,
    port_name=PORT_NAME,
    default_port=DEFAULT_PORT,
)
LABELS = TRAINING.labels

Document = dict[str, Any]


def replicas(spec: MXJobSpec) -> dict[str, Replicas]:
    """Return the pods that a job asks for, by type."""
    return {
        name: Replicas(each.count, each.template, each.policy)
        for name, each in spec.mx_replica_specs.items()
    }


def service(owner: Owner, spec: MXJobSpec, place: Place) -> Document:
    """Return the Service of a pod, with the ports of its container."""
    return TRAINING.service(owner, replicas(spec)[place.type], place)


def cluster(job: str, spec: MXJobSpec) -> dict[str, list[dict[str, Any]]]:
    """Return host and port of every pod, by type in lower case."""
    return {
        name.lower(): [
            {"url": Place(name, index).name(job), "port": TRAINING.port_of(each.template)}
            for index in range(each.count)
        ]
        for name, each in sorted(spec.mx_replica_specs.items())
    }


def variables(job: str, spec: MXJobSpec, place: Place) -> dict[str, str]:
    """Return the variables of every container of a pod, in training-operator's order."""
    hosts = cluster(job, spec)
    annotations = {
        name.lower(): (each.template.get("metadata") or {}).get("annotations") or {}
        for name, each in sorted(spec.mx_replica_specs.items())
    }
    role = place.type.lower()
    config = {
        "cluster": hosts,
        "labels": {name: found.get(TUNER_KEY, "") for name, found in annotations.items()},
        "task": {"type": role, "index": place.number},
    }
    root: dict[str, Any] = next(iter(hosts.get(SCHEDULER.lower(), ())), {"url": "", "port": 0})
    return {
        "MX_CONFIG": msgspec.json.encode(config).decode(),
        "DMLC_PS_ROOT_PORT": str(root["port"]),
        "DMLC_PS_ROOT_URI": root["url"],
        "DMLC_NUM_SERVER": str(len(hosts.get(SERVER.lower(), ()))),
        "DMLC_NUM_WORKER": str(len(hosts.get(WORKER.lower(), ()))),
        "DMLC_ROLE": role,
        "DMLC_USE_KUBERNETES": "1",
        # BytePS numbers its workers by it.
        **({"DMLC_WORKER_ID": str(place.number)} if place.type == WORKER else {}),
    }


def pod(owner: Owner, spec: MXJobSpec, place: Place, endpoint: Endpoint | None = None) -> Document:
    """Return the pod of a place; a worker's program reports its progress to an endpoint."""
    return TRAINING.pod(
        owner,
        replicas(spec)[place.type],
        place,
        variables(owner.name, spec, place),
        leads=place.type == SERVER,  # which training-operator takes for masters
        endpoint=endpoint if place.type == WORKER else None,
    )
