"""Small facts every controller needs: times, references, conditions, differences. All pure."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traincrew.engine.objects import HasMetadata
    from traincrew.engine.resources import Resource

FIELD_MANAGER = "kube-controller-manager"
"""Owner of what controllers write, as in an upstream cluster."""

_HASH_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


@lru_cache(maxsize=8192)
def parse_time(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 time, with or without a fraction.

    Raises:
        ValueError: `text` is not a time.
    """
    return datetime.fromisoformat(text).timestamp()


def format_time(now: float) -> str:
    """`metav1.Time`: RFC 3339 in whole seconds, UTC."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def owner_reference(owner: HasMetadata, resource: Resource) -> dict[str, Any]:
    """The reference a child carries to the object that manages it."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def object_reference(obj: HasMetadata, resource: Resource) -> dict[str, Any]:
    """What an event says it is about."""
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
    """The condition of that type, whatever its status."""
    return next((item for item in conditions or () if item.get("type") == kind), None)


def has_condition(conditions: Sequence[Mapping[str, Any]] | None, kind: str) -> bool:
    """Whether the condition of that type is True."""
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
    """The conditions with one of them set; its transition time moves only if its status does.

    Args:
        conditions: What is there now; not changed.
        kind: Type of the condition.
        status: True or False; there is no Unknown here.
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


def merge_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7396) that turns `old` into `new`; empty when they are equal."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif old[key] != value:
            before = old[key]
            if isinstance(before, dict) and isinstance(value, dict):
                patch[key] = merge_difference(before, value)
            else:
                patch[key] = value
    return patch


def short_hash(*parts: Any, length: int = 10) -> str:
    """A short name part that depends on `parts` only; spelled without vowels, as upstream's.

    Args:
        parts: JSON data.
        length: Letters of the result.
    """
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    letters = []
    for _ in range(length):
        number, index = divmod(number, len(_HASH_ALPHABET))
        letters.append(_HASH_ALPHABET[index])
    return "".join(letters)


def scaled_value(value: int | str | None, total: int, *, round_up: bool) -> int:
    """An absolute number, or a percentage of `total`, as `intstr.GetScaledValueFromIntOrPercent`.

    Raises:
        ValueError: `value` is a string, but no percentage.
    """
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if not value.endswith("%"):
        raise ValueError(f"invalid value {value!r}: must be a number or a percentage such as 25%")
    product = int(value[:-1]) * total
    return -(-product // 100) if round_up else product // 100
