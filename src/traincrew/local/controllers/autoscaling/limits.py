"""How fast an autoscaler may change a number of replicas. Pure.

Rules and messages: ``pkg/controller/podautoscaler/horizontal.go`` of Kubernetes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["History", "Limited", "Note", "limit"]

STABILIZATION_SECONDS = 300
"""For how long a lower recommendation waits for a higher one by default."""
_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN = {
    "stabilizationWindowSeconds": STABILIZATION_SECONDS,
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_MOST_SECONDS = 3600
"""The longest window, and more than the longest period, that the API allows."""


class Note(NamedTuple):
    """A recommendation or a change, at a time in seconds since the epoch."""

    at: float
    replicas: int


class History(Struct):
    """What an autoscaler has recommended, and how it has changed its target.

    Attributes:
        recommended: numbers of replicas, before they were limited.
        changes: differences; negative ones are of fewer replicas.
    """

    recommended: list[Note] = field(default_factory=list)
    changes: list[Note] = field(default_factory=list)

    def forget_before(self, now: float) -> None:
        """Forget what is too old to matter to any rule."""
        self.recommended = [each for each in self.recommended if now - each.at <= _MOST_SECONDS]
        self.changes = [each for each in self.changes if now - each.at <= _MOST_SECONDS]


class Limited(NamedTuple):
    """The number of replicas to have, and reason and message of two conditions.

    Attributes:
        replicas: the number.
        able: of AbleToScale.
        is_limited: status of ScalingLimited.
        limited: its reason and message.
    """

    replicas: int
    able: tuple[str, str]
    is_limited: bool
    limited: tuple[str, str]


def limit(
    spec: Mapping[str, Any], current: int, wanted: int, history: History, now: float
) -> Limited:
    """Limit a recommended number of replicas, and note it in the history.

    Args:
        spec: of the autoscaler.
        current: the present number.
        wanted: what metrics recommend.
        history: is extended.
        now: seconds since the epoch.
    """
    least, most = spec.get("minReplicas", 1), spec["maxReplicas"]
    behavior = spec.get("behavior")
    if behavior is None:
        stable = _highest_recent(wanted, history.recommended, STABILIZATION_SECONDS, now)
        able = "ScaleDownStabilized"
    else:
        up, down = (
            {**default, **(behavior.get(name) or {})}
            for name, default in (("scaleUp", _UP), ("scaleDown", _DOWN))
        )
        stable = _stabilized(current, wanted, history.recommended, (up, down), now)
        able = "ScaleUpStabilized" if wanted >= current else "ScaleDownStabilized"
    history.recommended.append(Note(now, wanted))
    if behavior is None:
        replicas, reason, message = _in_range(current, stable, least, most)
    else:
        replicas, reason, message = _at_rate(
            current,
            stable,
            bounds=(least, most),
            rules=(up, down),
            changes=history.changes,
            now=now,
        )
    ready = ("ReadyForNewScale", "recommended size matches current size")
    if stable != wanted:
        higher = able == "ScaleDownStabilized"
        text = (
            "recent recommendations were higher than current one, applying the highest recent"
            " recommendation"
            if higher
            else "recent recommendations were lower than current one, applying the lowest recent"
            " recommendation"
        )
        ready = (able, text)
    return Limited(replicas, ready, replicas != stable, (reason, message))


def _highest_recent(wanted: int, notes: Sequence[Note], window: float, now: float) -> int:
    return max([wanted, *(each.replicas for each in notes if now - each.at < window)])


def _stabilized(
    current: int,
    wanted: int,
    notes: Sequence[Note],
    rules: tuple[Mapping[str, Any], Mapping[str, Any]],
    now: float,
) -> int:
    up, down = (each["stabilizationWindowSeconds"] for each in rules)
    lowest = min([wanted, *(each.replicas for each in notes if now - each.at < up)])
    highest = _highest_recent(wanted, notes, down, now)
    return min(max(current, lowest), highest)


_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_TOO_FAST = "the desired replica count is {} faster than the maximum scale rate"
_UP_LIMIT = ("ScaleUpLimit", _TOO_FAST.format("increasing"))
_DOWN_LIMIT = ("ScaleDownLimit", _TOO_FAST.format("decreasing"))


def _in_range(current: int, wanted: int, least: int, most: int) -> tuple[int, str, str]:
    """Limit a number without ``behavior``: at most twice as many, or four."""
    rate = max(2 * current, 4)
    if wanted < least:
        return (least, *_TOO_FEW)
    if wanted > min(most, rate):
        return (rate, *_UP_LIMIT) if most > rate else (most, *_TOO_MANY)
    return (wanted, *_WITHIN)


def _at_rate(
    current: int,
    wanted: int,
    *,
    bounds: tuple[int, int],
    rules: tuple[Mapping[str, Any], Mapping[str, Any]],
    changes: Sequence[Note],
    now: float,
) -> tuple[int, str, str]:
    """Limit a number by the policies of ``behavior``."""
    least, most = bounds
    up, down = rules
    if wanted > current:
        rate = max(_rate(current, up, changes, now, rising=True), current)
        if wanted > min(most, rate):
            return (rate, *_UP_LIMIT) if most > rate else (most, *_TOO_MANY)
    elif wanted < current:
        rate = min(_rate(current, down, changes, now, rising=False), current)
        if wanted < max(least, rate):
            return (rate, *_DOWN_LIMIT) if least < rate else (least, *_TOO_FEW)
    return (wanted, *_WITHIN)


def _rate(
    current: int, rules: Mapping[str, Any], changes: Sequence[Note], now: float, *, rising: bool
) -> int:
    """Return how many replicas the policies allow, at most if rising, or at least."""
    select = rules.get("selectPolicy") or "Max"
    if select == "Disabled":
        return current
    proposals: list[int] = []
    for policy in rules["policies"] or ():
        period, value = policy["periodSeconds"], policy["value"]
        changed = sum(each.replicas for each in changes if now - each.at < period)
        start = current - changed
        share = value if rising else -value
        if policy["type"] == "Pods":
            proposals.append(start + share)
        else:
            proposed = start * (1 + share / 100)
            proposals.append(math.ceil(proposed) if rising else int(proposed))
    if not proposals:
        return current
    return max(proposals) if rising == (select != "Min") else min(proposals)
