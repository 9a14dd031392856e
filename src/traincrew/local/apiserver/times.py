"""Times as the API writes them (``metav1.Time`` and ``metav1.MicroTime``)."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

__all__ = ["canonical", "canonical_micro"]


@lru_cache(maxsize=1024)
def canonical(text: str) -> str:
    """A time in UTC and whole seconds: ``2027-01-15T08:00:00Z``.

    Raises:
        ValueError: it is no time of RFC 3339.
    """
    if len(text) == 20 and text[-1] == "Z":
        return text
    return _written(text, "seconds")


@lru_cache(maxsize=1024)
def canonical_micro(text: str) -> str:
    """A time in UTC with microseconds: ``2027-01-15T08:00:00.000000Z``.

    Raises:
        ValueError: it is no time of RFC 3339.
    """
    return _written(text, "microseconds")


def _written(text: str, precision: str) -> str:
    # strftime leaves out the zeros of years before 1000.
    moment = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(timespec=precision) + "Z"
