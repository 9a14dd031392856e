"""Label selectors (`matchLabels`, `matchExpressions`). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a `metav1.LabelSelector` selects these labels.

    No selector selects nothing, an empty one everything (apimachinery, `LabelSelectorAsSelector`).
    """
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(
        matches_expression(expression, labels)
        for expression in selector.get("matchExpressions") or ()
    )


def matches_map(selector: Mapping[str, str] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a Service's label map selects these labels; an empty one selects nothing."""
    if not selector:
        return False
    return all(labels.get(key) == value for key, value in selector.items())


def matches_expression(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether one requirement holds; also for node selectors, which add `Gt` and `Lt`.

    An unknown operator selects nothing.
    """
    key, operator = expression.get("key", ""), expression.get("operator", "")
    values: list[str] = expression.get("values") or []
    present = key in labels
    if operator == "In":
        return present and labels[key] in values
    if operator == "NotIn":
        return not present or labels[key] not in values
    if operator == "Exists":
        return present
    if operator == "DoesNotExist":
        return not present
    if operator in {"Gt", "Lt"} and present and len(values) == 1:
        try:
            left, right = int(labels[key]), int(values[0])
        except ValueError:
            return False
        return left > right if operator == "Gt" else left < right
    return False
