"""Attempts that make no progress: ``progressDeadlineSeconds`` of the run policy, for every kind.

A program that hangs has no exit code. What can be known of it from outside is that it writes no
output, that nothing happens to its pods, and that its reports of progress, if it sends any, do not
advance. All of it is known by its time:

- The time of the last report that advanced is in the status of the job.
- The status of pods has the times of its changes (conditions, starts and ends of containers), so
  they are known without any request, and also to an operator that has just started.
- Only if all of them are older than the deadline, the time of each running container's last line of
  output is read: not the log. One recent line is sufficient, so usually one container is asked,
  once per deadline.

A job is stalled only if all of its running containers are known to be silent, and if the API server
has confirmed that the pods are those of the cache. Output that cannot be read is not silence. With
``progressSource: Reports`` output is not read once the program has reported in the attempt.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from traincrew.api.meta import parse_time
from traincrew.api.reasons import Cause
from traincrew.plan.shared import advancing
from traincrew.plan.shared import progress as reported
from traincrew.plan.shared.model import Confirm, LogKey, Output, OutputQuery

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from traincrew.api.runpolicy import CommonPolicy
    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.progress import ReportedProgress
    from traincrew.plan.shared.views import ObservedPod

NO_PROGRESS = Cause.NO_PROGRESS.value
"""Reason of conditions and events."""
RETRY_SECONDS = 30.0
"""Seconds until output that could not be read is read again."""


class Stalled(Struct, frozen=True):
    """There was no sign of life for as long as the run policy allows.

    Attributes:
        seconds: The deadline.
        progress: The newest report of the program in this attempt, if there is one.
        by_reports: Whether output did not count.
    """

    seconds: int
    progress: ReportedProgress | None = None
    by_reports: bool = False

    @property
    def message(self) -> str:
        """What is reported; without a period, or a semicolon, which begins what follows from it."""
        text = f"No output and no status change of any pod for {self.seconds} s"
        if self.progress is None:
            return text
        if self.by_reports:
            text = advancing.no_advance(self.progress, self.seconds)
        found = self.progress.ranks
        if found is None or (rank := found.stopped_first) is None:
            return text
        return f"{text}. {advancing.stopped(found, rank)}"


class Wait(Struct, frozen=True):
    """It is too early to decide.

    Attributes:
        seconds: When to assess the job again.
    """

    seconds: float


Verdict = Stalled | Wait | OutputQuery | Confirm


def assess(
    observed: Observed,
    policy: CommonPolicy,
    now: datetime,
    pods: Sequence[ObservedPod] | None = None,
) -> Verdict | None:
    """Decide whether a job makes progress; only for a job that is running.

    Args:
        observed: The pods, whether they are confirmed, known outputs, and the progress that is
            stored after this reconcile.
        policy: The run policy.
        now: The time before any output was read for this reconcile.
        pods: The pods of `observed` in the order in which their output is read; by default by name.

    Returns:
        None if the job has no such deadline, or if a container is just not running or its state
        not known: its next change requeues the job. `Stalled` may be acted on; but first it has to
        be stored that it is (`podrecords.stall`).
    """
    if policy.progress_deadline_seconds is None:
        return None
    members = observed.pods if pods is None else pods
    keys, last = _running_containers(members), last_change(members)
    if not keys or last is None:
        return None
    progress, outputs = observed.progress, [observed.outputs.get(key) for key in keys]
    signs = [each.written_at for each in outputs if each is not None and each.written_at]
    expected = progress is not None and reported.is_expected(
        progress, advancing.began(observed.pods)
    )
    by_reports = expected and policy.progress_source == "Reports"
    if by_reports:
        signs = []
    if progress is not None and progress.advanced_at is not None:
        signs.append(progress.advanced_at)
    # A node's clock may be ahead of ours.
    last = min(now, max([last, *signs]))
    deadline = timedelta(seconds=policy.progress_deadline_seconds)
    if (left := last + deadline - now) > timedelta(0):
        return Wait(left.total_seconds())
    stalled = Stalled(policy.progress_deadline_seconds, progress if expected else None, by_reports)
    if by_reports:
        return stalled if observed.confirmed else Confirm()
    read = [each for each in outputs if each is not None and each.read_at >= now]
    if not all(each.known for each in read):
        return Wait(min(RETRY_SECONDS, deadline.total_seconds()))
    if len(read) < len(keys):
        return OutputQuery(keys=_liveliest_first(keys, observed), since=now - deadline)
    return stalled if observed.confirmed else Confirm()


def last_change(pods: Sequence[ObservedPod]) -> datetime | None:
    """Return when the status of any pod last changed; None if that is not known."""
    # Kubernetes writes all of them in one format, in which later texts are greater.
    newest = max((time for pod in pods for time in _times(pod) if time), default=None)
    return parse_time(newest) if newest is not None else None


def _times(pod: ObservedPod) -> Iterator[str | None]:
    yield pod.metadata.creation_timestamp
    yield pod.metadata.deletion_timestamp
    for condition in pod.status.conditions:
        yield condition.last_transition_time
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if container.state.running is not None:
            yield container.state.running.started_at
        for state in (container.state, container.last_state):
            if state.terminated is not None:
                yield state.terminated.finished_at


def _running_containers(pods: Sequence[ObservedPod]) -> list[LogKey]:
    """Return the running containers of running pods, without sidecars among the init containers.

    Empty if a container of these pods waits to be started again, or if its state is not known.
    """
    found = []
    for pod in pods:
        if not pod.running:
            continue
        if not pod.status.container_statuses:
            return []
        for container in pod.status.container_statuses:
            name, uid = pod.metadata.name, pod.metadata.uid
            if container.state.running is not None:
                key = LogKey(name, uid, container.name, container.restart_count, previous=False)
                found.append(key)
            elif container.state.terminated is None:
                return []
    return found


def _liveliest_first(keys: Sequence[LogKey], observed: Observed) -> tuple[LogKey, ...]:
    """Order containers so that one that still writes output is probably read first."""

    def silence(key: LogKey) -> float:
        output = observed.outputs.get(key)
        if output is None or output.written_at is None:
            return 0.0
        return -output.written_at.timestamp()

    return tuple(sorted(keys, key=silence))


def output_after(before: Output | None, text: str | None, read_at: datetime) -> Output:
    """Return what is known about a container's output after its last line was read.

    Args:
        before: What was known before.
        text: The last line with its time (``2026-01-31T08:15:00.123456789Z text``), which may be
            cut off; empty if there is no line, None if it could not be read.
        read_at: When.
    """
    stamp = text.partition(" ")[0] if text is not None else None
    if before is not None and stamp is not None and stamp == before.stamp:
        return msgspec.structs.replace(before, read_at=read_at, known=True)
    earlier = before.stamp if before is not None else None
    written_at = before.written_at if before is not None else None
    if stamp:
        try:
            written_at = min(parse_time(stamp), read_at)
        except ValueError:  # the kubelet's own error message
            stamp = None
    elif stamp is not None and earlier:
        # The log was rotated, and so has grown since it was last read.
        written_at = read_at
    if stamp is None:
        return Output(read_at=read_at, known=False, stamp=earlier, written_at=written_at)
    return Output(read_at=read_at, known=True, stamp=stamp, written_at=written_at)


__all__ = [
    "NO_PROGRESS",
    "RETRY_SECONDS",
    "Stalled",
    "Verdict",
    "Wait",
    "assess",
    "last_change",
    "output_after",
]
