"""Workload slices: a job that was admitted partially grows, training on.

Nobody may raise the numbers of pods of a Workload that has quota. A second one replaces it, which
names the first and asks for more; Kueue charges the difference only, assigns the same flavors, and
finishes the first when it admits the second (`pkg/workloadslicing` of Kueue 0.19; the feature gate
`ElasticJobsViaWorkloadSlices` is on by default from 0.18). It admits such a one in full or not at
all. So the operator asks for all pods first, and for half as many more whenever they do not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from traincrew.plan.shared.model import FINGERPRINT, QueueWrite
from traincrew.plan.shared.queueing import kueue, messages, podsets, workloads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traincrew.api.meta import Owner
    from traincrew.plan.shared.queueing.podsets import PodSet
    from traincrew.plan.shared.views import WorkloadView

Document = dict[str, Any]


class Chain(Struct, frozen=True, kw_only=True):
    """The Workloads of a job that replace each other.

    Attributes:
        current: The one that the job runs with, or waits for; None if there is none.
        before: The one whose admission counts until the current one is admitted completely.
        pending: The one that waits for more quota, to replace the current one.
        rest: All others; none of them is needed any more.
    """

    current: WorkloadView | None = None
    before: WorkloadView | None = None
    pending: WorkloadView | None = None
    rest: tuple[WorkloadView, ...] = ()


def replaces(found: WorkloadView) -> str:
    """Return the name of the Workload that a Workload replaces; empty for none."""
    return found.metadata.annotations.get(kueue.REPLACES, "").rpartition("/")[2]


def _is_replaced(found: WorkloadView) -> bool:
    finished = workloads.condition(found, kueue.FINISHED) or {}
    return finished.get("status") == "True" and finished.get("reason") == kueue.SLICE_REPLACED


def chain(all_found: Iterable[WorkloadView]) -> Chain:
    """Return what each Workload of a job is.

    Args:
        all_found: All Workloads that belong to the job.
    """
    by_name = {each.metadata.name: each for each in all_found}
    alive = {name: each for name, each in by_name.items() if not _is_replaced(each)}
    granted = {n: each for n, each in alive.items() if workloads.holds(each, kueue.QUOTA_RESERVED)}
    old = {replaces(each) for each in granted.values()}
    # If none has quota, one that replaces nothing that is alive is the first of the others.
    heads = [each for name, each in granted.items() if name not in old] or [
        each for each in alive.values() if replaces(each) not in alive
    ]
    current = heads[0] if heads else None
    if current is None:
        return Chain(rest=tuple(by_name.values()))
    name = current.metadata.name
    pending = next(
        (each for n, each in alive.items() if replaces(each) == name and n != name), None
    )
    before = None
    if name in granted and not workloads.holds(current, kueue.ADMITTED):
        before = by_name.get(replaces(current))
    known = {each.metadata.name for each in (current, before, pending) if each is not None}
    rest = tuple(each for n, each in by_name.items() if n not in known)
    return Chain(current=current, before=before, pending=pending, rest=rest)


def may_grow(pods: PodSet, owner: Owner, found: WorkloadView) -> bool:
    """Return whether a set of pods of an admitted job can be asked more for while it runs.

    Not in a topology, whose elastic jobs Kueue has behind another gate. Not with a limit of time
    either, which would begin again with each Workload.
    """
    requests = (each.get("topologyRequest") for each in found.spec.get("podSets") or ())
    return (
        pods.least is not None
        and workloads.max_seconds(owner.labels) is None
        and not any(requests)
        and found.metadata.deletion_timestamp is None
    )


def grow(
    owner: Owner,
    current: WorkloadView,
    pending: WorkloadView | None,
    pods: Sequence[PodSet],
    counts: Mapping[str, int],
) -> tuple[list[QueueWrite], str]:
    """Return the writes after which a Workload asks for more pods, and what it asks for.

    The text for people is empty if none is to do so.

    Args:
        owner: The job.
        current: Its Workload, which is admitted.
        pending: The one that asks for more already.
        pods: What the job asks for.
        counts: How many pods of each set it may have now.
    """
    growing = next((each for each in pods if each.count > counts.get(each.name, 0)), None)
    if growing is None or not may_grow(growing, owner, current):
        return [], ""
    have, most = counts.get(growing.name, 0), growing.count
    if pending is None:
        wanted = _with_count(pods, growing, most)
        text = messages.growing(growing.name, have, most, None)
        return [_create(owner, current, wanted)], text
    asks = min(workloads.asked(pending).get(growing.name, 0), most)
    if pending.metadata.deletion_timestamp is not None or asks <= have:
        return [], ""
    if is_refused(pending) and asks == workloads.asked(pending).get(growing.name):
        asks = have + max(1, (asks - have) // 2)
    wanted = _with_count(pods, growing, asks)
    if workloads.same_counts(pending, wanted):
        stated = workloads.condition(pending, kueue.QUOTA_RESERVED)
        return [], messages.growing(growing.name, have, asks, stated)
    documents = [podsets.document(each) for each in wanted]
    write = QueueWrite(found=pending, patch={"spec": {"podSets": documents}})
    return [write], messages.growing(growing.name, have, asks, None)


def is_refused(found: WorkloadView) -> bool:
    """Return whether Kueue has found no quota for what a Workload asks for now."""
    stated = workloads.condition(found, kueue.QUOTA_RESERVED) or {}
    return (
        stated.get("status") == "False"
        and stated.get("reason") != kueue.WAITS_FOR_PREEMPTED
        and stated.get("observedGeneration", 0) == found.metadata.generation
    )


def _with_count(pods: Sequence[PodSet], growing: PodSet, count: int) -> list[PodSet]:
    """Return sets of pods of which one has another count; a slice cannot be admitted partially."""
    return [
        structs.replace(each, count=count if each is growing else each.count, least=None)
        for each in pods
    ]


def _create(owner: Owner, current: WorkloadView, pods: Sequence[PodSet]) -> QueueWrite:
    """Return the write that creates the Workload that is to replace another one."""
    name = current.metadata.name
    write = workloads.create(owner, str(current.spec.get("queueName") or ""), pods, None)
    assert write.create is not None
    metadata = write.create["metadata"]
    metadata["name"] = workloads.name_of(owner, after=name)
    metadata["annotations"] = {
        FINGERPRINT: podsets.fingerprint(pods),
        kueue.ELASTIC: "true",
        kueue.REPLACES: f"{owner.namespace}/{name}",
    }
    for key in ("priority", "priorityClassRef"):
        if current.spec.get(key) is not None:
            write.create["spec"][key] = current.spec[key]
    return write


def remove(found: Iterable[WorkloadView]) -> list[QueueWrite]:
    """Return the writes that delete Workloads which are not needed any more."""
    writes: list[QueueWrite] = []
    for each in found:
        writes += (
            workloads.let_go(each)
            if each.metadata.deletion_timestamp is not None
            else workloads.delete(each)
        )
    return writes
