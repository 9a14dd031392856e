"""Reads values files of a Helm chart, and finds the lines of their keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.cli.errors import BadInput
from traincrew.cli.manifest.documents import parsed, texts
from traincrew.cli.manifest.positions import line_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import yaml

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class ValuesFile(NamedTuple):
    """The values of a file."""

    name: str
    content: dict[str, Any]
    node: yaml.Node | None


def load_values(paths: Sequence[str]) -> list[ValuesFile]:
    """Read values files; ``-`` is standard input.

    Raises:
        BadInput: A file cannot be read, or is not a mapping of values.
    """
    found = []
    for path in paths:
        for name, _, text in texts(path):
            documents = [each for each in parsed(name, text) if each[1] is not None]
            if len(documents) > 1:
                raise BadInput(f"{name}: {len(documents)} documents; write all values in one")
            node, content = documents[0] if documents else (None, {})
            if not isinstance(content, dict):
                raise BadInput(f"{name}: a values file is a mapping of keys to values")
            found.append(ValuesFile(name, content, node))
    return found


def place_of(files: Sequence[ValuesFile], key: str) -> str:
    """Return file and line of a key such as ``mpiWorkers.num``; later files win.

    For a missing key it is that of the nearest key around it, and of a key that no file has, empty.
    """
    steps = [match[1] or int(match[2]) for match in _STEP.finditer(key)]
    depths = [_depth(file.content, steps) for file in files]
    deepest = max(depths, default=0)
    if deepest == 0:
        return ""
    number = max(index for index, depth in enumerate(depths) if depth == deepest)
    file = files[number]
    assert file.node is not None, "an empty file has no keys"
    return f"{file.name}:{line_of(file.node, key)}"


def _depth(content: Any, steps: list[str | int]) -> int:
    """Return how many steps of a path exist."""
    for depth, step in enumerate(steps):
        there = range(len(content)) if isinstance(content, list) else content
        if not isinstance(there, dict | range) or step not in there:
            return depth
        content = content[step]
    return len(steps)
