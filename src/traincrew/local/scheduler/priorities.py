"""Priorities of pods. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from traincrew.engine.objects import FullObjectMeta

if TYPE_CHECKING:
    from traincrew.engine.objects import AnyObject

_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClass(Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """`scheduling.k8s.io/v1 PriorityClass`."""

    metadata: FullObjectMeta = field(default_factory=FullObjectMeta)
    value: int = 0
    global_default: bool = False


class Priorities:
    """Priority classes by name."""

    def __init__(self) -> None:
        self._classes: dict[str, PriorityClass] = {}

    def set_class(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        """Store a change of a class."""
        if new is not None:
            self._classes[new.metadata.name] = new
        elif old is not None:
            self._classes.pop(old.metadata.name, None)

    def of(self, pod: AnyObject) -> int:
        """Return `spec.priority`, else the value of its class or of the default class, else 0."""
        value = pod.spec.get("priority")
        if value is not None:
            return int(value)
        name = pod.spec.get("priorityClassName")
        if name:
            known = self._classes.get(name)
            return known.value if known is not None else _SYSTEM.get(name, 0)
        return max(
            (item.value for item in self._classes.values() if item.global_default), default=0
        )

    def is_known(self, pod: AnyObject) -> bool:
        """Return whether the pod's priority class exists."""
        name = pod.spec.get("priorityClassName")
        return not name or name in self._classes or name in _SYSTEM
