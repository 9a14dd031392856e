"""Table cells that many kinds share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.durations import age

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "NONE",
    "age_of",
    "conditions_of",
    "containers_of",
    "label_text",
    "name_of",
    "selector_text",
    "template_spec",
]

NONE = "<none>"


def name_of(obj: Document) -> str:
    """Return the name cell."""
    name: str = obj["metadata"]["name"]
    return name


def age_of(obj: Document, now: float) -> str:
    """Return the age cell."""
    return age(obj["metadata"].get("creationTimestamp"), now)


def label_text(labels: Document) -> str:
    """Return labels as text."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or NONE


def selector_text(selector: Any) -> str:
    """Return a label selector as text."""
    if type(selector) is not dict:
        return NONE
    operators = {"In": "in", "NotIn": "notin"}
    terms = [(key, f"{key}={value}") for key, value in field(selector, "matchLabels").items()]
    for expression in items(selector, "matchExpressions"):
        key, operator = expression.get("key", ""), expression.get("operator", "")
        if operator == "Exists":
            shown = key
        elif operator == "DoesNotExist":
            shown = f"!{key}"
        else:
            values = ",".join(sorted(expression.get("values", ())))
            shown = f"{key} {operators.get(operator, operator)} ({values})"
        terms.append((key, shown))
    return ",".join(shown for _, shown in sorted(terms)) or NONE


def containers_of(spec: Document) -> list[Any]:
    """Return the cells Containers and Images."""
    containers = list(items(spec, "containers"))
    return [
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
    ]


def template_spec(obj: Document) -> Document:
    """Return the pod spec of a workload's template."""
    return field(obj, "spec", "template", "spec")


def conditions_of(obj: Document) -> dict[str, str]:
    """Return the status of each condition by type."""
    found: dict[str, str] = {}
    for condition in items(obj, "status", "conditions"):
        found.setdefault(condition.get("type", ""), condition.get("status", ""))
    return found
