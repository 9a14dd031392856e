"""Attempts of a one-shot command: counts those that failed.

The kubelet restarts the container in its pod, which counts as far as that pod lives. A pod that is
replaced starts at zero again, so the status has the total, and a record of how many of them were
those of the newest pod (`podrecords`). A container that was ended together with its pod, by an
eviction, with a node or by somebody who deleted the pod, is no failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.api.kinds.mpicluster.types import MASTER_CONTAINER
from traincrew.plan.shared import podrecords, pods, programs
from traincrew.plan.shared.podrecords.text import short_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traincrew.plan.shared.podrecords import PodRecord
    from traincrew.plan.shared.views import ContainerStatus, ObservedPod, Terminated

PLACE = "attempt"
"""Key of the record."""


def container(pod: ObservedPod) -> ContainerStatus | None:
    """Return the status of the container that the command runs in."""
    return programs.program(pod, (MASTER_CONTAINER,))


def end(pod: ObservedPod) -> Terminated | None:
    """Return how the command ended, if it does not run at the moment."""
    status = container(pod)
    if status is None or status.state.running is not None:
        return None
    if status.state.terminated is not None:
        return status.state.terminated
    return status.last_state.terminated if status.state.waiting is not None else None


def last_failure(pod: ObservedPod) -> Terminated | None:
    """Return how the last attempt that failed in this pod ended."""
    status = container(pod)
    if status is None:
        return None
    ended = status.state.terminated or status.last_state.terminated
    return ended if ended is not None and ended.exit_code != 0 else None


def has_succeeded(pod: ObservedPod) -> bool:
    """Return whether the command has ended with 0, and not because the pod is being deleted."""
    ended = end(pod)
    return ended is not None and ended.exit_code == 0 and pod.metadata.deletion_timestamp is None


def failures(pod: ObservedPod) -> int:
    """Return how often the command has failed in this pod."""
    status = container(pod)
    count = status.restart_count if status is not None else 0
    if pod.metadata.deletion_timestamp is not None or pods.was_disrupted(pod):
        return count
    ended = end(pod)
    failed = ended is not None and ended.exit_code != 0
    return count + (failed or pod.status.phase == "Failed")


def count(record: PodRecord | None, pod: ObservedPod | None) -> tuple[PodRecord | None, int]:
    """Return the new record, and the number of failures that have not been counted yet.

    Args:
        record: The record of the newest pod so far.
        pod: The pod of the master, if there is one.
    """
    if pod is None:
        return record, 0
    found = failures(pod)
    if record is not None and podrecords.is_of(record, pod):
        if record.stalled:  # it is counted, and ends by our doing
            return record, 0
        known = max(found, record.restarts)
        return _record(pod, known), known - record.restarts
    if record is not None and pod.metadata.creation_timestamp < record.created:
        return record, 0
    return _record(pod, found), found


def is_counted(records: Mapping[str, PodRecord], pod: ObservedPod) -> bool:
    """Return whether all failures in this pod are recorded, so that it may be deleted."""
    record = records.get(PLACE)
    return record is not None and podrecords.is_of(record, pod) and record.restarts >= failures(pod)


def _record(pod: ObservedPod, counted: int) -> PodRecord:
    return podrecords.PodRecord(
        uid=short_id(pod.metadata.uid),
        created=pod.metadata.creation_timestamp,
        restarts=counted,
    )
