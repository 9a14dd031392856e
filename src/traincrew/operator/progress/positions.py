"""The positions that the ranks of one job have reported: the newest of each, in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.plan.shared import ranks

if TYPE_CHECKING:
    from datetime import datetime

    from traincrew.operator.progress.protocol import RankReport
    from traincrew.plan.shared.ranks import Position

MAX_RANKS_OF_POD = 256
MIN_SECONDS = 1.0
"""Seconds between two reports of one rank."""
_MIDDLE_SECONDS = 1.0
"""How long a median is used: to sort thousands of ranks for each report would take too long."""


class TooManyReportsError(Exception):
    """A rank reports too often, or a pod has too many ranks."""


class Positions:
    """The positions of one job. Their number is bounded by that of `protocol.MAX_RANKS`."""

    def __init__(self) -> None:
        self._by_rank: dict[int, Position] = {}
        self._middle: float | None = None
        self._middle_at: datetime | None = None

    def add(self, report: RankReport, pod: str, uid: str, now: datetime) -> None:
        """Keep a position.

        Args:
            report: What a rank reports.
            pod: Name of its pod.
            uid: UID of its pod.
            now: When.

        Raises:
            TooManyReportsError: It is not kept.
        """
        before = self._by_rank.get(report.rank)
        if before is None or before.uid != uid:
            of_pod = sum(each.uid == uid for each in self._by_rank.values())
            if of_pod >= MAX_RANKS_OF_POD:
                raise TooManyReportsError(f"a pod may report for {MAX_RANKS_OF_POD} ranks")
        elif (now - before.reported_at).total_seconds() < MIN_SECONDS:
            raise TooManyReportsError("a rank may report once a second")
        self._by_rank[report.rank] = ranks.reported(
            before,
            rank=report.rank,
            pod=pod,
            uid=uid,
            percentage=report.percentage,
            middle=self._middle_of_all(now),
            now=now,
        )
        if report.world_size is not None and len(self._by_rank) > report.world_size:
            # The training continues with fewer ranks.
            for rank in [each for each in self._by_rank if each >= report.world_size]:
                del self._by_rank[rank]

    def _middle_of_all(self, now: datetime) -> float | None:
        at = self._middle_at
        if at is None or not 0 <= (now - at).total_seconds() < _MIDDLE_SECONDS:
            self._middle, self._middle_at = ranks.middle_of(self._by_rank.values()), now
        return self._middle

    def all(self) -> tuple[Position, ...]:
        """Return the positions."""
        return tuple(self._by_rank.values())
