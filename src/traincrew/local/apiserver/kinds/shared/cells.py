"""Table cells that many kinds share.

Objects come from storage, so their fields have the right types; any field may be absent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.documents import field, items
from traincrew.local.apiserver.values.durations import age

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "NONE",
    "TEMPLATE_COLUMNS",
    "UNSET",
    "age_of",
    "balancer_addresses",
    "conditions_of",
    "containers_of",
    "label_text",
    "name_of",
    "name_with_default",
    "replica_row",
    "selector_text",
    "short_modes",
    "shortened",
    "template_spec",
    "volume_phase",
]

NONE = "<none>"
TEMPLATE_COLUMNS = "Containers* Images* Selector*"
"""The wide columns of workloads; `strategy.Strategy` describes the notation."""


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


UNSET = "<unset>"

_MAX_SHOWN = 3  # addresses, ports or hosts listed before "+ N more..."


def balancer_addresses(obj: Document) -> list[str]:
    """Return the addresses that the load balancer of a Service or an Ingress has."""
    entries = items(obj, "status", "loadBalancer", "ingress")
    return sorted({entry.get("ip") or entry.get("hostname") or "" for entry in entries} - {""})


def shortened(values: list[str], empty: str) -> str:
    """Return the first values, and how many there are beside them."""
    shown = ",".join(values[:_MAX_SHOWN])
    if len(values) > _MAX_SHOWN:
        return f"{shown} + {len(values) - _MAX_SHOWN} more..."
    return shown or empty


def name_with_default(obj: Document, annotation: str) -> str:
    """Return the name cell; it says whether an annotation makes the class the default."""
    default = field(obj, "metadata", "annotations").get(annotation) == "true"
    return name_of(obj) + (" (default)" if default else "")


_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def short_modes(modes: Any) -> str:
    """Return the short names of access modes."""
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def volume_phase(obj: Document) -> str:
    """Return the status cell of a volume or a claim."""
    if obj["metadata"].get("deletionTimestamp") is not None:
        return "Terminating"
    return str(field(obj, "status").get("phase", ""))


def replica_row(obj: Document, now: float) -> list[Any]:
    """Return the cells of a ReplicaSet or a ReplicationController."""
    status, selector = field(obj, "status"), field(obj, "spec").get("selector")
    plain = obj.get("kind") == "ReplicationController"
    return [
        name_of(obj),
        field(obj, "spec").get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age_of(obj, now),
        *containers_of(template_spec(obj)),
        label_text(selector or {}) if plain else selector_text(selector),
    ]
