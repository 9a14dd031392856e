"""Paths in a document, as linked steps that are only rendered when printed."""

from __future__ import annotations

from typing import Any

__all__ = ["Key", "Path", "render"]


class Key(str):
    """A map key that is printed in brackets, as in CEL's causes but not in those of the schema."""

    __slots__ = ()


# (path of the parent, field name or list index); None is the document itself.
Path = Any


def render(path: Path) -> str:
    """Return the path as Kubernetes prints it: ``spec.containers[0].name``, ``labels[a/b]``."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(f".{step}" if type(step) is str else f"[{step}]")
    return "".join(reversed(steps)).removeprefix(".")
