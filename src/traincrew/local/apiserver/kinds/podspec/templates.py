"""What kinds with a pod template share, beside the template itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.values.documents import field
from traincrew.local.apiserver.values.names import label_fault

from .defaults import default_template
from .warnings import warn_of_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.apiserver.values.documents import Document


def warn_of_name(obj: Document, where: str = "Pod names and hostnames") -> Iterator[str]:
    """Yield a warning if a name is no DNS label."""
    name = obj["metadata"].get("name", "")
    fault = label_fault(name)
    if fault:
        yield (
            f"metadata.name: this is used in {where}, which can result in surprising behavior; "
            f"a DNS label is recommended: [{fault}]"
        )


def same_generation(obj: Document, old: Document | None) -> bool:
    """Return whether an update leaves the desired state as it was."""
    return old is not None and (
        obj["metadata"].get("generation") == old["metadata"].get("generation")
    )


def warn_of_replicas(obj: Document, old: Document | None) -> Iterator[str]:
    """Yield warnings about Deployments, ReplicaSets and ReplicationControllers."""
    if old is None:
        yield from warn_of_name(obj)
    if not same_generation(obj, old):
        yield from warn_of_template(field(obj, "spec", "template"), "spec.template")


def default_rolling_update(strategy: Any, **fields: object) -> None:
    """Choose rolling updates if a strategy has no type; set defaults of their fields."""
    if type(strategy) is not dict:
        return
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        if type(rolling) is dict:
            for key, value in fields.items():
                rolling.setdefault(key, value)


def default_replicas(obj: Document) -> None:
    """Fill in the defaults of a ReplicaSet, which a ReplicationController has as well, in place."""
    spec = obj.get("spec")
    if type(spec) is dict:
        spec.setdefault("replicas", 1)
        default_template(spec.get("template"))
