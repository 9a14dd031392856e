"""The progress that training programs report: what the status says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from traincrew.api.meta import format_time, parse_time
from traincrew.plan.shared import ranks
from traincrew.plan.shared.ranks import RanksProgress  # noqa: TC001 - decoded

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from traincrew.plan.shared.ranks import Position

COMPLETE = 100
"""Percentage after which no report is expected to advance."""


class Metric(Struct, rename="camel", kw_only=True, frozen=True):
    """A metric as the program wrote it."""

    name: str
    value: str


class ReportedProgress(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``status.progress``: the newest report of a job.

    The fields are those of ``trainerStatus`` of Kubeflow Trainer (KEP-2779), except for the times,
    which are the operator's, because clocks of pods may be wrong, and for the ranks.
    """

    percentage: int | None = None
    estimated_remaining_seconds: int | None = None
    metrics: tuple[Metric, ...] = ()
    last_update_time: str = ""
    last_advance_time: str = ""
    """When a report last differed from the one before in its percentage or any metric."""
    ranks: RanksProgress | None = None

    @property
    def advanced_at(self) -> datetime | None:
        """`last_advance_time`; None if nothing has been reported."""
        return parse_time(self.last_advance_time) if self.last_advance_time else None


def newest(
    stored: ReportedProgress | None, reported: ReportedProgress | None
) -> ReportedProgress | None:
    """Return the progress to store: a report replaces the one before as a whole.

    Without a report the stored one stays: an operator that has just started knows of none.
    """
    if reported is None:
        return stored
    if stored is None:
        return msgspec.structs.replace(reported, last_advance_time=reported.last_update_time)
    if stored.last_update_time > reported.last_update_time:
        return stored
    advanced = stored.last_advance_time
    if (stored.percentage, _values(stored)) != (reported.percentage, _values(reported)):
        advanced = reported.last_update_time
    return msgspec.structs.replace(reported, last_advance_time=advanced, ranks=stored.ranks)


def _values(progress: ReportedProgress) -> dict[str, str]:
    return {metric.name: metric.value for metric in progress.metrics}


def with_ranks(progress: ReportedProgress, positions: Sequence[Position]) -> ReportedProgress:
    """Return the progress with what is known of ranks, given slowest first.

    A rank that advances is an advance of the job.
    """
    times = [progress.last_advance_time, *(format_time(each.advanced_at) for each in positions)]
    return msgspec.structs.replace(
        progress, last_advance_time=max(times), ranks=ranks.summary(positions)
    )


def is_expected(progress: ReportedProgress, began_at: datetime | None) -> bool:
    """Return whether reports are expected to advance: the program has reported in this attempt.

    Not if it has reported 100 %: what comes then has no percentage.

    Args:
        progress: The newest report.
        began_at: When the attempt began.
    """
    if not progress.last_update_time or progress.percentage == COMPLETE:
        return False
    # Both are whole seconds.
    return began_at is None or parse_time(progress.last_update_time) >= began_at
