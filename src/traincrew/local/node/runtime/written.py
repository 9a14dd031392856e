"""What containers wrote outside of volumes: the reports of their shims."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from traincrew.engine.decoding import UndecodableError, decode_json

if TYPE_CHECKING:
    from traincrew.local.node.runtime.instances import Instance

__all__ = [
    "Collected",
    "Written",
    "WrittenFiles",
]


class Collected(Struct, frozen=True):
    """The copies of one path: see `sandbox.changedfiles`.

    Attributes:
        path: in the container, as requested.
        to: the directory with the copies; not created if there are none.
        files: number of files.
        bytes: their total size.
        problem: why copies are missing, if some are.
    """

    path: str
    to: str
    files: int = 0
    bytes: int = 0
    problem: str = ""


class Written(Struct, frozen=True):
    """The files that one instance of a container wrote outside of volumes.

    Attributes:
        container: its namespace, pod and name.
        number: of the instance.
        files: number of created or changed files; a lower bound unless `complete`.
        bytes: their total size.
        paths: the outermost paths, each with the number of files and bytes.
        collected: the copies.
    """

    container: tuple[str, str, str]
    number: int = 0
    files: int = 0
    bytes: int = 0
    complete: bool = True
    paths: list[tuple[str, int, int]] = []
    collected: list[Collected] = []


class WrittenFiles:
    """The reports of all instances that have ended."""

    def __init__(self) -> None:
        self._found: dict[str, Written] = {}

    def add(self, instance: Instance) -> None:
        """Add the report of an instance that has ended, if there is one."""
        try:
            data = (instance.directory / "written.json").read_bytes()
            found = decode_json(data, type=Written)
        except (OSError, UndecodableError):
            return
        numbered = msgspec.structs.replace(found, number=instance.number)
        self._found[instance.container_id] = numbered

    def all(self) -> list[Written]:
        """Return the reports, in the order in which the instances ended."""
        return list(self._found.values())
