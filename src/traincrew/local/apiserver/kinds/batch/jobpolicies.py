"""Rules for the failure and success policies of Jobs (``pkg/apis/batch/validation``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.podspec.containers import container_names
from traincrew.local.apiserver.kinds.shared.fields import non_negative
from traincrew.local.apiserver.schema.unversioned import form
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.causes import Cause
from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.names import qualified_name_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["failure_policy", "success_policy"]


_INDEXES_LIMIT = 64 * 1024

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")


def failure_policy(found: list[Cause], spec: Document, path: str) -> None:
    """Validate what a Job does about failed pods."""
    rules = list(items(spec, "podFailurePolicy", "rules"))
    if len(rules) > 20:
        found.append(why.too_many(f"{path}.rules", len(rules), 20))
    names = container_names(field(spec, "template", "spec"))
    for index, rule in enumerate(rules):
        here = f"{path}.rules[{index}]"
        action = rule.get("action", "")
        if action == "FailIndex" and "backoffLimitPerIndex" not in spec:
            detail = "requires the backoffLimitPerIndex to be set"
            found.append(why.invalid(f"{here}.action", action, detail))
        elif action and action not in _ACTIONS:
            found.append(why.not_supported(f"{here}.action", action, _ACTIONS))
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
        if codes is not None:
            _exit_codes(found, codes, names, f"{here}.onExitCodes")
        for position, pattern in enumerate(items(rule, "onPodConditions")):
            _condition_pattern(found, pattern, f"{here}.onPodConditions[{position}]")
        if codes is not None and conditions:
            detail = "specifying both OnExitCodes and OnPodConditions is not supported"
            found.append(Cause("FieldValueInvalid", f"Invalid value: {detail}", here))
        elif codes is None and not conditions:
            detail = "specifying one of OnExitCodes and OnPodConditions is required"
            found.append(Cause("FieldValueInvalid", f"Invalid value: {detail}", here))


def _condition_pattern(found: list[Cause], pattern: Document, path: str) -> None:
    fault = qualified_name_fault(pattern.get("type", ""))
    if fault:
        found.append(why.invalid(f"{path}.type", pattern.get("type", ""), fault))
    supported = ("False", "True", "Unknown")
    if pattern.get("status") not in supported:
        found.append(why.not_supported(f"{path}.status", pattern.get("status", ""), supported))


def _exit_codes(found: list[Cause], codes: Document, names: set[str], path: str) -> None:
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if operator and operator not in ("In", "NotIn"):
        found.append(why.not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    name = codes.get("containerName")
    if name is not None and name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        found.append(why.invalid(f"{path}.containerName", name, detail))
    here = f"{path}.values"
    if not values:
        found.append(why.invalid(here, [], "at least one value is required"))
    elif len(values) > 255:
        found.append(why.too_many(here, len(values), 255))
    if len(set(values)) != len(values):
        places: dict[int, int] = {}
        first = next(at for at, value in enumerate(values) if places.setdefault(value, at) != at)
        found.append(why.duplicate(f"{here}[{first}]", values[first]))
    elif values != sorted(values):
        found.append(why.invalid(here, values, "must be ordered"))
    if operator == "In" and 0 in values:
        detail = "must not be 0 for the In operator"
        found.append(why.invalid(f"{here}[{values.index(0)}]", 0, detail))


def success_policy(found: list[Cause], spec: Document, mode: str, path: str) -> None:
    """Validate when a Job has succeeded although indexes are missing."""
    if mode != "Indexed":
        detail = "requires indexed completion mode"
        shown = form("batch.SuccessPolicy", spec["successPolicy"])
        found.append(why.invalid(path, shown, detail))
        return
    rules = list(items(spec, "successPolicy", "rules"))
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        found.append(why.required(f"{path}.rules", detail))
    if len(rules) > 20:
        found.append(why.too_many(f"{path}.rules", len(rules), 20))
    for index, rule in enumerate(rules):
        here = f"{path}.rules[{index}]"
        count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
        if count is None and indexes is None:
            detail = "at least one of succeededCount or succeededIndexes must be specified"
            found.append(why.required(here, detail))
        non_negative(found, f"{here}.succeededCount", count)
        completions = spec.get("completions", 0)
        limits = [(completions, "specified completions")]
        if indexes is not None:
            place = f"{here}.succeededIndexes"
            if len(indexes) > _INDEXES_LIMIT:
                found.append(why.too_long(place, _INDEXES_LIMIT))
            total = 0
            try:
                total = _index_count(indexes, completions)
            except ValueError as error:
                detail = f"error parsing succeededIndexes: {error}"
                found.append(why.invalid(place, indexes, detail))
            limits.append((total, "indexes in the specified succeededIndexes field"))
        for limit, what in limits:
            if count is not None and count > limit:
                detail = f"must be less than or equal to {limit} (the number of {what})"
                found.append(why.invalid(f"{here}.succeededCount", count, detail))


def _index_count(text: str, completions: int) -> int:
    """Count the indexes in a list such as ``1,3-5,7``: ascending, below the completions.

    Raises:
        ValueError: the list is malformed; the message is the reason.
    """
    total, last = 0, -1
    for part in text.split(",") if text else ():
        bounds = part.split("-")
        if len(bounds) > 2:
            raise ValueError(
                f"the fragment {why.quote(part)} violates the requirement that an index interval"
                " can have at most two parts separated by '-'"
            )
        numbers = [_index(bound, completions) for bound in bounds]
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
        if numbers[0] <= last:
            raise ValueError(f"non-increasing order, previous: {last}, current: {numbers[0]}")
        total += numbers[-1] - numbers[0] + 1
        last = numbers[-1]
    return total


def _index(text: str, completions: int) -> int:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise ValueError(f"cannot convert string to integer for index: {why.quote(text)}")
    if int(text) >= completions:
        raise ValueError(f"too large index: {why.quote(text)}")
    return int(text)
