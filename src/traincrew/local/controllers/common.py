"""Small helpers of all controllers: times, references, conditions, hashes. All pure."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from traincrew.engine import times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.engine.objects import HasMetadata
    from traincrew.engine.resources import Resource

FIELD_MANAGER = "kube-controller-manager"
"""Field manager of what controllers write, as in an upstream cluster."""

_HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


@lru_cache(maxsize=8192)
def parse_time(text: str) -> float:
    """Return the seconds since the epoch of an RFC 3339 time, with or without a fraction.

    Raises:
        ValueError: `text` is not a time.
    """
    return datetime.fromisoformat(text).timestamp()


def format_time(now: float) -> str:
    """Format a `metav1.Time`: RFC 3339 in whole seconds, UTC."""
    return times.format_time(datetime.fromtimestamp(int(now), UTC))


def owner_reference(owner: HasMetadata, resource: Resource) -> dict[str, Any]:
    """Return the controller reference for a child of this object."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def object_reference(obj: HasMetadata, resource: Resource) -> dict[str, Any]:
    """Return the `involvedObject` of an event."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": obj.metadata.name,
        "namespace": obj.metadata.namespace,
        "uid": obj.metadata.uid,
        "resourceVersion": obj.metadata.resource_version,
    }


def find_condition(
    conditions: Sequence[Mapping[str, Any]] | None, kind: str
) -> Mapping[str, Any] | None:
    """Return the condition with this type, whatever its status."""
    return next((item for item in conditions or () if item.get("type") == kind), None)


def has_condition(conditions: Sequence[Mapping[str, Any]] | None, kind: str) -> bool:
    """Return whether the condition with this type is True."""
    condition = find_condition(conditions, kind)
    return condition is not None and condition.get("status") == "True"


def set_condition(
    conditions: Sequence[Mapping[str, Any]] | None,
    kind: str,
    status: bool,
    reason: str,
    message: str,
    *,
    now: float,
    extra_times: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Return the conditions with one of them set; keep its transition time if its status is equal.

    Args:
        conditions: The present conditions; not modified.
        kind: Type of the condition.
        status: True or False; Unknown is not supported.
        reason: One CamelCase word.
        message: For people.
        now: Seconds since the epoch.
        extra_times: Names of further time fields set to `now` when anything changes
            (`lastUpdateTime` of a Deployment, `lastProbeTime` of a Job).
    """
    value = "True" if status else "False"
    text = format_time(now)
    fresh: dict[str, Any] = {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastTransitionTime": text,
        **dict.fromkeys(extra_times, text),
    }
    result: list[dict[str, Any]] = []
    for item in conditions or ():
        if item.get("type") != kind:
            result.append(dict(item))
            continue
        if item.get("status") == value:
            if item.get("reason") == reason and item.get("message") == message:
                return [dict(entry) for entry in conditions or ()]
            fresh["lastTransitionTime"] = item.get("lastTransitionTime", text)
        result.append(fresh)
    if all(item is not fresh for item in result):
        result.append(fresh)
    return result


def short_hash(*parts: Any, length: int = 10) -> str:
    """Return a short hash of `parts` for names, from upstream's alphabet without vowels.

    Args:
        parts: JSON data.
        length: Characters of the result.
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    letters = []
    for _ in range(length):
        number, index = divmod(number, len(_HASH_ALPHABET))
        letters.append(_HASH_ALPHABET[index])
    return "".join(letters)


def scaled_value(value: int | str | None, total: int, *, round_up: bool) -> int:
    """Resolve a number or a percentage of `total`, like `intstr.GetScaledValueFromIntOrPercent`.

    Raises:
        ValueError: `value` is a string, but not a percentage.
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"invalid value {value!r}: must be a number or a percentage such as 25%")
    product = int(value[:-1]) * total
    return -(-product // 100) if round_up else product // 100
