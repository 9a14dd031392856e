"""Where in a document: linked steps that cost nothing until they are printed."""

from __future__ import annotations

from typing import Any

__all__ = ["Key", "Path", "render"]


class Key(str):
    """A key of a map, where it is printed in brackets (CEL does, the types of a schema do not)."""

    __slots__ = ()


# (path of the parent, field name or list index); None is the document itself.
Path = Any


def render(path: Path) -> str:
    """The path as Kubernetes prints it: ``spec.containers[0].name``, ``labels[a/b]`` apart."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(f".{step}" if type(step) is str else f"[{step}]")
    return "".join(reversed(steps)).removeprefix(".")
