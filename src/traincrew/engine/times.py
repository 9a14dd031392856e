"""Timestamps as Kubernetes writes them: RFC 3339 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["format_micro_time", "format_time"]


def format_time(moment: datetime) -> str:
    """Format a ``metav1.Time``: whole seconds."""
    return _format(moment, "seconds")


def format_micro_time(moment: datetime) -> str:
    """Format a ``metav1.MicroTime``: microseconds, always six digits."""
    return _format(moment, "microseconds")


def _format(moment: datetime, precision: str) -> str:
    # strftime omits the leading zeros of years before 1000.
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"
