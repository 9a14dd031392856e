"""The children of an MxJob, as documents.

Names, labels and variables are the contract of mxnet-operator. For a job J with RuntimeId R, and
each type T (``scheduler``, ``server``, ``worker``) with i from 0:

    Service J-scheduler-R-0    of a distributed job; the other roles find the scheduler by its name
    Job J-T-R-i                with one pod
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.api.kinds.mxjob.types import CONTAINER, SCHEDULER, SERVER, WORKER
from traincrew.plan.shared import reporting
from traincrew.plan.shared.templates import accelerators, podtemplate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traincrew.api.kinds.mxjob.types import MxJobSpec, ReplicaSpec
    from traincrew.api.meta import Owner
    from traincrew.plan.shared.reporting import Endpoint
    from traincrew.plan.shared.templates.accelerators import Accelerators

LABEL_MARKER = "mxnet.mlkube.io"
"""On every child, with an empty value, in either API group."""
LABEL_TYPE = "job_type"
LABEL_RUNTIME_ID = "runtime_id"
LABEL_INDEX = "task_index"
LABEL_NAME = "mxnet.mlkube.io/job-name"
"""The name of the job; mxnet-operator had no such label."""
LABEL_ATTEMPT = "mxnet.mlkube.io/attempt"
"""The attempt that a Job and its pod belong to: a number, or ``<number>-<recoveries>``."""

PORT_NAME = "ps-root-port"
HEARTBEATS = {"PS_HEARTBEAT_INTERVAL": "1", "PS_HEARTBEAT_TIMEOUT": "5"}
"""With these, in seconds, the other roles notice the loss of a worker and readmit it."""
HEARTBEAT_TIMEOUT = "PS_HEARTBEAT_TIMEOUT"
USE_KUBERNETES = {"DMLC_USE_KUBERNETES": "1"}
"""Lets the scheduler listen on all addresses; it cannot bind to the name of a Service."""

Document = dict[str, Any]


class Place(NamedTuple):
    """The type and index of a replica."""

    type: str
    """As in ``mxReplicaType``, in capitals."""
    number: int

    @property
    def key(self) -> str:
        """The name of the place, unique within the job."""
        return f"{self.type.lower()}-{self.number}"

    def name(self, job: str, runtime_id: str) -> str:
        """Return the name of the replica's Job."""
        return f"{job}-{self.type.lower()}-{runtime_id}-{self.number}"


ROOT = Place(SCHEDULER, 0)
"""The scheduler."""


def places(spec: MxJobSpec) -> Iterator[tuple[Place, ReplicaSpec]]:
    """Yield the place of every replica, in the order of the spec."""
    for replica in spec.replica_specs:
        for index in range(replica.replicas):
            yield Place(replica.mx_replica_type, index), replica


def labels(job: str, runtime_id: str, place: Place) -> dict[str, str]:
    """Return the labels of a replica's Job and pod, which also select its pods."""
    return {
        LABEL_MARKER: "",
        LABEL_TYPE: place.type,
        LABEL_RUNTIME_ID: runtime_id,
        LABEL_INDEX: str(place.number),
        LABEL_NAME: job,
    }


def service(owner: Owner, spec: MxJobSpec, runtime_id: str) -> Document:
    """Return the scheduler's Service.

    It selects by mxnet-operator's four labels and the name of the job: users choose RuntimeIds, and
    two jobs with the same one must not meet each other's scheduler.
    """
    mine = labels(owner.name, runtime_id, ROOT)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(owner, ROOT.name(owner.name, runtime_id), mine),
        "spec": {
            "selector": mine,
            "ports": [{"name": PORT_NAME, "port": spec.port}],
        },
    }


def variables(owner: Owner, spec: MxJobSpec, runtime_id: str, place: Place) -> dict[str, str]:
    """Return the environment variables of a replica's container mxnet, in upstream's order."""
    if not spec.distributed:
        return {}
    return {
        "DMLC_PS_ROOT_PORT": str(spec.port),
        "DMLC_PS_ROOT_URI": ROOT.name(owner.name, runtime_id),
        "DMLC_NUM_SERVER": str(spec.replicas_of(SERVER)),
        "DMLC_NUM_WORKER": str(spec.replicas_of(WORKER)),
        "DMLC_ROLE": place.type.lower(),
        **USE_KUBERNETES,
        **(HEARTBEATS if spec.recover_workers else {}),
    }


def heartbeat_timeout(spec: MxJobSpec) -> int:
    """Return the seconds after which the scheduler notices the loss of a worker; 0 for never.

    A template may set them. A value that is not in the template, or no number, is unknown: it is
    taken to be the operator's.
    """
    for replica in spec.replica_specs:
        if replica.mx_replica_type != SCHEDULER:
            continue
        for container in replica.template["spec"].get("containers", []):
            for entry in container.get("env") or []:
                value = str(entry.get("value", ""))
                named = container.get("name") == CONTAINER and entry.get("name")
                if named == HEARTBEAT_TIMEOUT and value.isdecimal():
                    return int(value)
    return int(HEARTBEATS[HEARTBEAT_TIMEOUT])


def job(
    owner: Owner,
    spec: MxJobSpec,
    runtime_id: str,
    place: Place,
    *,
    replica: ReplicaSpec,
    attempt: str,
    configured: Accelerators = accelerators.NO_ACCELERATORS,
    endpoint: Endpoint | None = None,
) -> Document:
    """Return the Job of a replica.

    It never replaces its pod, and keeps in its status how that ended, even if the pod is gone: with
    which exit code, or that it was disrupted. What follows is decided for the job as a whole.
    """
    mine = {**labels(owner.name, runtime_id, place), LABEL_ATTEMPT: attempt}
    template = podtemplate.plain(replica.template)
    template = podtemplate.with_labels(template, mine)
    template = podtemplate.with_spec(template, restartPolicy="Never")
    template = podtemplate.with_cluster_names(template)
    template = accelerators.apply(template, configured)
    added = variables(owner, spec, runtime_id, place)
    template = podtemplate.map_containers(template, lambda each: _with_variables(each, added))
    if place.type == WORKER:
        main = podtemplate.index_of(template, CONTAINER)
        template = reporting.with_reporting(template, endpoint, owner, main)
    template = podtemplate.with_log_fallback(template)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(owner, place.name(owner.name, runtime_id), mine),
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    },
                    {
                        "action": "FailJob",
                        "onExitCodes": {"operator": "NotIn", "values": [0]},
                    },
                ]
            },
            "template": template,
        },
    }


def overridden(owner: Owner, spec: MxJobSpec, runtime_id: str) -> Iterator[tuple[str, str]]:
    """Yield the paths and names of variables that templates set and that are ours otherwise."""
    for index, replica in enumerate(spec.replica_specs):
        ours = variables(owner, spec, runtime_id, Place(replica.mx_replica_type, 0))
        for number, container in enumerate(replica.template["spec"].get("containers", [])):
            if container.get("name") != CONTAINER:
                continue
            path = f"spec.replicaSpecs[{index}].template.spec.containers[{number}].env"
            for entry in container.get("env") or []:
                if entry.get("name") in ours.keys() - HEARTBEATS.keys() - USE_KUBERNETES.keys():
                    yield path, entry["name"]


def _with_variables(container: Document, added: Mapping[str, str]) -> Document:
    if container.get("name") != CONTAINER:
        return container
    return podtemplate.add_env(container, added) if added else container


def _metadata(owner: Owner, name: str, mine: Mapping[str, str]) -> Document:
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": dict(mine),
        "ownerReferences": [owner.owner_reference()],
    }
