"""Which Jobs may exist and run now: the startup policy and what depends on what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from traincrew.api.kinds.jobset.types import JobSetSpec, ReplicatedJob
    from traincrew.plan.jobset.status import JobSetStatus, ReplicatedJobStatus


class Opened(Struct, frozen=True, kw_only=True):
    """The replicated jobs whose turn it is.

    Attributes:
        jobs: They, in order.
        waits: Whether others follow when these are ready, by the startup policy.
    """

    jobs: tuple[ReplicatedJob, ...]
    waits: bool = False


def opened(spec: JobSetSpec, numbers: JobSetStatus) -> Opened:
    """Return the replicated jobs whose Jobs are created and resumed now.

    Args:
        spec: The desired state; suspended Jobs are created in any order.
        numbers: The status with the counts of this reconcile.
    """
    found: list[ReplicatedJob] = []
    for each in spec.replicated_jobs:
        if not _has_what_it_needs(spec, each, numbers):
            continue
        found.append(each)
        in_order = spec.in_order and not spec.suspend
        if in_order and not _has_started(each, numbers.of(each.name)):
            return Opened(jobs=tuple(found), waits=True)
    return Opened(jobs=tuple(found))


def _has_what_it_needs(spec: JobSetSpec, each: ReplicatedJob, numbers: JobSetStatus) -> bool:
    for needed in each.depends_on or ():
        other, counts = spec.named(needed.name), numbers.of(needed.name)
        if other is None:
            return False
        if needed.status == "Complete" and counts.succeeded != other.count:
            return False
        if needed.status == "Ready" and not _has_started(other, counts):
            return False
    return True


def _has_started(each: ReplicatedJob, counts: ReplicatedJobStatus) -> bool:
    return counts.ready + counts.succeeded + counts.failed == each.count
