"""What follows from reports: the condition ``Progressing``, whether those of a running job advance.

Only for jobs whose program reports (docs/design/progress.md, "Reports"). It never ends anything.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from traincrew.api.meta import parse_time
from traincrew.plan.shared import progress as reported
from traincrew.plan.shared import ranks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from traincrew.api.meta import Condition
    from traincrew.plan.shared.model import Observed
    from traincrew.plan.shared.progress import ReportedProgress
    from traincrew.plan.shared.ranks import Position, RankProgress, RanksProgress
    from traincrew.plan.shared.views import ObservedPod

ADVANCING = "Advancing"
NOT_ADVANCING = "NotAdvancing"
RANK_BEHIND = "RankBehind"
"""Reasons of the condition."""
_IS_BEHIND = "is behind"
_STOPPED_FIRST = "stopped first"
_NAMED_RANK = re.compile(rf"\bRank (\d+) in pod (\S+) ({_IS_BEHIND}|{_STOPPED_FIRST})\b")


class NamedRank(NamedTuple):
    """The rank that a message of the condition names.

    Attributes:
        rank: Its number in the training, from 0.
        pod: Name of its pod.
        verb: What is said of it: ``is behind`` or ``stopped first``.
    """

    rank: int
    pod: str
    verb: str


def named_rank(message: str) -> NamedRank | None:
    """Return the rank that a message of the condition names; None if it names none.

    The condition has no other field for it, and the slowest rank of ``status.progress`` may be
    another one: a rank is named after two reports, or when the others have overtaken it.
    """
    found = _NAMED_RANK.search(message)
    return NamedRank(int(found[1]), found[2], found[3]) if found is not None else None


class Advance(Struct, frozen=True, kw_only=True):
    """What is said of the reports of a job.

    Attributes:
        holds: Whether they advance, and no rank is behind.
        reason: One of the reasons.
        message: The same for people.
        seconds: When to assess it again, if nothing happens; None for never.
    """

    holds: bool
    reason: str
    message: str
    seconds: float | None = None


def observe(
    observed: Observed, stored: ReportedProgress | None
) -> tuple[ReportedProgress | None, tuple[Position, ...]]:
    """Return the progress to store, and the positions of this attempt, slowest first.

    Args:
        observed: What is reported, and the pods.
        stored: What is stored.
    """
    progress, positions = reported.newest(stored, observed.progress), observed.positions
    if progress is None:
        return None, ()
    if positions or progress.ranks is not None:
        running = {pod.metadata.uid: pod.metadata.name for pod in observed.pods if pod.running}
        if running:  # what is known of the last attempt stays
            start = began(observed.pods)
            positions = ranks.current(positions, progress.ranks, running, start)
            progress = reported.with_ranks(progress, positions)
    return progress, positions


def began(pods: Sequence[ObservedPod]) -> datetime | None:
    """Return when the attempt began: the newest creation of a pod, or start of a container.

    None if no pod is active.
    """
    times = []
    for pod in pods:
        if pod.finished or pod.metadata.deletion_timestamp is not None:
            continue
        times.append(pod.metadata.creation_timestamp)
        running = (container.state.running for container in pod.status.container_statuses)
        times += [each.started_at or "" for each in running if each is not None]
    return parse_time(max(times)) if any(times) else None


def assess(
    progress: ReportedProgress | None,
    positions: Sequence[Position],
    *,
    began: datetime | None,
    deadline: int | None,
    stored: Condition | None,
    now: datetime,
) -> Advance | None:
    """Return what is said; None if there is nothing to say.

    Args:
        progress: The newest report.
        positions: Of all ranks, slowest first.
        began: When the attempt began.
        deadline: ``progressDeadlineSeconds``.
        stored: The condition as it is stored.
        now: The time.
    """
    if progress is None or not reported.is_expected(progress, began):
        return None
    left = seconds_left(progress, began, deadline, now)
    if left is not None and left <= 0:
        assert deadline is not None
        message = f"{no_advance(progress, deadline)}.{_waited_for(progress.ranks)}"
        return Advance(holds=False, reason=NOT_ADVANCING, message=message)
    before = stored if stored is not None and stored.reason == RANK_BEHIND else None
    if (rank := ranks.behind(positions)) is not None:
        subject = f"Rank {rank.rank} in pod {rank.pod} {_IS_BEHIND}"
        # Numbers move with every report; the condition is written when it changes.
        if before is not None and before.message.startswith(f"{subject}:"):
            message = before.message
        else:
            middle = ranks.middle_of(positions)
            message = (
                f"{subject}: it has done {rank.percentage:g}%, and the median of"
                f" {len(positions)} ranks is {middle:g}%."
            )
        return Advance(holds=False, reason=RANK_BEHIND, message=message, seconds=left)
    if before is not None and not ranks.is_settled(positions):
        return Advance(holds=False, reason=RANK_BEHIND, message=before.message, seconds=left)
    if deadline is None and stored is None:
        return None  # nobody has said how long is too long
    text = "No rank is behind any more."
    if deadline is not None:
        text = "The reports of the program advance."
    return Advance(holds=True, reason=ADVANCING, message=text, seconds=left)


def seconds_left(
    progress: ReportedProgress, began: datetime | None, deadline: int | None, now: datetime
) -> float | None:
    """Return the time until reports have not advanced for too long; None without a deadline."""
    advanced = progress.advanced_at
    if deadline is None or advanced is None:
        return None
    last = min(now, max(advanced, began) if began is not None else advanced)
    return (last + timedelta(seconds=deadline) - now).total_seconds()


def no_advance(progress: ReportedProgress, deadline: int) -> str:
    """Return that reports have not advanced; without a period."""
    where = f"{progress.percentage}% " if progress.percentage is not None else ""
    since = f"since {at:%H:%M:%S} UTC" if (at := progress.advanced_at) is not None else ""
    return f"The program has reported no advance for {deadline} s: {where}{since}"


def _waited_for(found: RanksProgress | None) -> str:
    rank = found.stopped_first if found is not None else None
    return f" {stopped(found, rank)}." if found is not None and rank is not None else ""


def stopped(found: RanksProgress, rank: RankProgress) -> str:
    """Return which rank the others wait for; without a period."""
    return (
        f"Rank {rank.rank} in pod {rank.pod} {_STOPPED_FIRST}, at {rank.percentage:g}%,"
        f" and the median of {found.count} ranks is {found.median:g}%"
    )
