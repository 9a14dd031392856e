"""The progress that training programs report: what the status says of it."""

from __future__ import annotations

from msgspec import Struct


class Metric(Struct, rename="camel", kw_only=True, frozen=True):
    """A metric as the program wrote it."""

    name: str
    value: str


class ReportedProgress(Struct, rename="camel", kw_only=True, omit_defaults=True, frozen=True):
    """``status.progress``: the newest report of a job.

    The fields are those of ``trainerStatus`` of Kubeflow Trainer (KEP-2779), except for the time:
    it is that of the operator, because clocks of pods may be wrong.
    """

    percentage: int | None = None
    estimated_remaining_seconds: int | None = None
    metrics: tuple[Metric, ...] = ()
    last_update_time: str = ""


def newest(
    stored: ReportedProgress | None, reported: ReportedProgress | None
) -> ReportedProgress | None:
    """Return the progress to store: a report replaces the one before as a whole.

    Without a report the stored one stays: an operator that has just started knows of none.
    """
    if reported is None:
        return stored
    if stored is not None and stored.last_update_time > reported.last_update_time:
        return stored
    return reported
