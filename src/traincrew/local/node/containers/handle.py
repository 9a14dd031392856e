"""The interface of a pod to its containers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.node.context import Context
    from traincrew.local.node.fields.downward import PodFacts
    from traincrew.local.node.records.record import PodRecord
    from traincrew.local.node.runtime.processes import Join

__all__ = ["PodHandle"]

Document = Mapping[str, Any]


class PodHandle(Protocol):
    """A pod, as its containers see it.

    Attributes:
        node: name of its virtual node.
        hostname: the host name in its containers.
        hosts: directory whose file `hosts` is the containers' `/etc/hosts`.
        record: observed state of its containers.
    """

    context: Context
    uid: str
    name: str
    namespace: str
    node: str
    hostname: str
    hosts: Path
    restart_policy: str
    record: PodRecord

    @property
    def grace(self) -> float:
        """Grace period for the termination of its containers, in seconds."""
        ...

    @property
    def is_stopping(self) -> bool:
        """Whether its containers are no longer started."""
        ...

    @property
    def described(self) -> str:
        """The pod as messages name it: `name_namespace(uid)`."""
        ...

    def facts(self) -> PodFacts:
        """Return the pod with what only the node knows about it."""
        ...

    def volume(self, name: str) -> Path:
        """Return the path of a prepared volume.

        Raises:
            VolumeError: The pod has no such volume.
        """
        ...

    def shared_memory(self) -> Path:
        """Return the directory that is `/dev/shm` in its containers."""
        ...

    def join(self, container: Document) -> Join | None:
        """Return the namespaces that a container enters; None if it gets its own.

        Raises:
            FieldError: The target container is not running.
        """
        ...

    def shown_container(self, name: str) -> Document:
        """Return the status that the API had of a container before this node started."""
        ...

    def changed(self) -> None:
        """Report that a record has changed."""
        ...

    def event(self, kind: str, reason: str, message: str, field_path: str = "") -> None:
        """Record an event about the pod or one of its fields."""
        ...

    def not_emulated(self, lines: Iterable[str]) -> None:
        """Report what this pod asks for without effect, each item once."""
        ...
