"""Finds the line of a field in a YAML file, for errors of the API server."""

from __future__ import annotations

import re

import yaml

_KEY = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


def line_of(node: yaml.Node, field: str) -> int:
    """Return the line of a field, or of the deepest part of its path that exists.

    Args:
        node: The object.
        field: A path as API servers write it: ``spec.containers[0].image``, ``data[a.b]``.

    Returns:
        A line number, starting at 1.
    """
    line = node.start_mark.line + 1
    rest = field.lstrip(".")
    seen = 0
    while rest and seen < len(field) + 1:
        seen += 1
        step = _step(node, rest)
        if step is None:
            break
        node, line, rest = step
    return line


def _step(node: yaml.Node, rest: str) -> tuple[yaml.Node, int, str] | None:
    """Resolve the first part of a path; return its node, line, and the rest of the path."""
    if isinstance(node, yaml.SequenceNode):
        match = _KEY.match(rest)
        if match is None or not (match[2] or "").isdecimal() or len(match[2]) > 9:
            return None
        index = int(match[2])
        if index >= len(node.value):
            return None
        inner = node.value[index]
        return inner, inner.start_mark.line + 1, rest[match.end() :].lstrip(".")
    if not isinstance(node, yaml.MappingNode):
        return None
    found: tuple[yaml.Node, yaml.Node, int] | None = None
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else None
        if name:
            # Keys may contain dots: use the longest one that matches.
            length = _length(rest, name)
            if length and (found is None or length > found[2]):
                found = key, value, length
    if found is None:
        return None
    key, value, length = found
    return value, key.start_mark.line + 1, rest[length:].lstrip(".")


def _length(rest: str, key: str) -> int:
    """Return the length of a key at the beginning of a path; 0 if it does not match."""
    for written in (f"[{key}]", f'["{key}"]', key):
        if rest.startswith(written) and rest[len(written) : len(written) + 1] in {"", ".", "["}:
            return len(written)
    return 0
