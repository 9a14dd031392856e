"""The status of an MxJob: mxnet-operator's fields, beside those that all kinds share."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from traincrew.api.kinds.mxjob.types import KIND
from traincrew.api.meta import Condition
from traincrew.api.reasons import Cause
from traincrew.plan.mxjob.children import LABEL_TYPE
from traincrew.plan.mxjob.observed import State
from traincrew.plan.shared import lifecycle
from traincrew.plan.shared.lifecycle import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traincrew.plan.mxjob.observed import ObservedJob
    from traincrew.plan.shared.views import ObservedPod

CREATING, DONE = "Creating", "Done"
"""Phases of mxnet-operator, beside Running and Failed."""
UNKNOWN, RUNNING, FAILED, SUCCEEDED = "Unknown", "Running", "Failed", "Succeeded"
"""States of replicas, and of a type of them."""
_NOT_SET_UP = frozenset({Cause.INVALID.value, Cause.REFUSED.value})
"""Reasons of a job that failed before anything ran."""
_STATES = {
    State.ABSENT: UNKNOWN,
    State.LEAVING: UNKNOWN,
    State.PENDING: RUNNING,
    State.RUNNING: RUNNING,
    State.SUCCEEDED: SUCCEEDED,
    State.FAILED: FAILED,
}
"""A replica without a pod, or whose pod is waiting, counts as running, as with mxnet-operator."""


class TypeStatus(Struct, kw_only=True):
    """An entry of ``replicaStatuses``, in mxnet-operator's spelling."""

    mx_replica_type: str = field(default="", name="Mx_replica_type")
    state: str = UNKNOWN
    states: dict[str, int] = field(default_factory=dict, name="ReplicasStates")
    active: int = 0
    ready: int = 0


class MxJobStatus(Status, rename="camel", kw_only=True, omit_defaults=True):
    """``status`` of an MxJob. In the stored form `types` is ``replicaStatuses``."""

    types: list[TypeStatus] = field(default_factory=list)
    runtime_id: str = ""
    ps_root_port: int = 0
    attempt: int = 0
    failures: int = 0
    recoveries: dict[str, int] = field(default_factory=dict)
    recreate_after: str = ""
    last_restart_time: str = ""
    last_restart_reason: str = ""


def read(status: Mapping[str, Any]) -> MxJobStatus:
    """Decode a stored status, also one that mxnet-operator has written.

    It wrote no conditions; a job that had ended under it has ended. When it was restarted it marked
    ended jobs as failed, with the phase as the reason; their state still says how they ended.
    """
    types = status.get("replicaStatuses") or []
    plain = {**status, "replicaStatuses": {}, "types": types}
    conditions = plain.get("conditions") or []
    plain["conditions"] = [each for each in conditions if "status" in each]
    found = lifecycle.read(plain, MxJobStatus)
    if not found.conditions and status.get("phase") in {DONE, FAILED}:
        state = status.get("state")
        ended = Condition(
            type=lifecycle.SUCCEEDED if state == SUCCEEDED else lifecycle.FAILED,
            status="True",
            reason=f"{KIND}{SUCCEEDED if state == SUCCEEDED else FAILED}",
            message="The job ended under another operator.",
        )
        if not state:
            ended.message = status.get("reason") or ended.message
            if status["phase"] == FAILED:
                ended.reason = Cause.INVALID.value
        found.conditions.append(ended)
    return found


def document(status: MxJobStatus, pods: Iterable[ObservedPod]) -> dict[str, Any]:
    """Return the whole status as plain data.

    Args:
        status: The status.
        pods: The existing pods; those of a finished job may still end.
    """
    plain = lifecycle.document(status)
    plain.pop("types", None)
    plain = {"restarts": 0, **plain, "phase": phase(status), "controlPaused": False}
    # In mxnet-operator's status it is a text; the condition has the word.
    plain.pop("reason", None)
    failed = status.condition(lifecycle.FAILED)
    if failed is not None and failed.is_true:
        plain["reason"] = failed.message
    if status.finished:
        plain.pop("recreateAfter", None)
    if plain["phase"] == DONE:
        plain["state"] = SUCCEEDED if status.holds(lifecycle.SUCCEEDED) else FAILED
    by_type: dict[str, list[ObservedPod]] = {}
    for pod in pods:
        by_type.setdefault(pod.metadata.labels.get(LABEL_TYPE, ""), []).append(pod)
    plain["replicaStatuses"] = [
        {
            **msgspec.to_builtins(each),
            "active": sum(pod.active for pod in by_type.get(each.mx_replica_type, [])),
            "ready": sum(pod.ready for pod in by_type.get(each.mx_replica_type, [])),
        }
        for each in status.types
    ]
    return plain


def phase(status: MxJobStatus) -> str:
    """Return the phase in mxnet-operator's words."""
    if status.holds(lifecycle.SUCCEEDED):
        return DONE
    failed = status.condition(lifecycle.FAILED)
    if failed is not None and failed.is_true:
        return FAILED if failed.reason in _NOT_SET_UP else DONE
    if status.holds(lifecycle.SUSPENDED):
        return lifecycle.SUSPENDED
    return RUNNING if status.holds(lifecycle.RUNNING) else CREATING


def of_types(current: ObservedJob) -> list[TypeStatus]:
    """Return the states of the replicas, by type in the order of the spec."""
    found: dict[str, TypeStatus] = {}
    for replica in current.replicas:
        entry = found.setdefault(replica.place.type, TypeStatus(mx_replica_type=replica.place.type))
        word = _STATES[replica.state]
        entry.states[word] = entry.states.get(word, 0) + 1
    for entry in found.values():
        entry.state = _summary(entry.states)
    return list(found.values())


def at_the_end(types: Iterable[TypeStatus], pods: Iterable[ObservedPod]) -> list[TypeStatus]:
    """Return the states of a job that has ended: what does not run any more is not Running.

    A replica that was stopped has neither succeeded nor failed: its state is Unknown, as that of a
    replica without a Job.

    Args:
        types: The states before.
        pods: The existing pods.
    """
    left = Counter(pod.metadata.labels.get(LABEL_TYPE, "") for pod in pods if pod.active)
    found = []
    for each in types:
        states = dict(each.states)
        running = min(states.pop(RUNNING, 0), left[each.mx_replica_type])
        stopped = each.states.get(RUNNING, 0) - running
        added = {RUNNING: running, UNKNOWN: states.pop(UNKNOWN, 0) + stopped}
        states |= {word: count for word, count in added.items() if count}
        if states == each.states:
            states = each.states
        found.append(msgspec.structs.replace(each, states=states, state=_summary(states)))
    return found


def _summary(states: Mapping[str, int]) -> str:
    """Return the state of a type, by mxnet-operator's rule."""
    for word in (FAILED, RUNNING):
        if states.get(word):
            return word
    return SUCCEEDED if set(states) == {SUCCEEDED} else UNKNOWN
