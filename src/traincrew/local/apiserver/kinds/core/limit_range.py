"""LimitRanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.kinds.podspec.resources import (
    any_resource_faults,
    resource_name_faults,
)
from traincrew.local.apiserver.kinds.strategy import Strategy
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import qualified_name_faults
from traincrew.local.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STRATEGY"]


def _default(obj: Document) -> None:
    for limit in items(obj, "spec", "limits"):
        if limit.get("type") != "Container":
            continue
        largest, smallest = field(limit, "max"), field(limit, "min")
        default = {**largest, **field(limit, "default")}
        request = {**smallest, **default, **field(limit, "defaultRequest")}
        if default:
            limit["default"] = default
        if request:
            limit["defaultRequest"] = request


_TYPES = frozenset(("Container", "PersistentVolumeClaim", "Pod"))

_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _validate(found: list[Cause], obj: Document, _old: Document | None) -> None:
    """Validate a LimitRange."""
    seen: set[str] = set()
    for index, limit in enumerate(items(obj, "spec", "limits")):
        here, kind = f"spec.limits[{index}]", limit.get("type", "")
        faults = list(qualified_name_faults(kind))
        if not faults and "/" not in kind and kind not in _TYPES:
            faults.append("must be a standard limit type or fully qualified")
        found.extend(why.invalid(f"{here}.type", kind, fault) for fault in faults)
        if kind in seen:
            found.append(why.duplicate(f"{here}.type", kind))
        seen.add(kind)
        _names(found, limit, kind, here)
        names = {name for key in _bounds(kind) for name in field(limit, key)}
        for name in sorted(names):
            _order(found, limit, name, here)


def _bounds(kind: str) -> Iterator[str]:
    """Yield the fields that apply to a type of limit."""
    return (key for key in _BOUNDS if kind != "Pod" or not key.startswith("default"))


def _names(found: list[Cause], limit: Document, kind: str, path: str) -> None:
    rule = resource_name_faults if kind in {"Pod", "Container"} else any_resource_faults
    for key in _BOUNDS:
        if kind == "Pod" and key.startswith("default"):
            if limit.get(key):
                detail = "may not be specified when `type` is 'Pod'"
                found.append(why.forbidden(f"{path}.{key}", detail))
            continue
        if key == _BOUNDS[-1] and kind == "PersistentVolumeClaim":
            named = {*field(limit, "min"), *field(limit, "max")}
            if "storage" not in named:
                detail = (
                    "either minimum or maximum storage value is required, but neither was provided"
                )
                found.append(why.required(f"{path}.limits", detail))
        for name in sorted(field(limit, key)):
            place = f"{path}.{key}[{name}]"
            found.extend(why.invalid(place, name, fault) for fault in rule(name))


def _order(found: list[Cause], limit: Document, name: str, path: str) -> None:
    """Check the order of the bounds of one resource (min, defaults, max)."""
    kind = limit.get("type", "")
    values = {
        key: (text, parse(text))
        for key in _bounds(kind)
        if (text := field(limit, key).get(name)) is not None
    }

    def compare(low: str, high: str, place: str, shown: str, detail: str) -> None:
        if low in values and high in values and values[low][1] > values[high][1]:
            text = detail.format(values[low][0], values[high][0])
            found.append(why.invalid(f"{path}.{place}[{name}]", values[shown][0], text))

    compare("min", "max", "min", "min", "min value {} is greater than max value {}")
    given = "defaultRequest"
    detail = "min value {} is greater than default request value {}"
    compare("min", given, given, given, detail)
    compare(given, "max", given, given, "default request value {} is greater than max value {}")
    detail = "default request value {} is greater than default limit value {}"
    compare(given, "default", given, given, detail)
    compare("min", "default", "default", "min", "min value {} is greater than default value {}")
    compare("default", "max", "default", "max", "default value {} is greater than max value {}")
    _ratio(found, values, f"{path}.maxLimitRequestRatio[{name}]")
    alike = "default" in values and given in values and values["default"][1] != values[given][1]
    if alike and ("/" in name or name.startswith("hugepages-")):
        detail = (
            f"default value {values['default'][0]} must equal to defaultRequest value "
            f"{values[given][0]} in {name}"
        )
        found.append(why.invalid(f"{path}.{given}[{name}]", values[given][0], detail))


def _ratio(found: list[Cause], values: dict[str, tuple[str, Any]], path: str) -> None:
    if "maxLimitRequestRatio" not in values:
        return
    text, ratio = values["maxLimitRequestRatio"]
    if ratio < 1:
        found.append(why.invalid(path, text, f"ratio {text} is less than 1"))
    least, most = values.get("min"), values.get("max")
    if least is not None and most is not None and least[1] and ratio > most[1] / least[1]:
        detail = f"ratio {text} is greater than max/min = {float(most[1] / least[1]):f}"
        found.append(why.invalid(path, text, detail))


STRATEGY = Strategy(
    default=_default,
    validate=_validate,
)
