"""Ages as kubectl prints them (``k8s.io/apimachinery/pkg/util/duration``)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

__all__ = ["age", "between", "human", "seconds_of"]


def human(seconds: float) -> str:
    """Return a duration in at most two units: ``59s``, ``5m30s``, ``3h``, ``2d4h``, ``1y20d``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes = whole // 60
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def seconds_of(timestamp: Any) -> float | None:
    """Return an RFC 3339 time in seconds since the epoch; None if absent or malformed."""
    if type(timestamp) is not str or not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def age(timestamp: Any, now: float) -> str:
    """Return the time since a timestamp; ``<unknown>`` without one."""
    since = seconds_of(timestamp)
    return "<unknown>" if since is None else human(now - since)


def between(start: Any, end: Any, now: float) -> str:
    """Return the time from one timestamp to another, or to now; empty without a start."""
    began = seconds_of(start)
    if began is None:
        return ""
    ended = seconds_of(end)
    return human((now if ended is None else ended) - began)
