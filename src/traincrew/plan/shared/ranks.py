"""Positions of ranks: how far each process of a training is, and which one is behind.

Ranks report at different times, so the newest positions of two ranks are not from the same moment.
The rules that follow from it are in docs/design/progress.md, "Reports".
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

from traincrew.api.crd import MAX_SLOWEST
from traincrew.api.meta import format_time, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

FAR = 5.0
"""Percentage points below the median from which a rank is behind."""
NEAR = FAR / 2
"""Percentage points below the median under which a rank is behind no more."""
REPORTS_BEHIND = 2
"""Reports in a row at which a rank must be behind."""


class RankProgress(Struct, rename="camel", kw_only=True, frozen=True):
    """A rank in ``status.progress.ranks``; its percentage has at most two decimals."""

    rank: int
    pod: str
    percentage: float
    last_advance_time: str


class RanksProgress(Struct, rename="camel", kw_only=True, frozen=True):
    """``status.progress.ranks``: the ranks of which a position is known, slowest first."""

    count: int
    median: float
    slowest: tuple[RankProgress, ...]

    @property
    def stopped_first(self) -> RankProgress | None:
        """The rank with the strictly lowest percentage: if none advances, the others wait for it.

        None if several have the same.
        """
        if self.count > 1 and self.slowest[0].percentage < self.slowest[1].percentage:
            return self.slowest[0]
        return None


class Position(Struct, kw_only=True, frozen=True):
    """What is known of one rank.

    Attributes:
        rank: Its number in the job, from 0.
        pod: Name of the pod in which it runs.
        uid: UID of that pod; empty if it is not known, as of a stored position.
        percentage: How much of its work is done.
        reported_at: Time of its newest report.
        advanced_at: Time of the newest report that was not the same as the one before.
        advanced_before: Time of the one before that; None if there was none.
        reports_behind: Number of its newest reports at which it was behind.
    """

    rank: int
    pod: str
    uid: str
    percentage: float
    reported_at: datetime
    advanced_at: datetime
    advanced_before: datetime | None = None
    reports_behind: int = 0


def reported(
    before: Position | None,
    *,
    rank: int,
    pod: str,
    uid: str,
    percentage: float,
    middle: float | None,
    now: datetime,
) -> Position:
    """Return the position of a rank after a report of it.

    Args:
        before: Its position before, if any.
        rank: Its number.
        pod: Name of its pod.
        uid: UID of its pod.
        percentage: What it reports.
        middle: The median of all ranks; None if no other is known.
        now: When.
    """
    percentage = round(percentage, 2)
    if before is not None and before.uid != uid:  # another pod has the number now
        before = None
    advanced_at, advanced_before = now, None
    if before is not None and percentage == before.percentage:
        advanced_at, advanced_before = before.advanced_at, before.advanced_before
    elif before is not None:
        advanced_before = before.advanced_at
    return Position(
        rank=rank,
        pod=pod,
        uid=uid,
        percentage=percentage,
        reported_at=now,
        advanced_at=advanced_at,
        advanced_before=advanced_before,
        reports_behind=_reports_behind(before, percentage, middle),
    )


def _reports_behind(before: Position | None, percentage: float, middle: float | None) -> int:
    if middle is None or middle - percentage < NEAR:
        return 0
    count = before.reports_behind if before is not None else 0
    return count + 1 if middle - percentage >= FAR else count


def middle_of(positions: Iterable[Position]) -> float | None:
    """Return the median of the percentages; None if there are none."""
    percentages = [each.percentage for each in positions]
    return round(median(percentages), 2) if percentages else None


def current(
    positions: Iterable[Position],
    stored: RanksProgress | None,
    pods: Mapping[str, str],
    began: datetime | None,
) -> tuple[Position, ...]:
    """Return the positions of this attempt, slowest first.

    Args:
        positions: What ranks have reported to this operator.
        stored: What is stored; it has ranks that have not reported since this operator started.
        pods: Names of the running pods of the job, by UID.
        began: When the attempt began.
    """
    found = {each.rank: each for each in positions if each.uid in pods}
    names = set(pods.values())
    for rank in stored.slowest if stored is not None else ():
        if rank.rank not in found and rank.pod in names:
            found[rank.rank] = _restored(rank)
    if began is not None:
        # Stored times are whole seconds.
        since = began.replace(microsecond=0)
        found = {rank: each for rank, each in found.items() if each.reported_at >= since}
    return tuple(sorted(found.values(), key=lambda each: (each.percentage, each.rank)))


def _restored(rank: RankProgress) -> Position:
    at = parse_time(rank.last_advance_time)
    return Position(
        rank=rank.rank,
        pod=rank.pod,
        uid="",
        percentage=rank.percentage,
        reported_at=at,
        advanced_at=at,
    )


def summary(positions: Sequence[Position]) -> RanksProgress | None:
    """Return what is stored of positions, which are given slowest first."""
    middle = middle_of(positions)
    if middle is None:
        return None
    return RanksProgress(
        count=len(positions),
        median=middle,
        slowest=tuple(
            RankProgress(
                rank=each.rank,
                pod=each.pod,
                percentage=each.percentage,
                last_advance_time=format_time(each.advanced_at),
            )
            for each in positions[:MAX_SLOWEST]
        ),
    )


def is_settled(positions: Sequence[Position]) -> bool:
    """Return whether half of the ranks have advanced twice, so that a comparison means something.

    An operator that has just started has to wait for it.
    """
    return 2 * sum(each.advanced_before is not None for each in positions) >= len(positions)


def behind(positions: Sequence[Position]) -> Position | None:
    """Return the slowest rank that is far behind the others; None if there is none.

    Args:
        positions: All positions, slowest first.
    """
    middle = middle_of(positions)
    if middle is None:
        return None
    for each in positions:
        if each.percentage > middle - NEAR:
            return None
        if each.reports_behind >= REPORTS_BEHIND:
            return each
        if each.percentage <= middle - FAR and _is_overtaken(each, positions):
            return each
    return None


def _is_overtaken(position: Position, positions: Sequence[Position]) -> bool:
    """Return whether half of the ranks have advanced twice since a rank's last report."""
    since = position.reported_at
    twice = sum(
        each.advanced_before is not None and each.advanced_before > since for each in positions
    )
    return 2 * twice >= len(positions)
