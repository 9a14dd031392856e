"""What the definitions of other projects declare of a status; an API server stores nothing else."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS

if TYPE_CHECKING:
    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource

Schema = dict[str, Any]


def _object(properties: dict[str, Schema], **more: Any) -> Schema:
    return {"type": "object", "properties": properties, **more}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _fields(kind: str, *names: str) -> dict[str, Schema]:
    return {name: {"type": kind} for name in names}


_TEXTS = _fields("string", "type", "status", "reason", "message", "lastTransitionTime")
_CONDITIONS = _list(
    _object({**_TEXTS, **_fields("string", "lastUpdateTime")}, required=["type", "status"])
)
_META_CONDITIONS = _list(
    _object({**_TEXTS, **_fields("integer", "observedGeneration")}, required=[*_TEXTS])
)
_JOBS = _object(
    {
        **_fields("string", "name"),
        **_fields("integer", "ready", "succeeded", "failed", "active", "suspended"),
    }
)
_COUNTS = _object(
    {**_fields("integer", "active", "succeeded", "failed"), **_fields("string", "selector")}
)
KUBEFLOW_JOB = _object(
    {
        "conditions": _CONDITIONS,
        "replicaStatuses": {"type": "object", "additionalProperties": _COUNTS},
        **_fields("string", "startTime", "completionTime", "lastReconcileTime"),
    }
)
"""Of training-operator 1.9 and mpi-operator 0.8."""
JOB_SET = _object(
    {
        "conditions": _META_CONDITIONS,
        "replicatedJobsStatus": _list(_JOBS),
        **_fields("integer", "restarts", "restartsCountTowardsMax"),
        **_fields("integer", "currentInPlaceRestartAttempt", "previousInPlaceRestartAttempt"),
        **_fields("string", "terminalState"),
    }
)
"""Of JobSet 0.12."""
TRAIN_JOB = _object(
    {"conditions": {**_META_CONDITIONS, "maxItems": 8}, "jobsStatus": _list(_JOBS)},
    minProperties=1,
)
"""Of Trainer 2.2, without what a program reports."""


async def declare(client: Client, resource: Resource, status: Schema) -> Schema:
    """Let a definition declare this of the status; return what it has declared before."""
    name = f"{resource.plural}.{resource.group}"
    definition = copy.deepcopy(await client.get(CUSTOM_RESOURCE_DEFINITIONS, name))
    (version,) = definition["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    before: Schema = properties["status"]
    properties["status"] = status
    await client.replace(CUSTOM_RESOURCE_DEFINITIONS, definition)
    return before
