"""Templates of objects, written once and rendered twice: here, and by Helm.

A template is a plain document in which some nodes are placeholders, defined below. `fill` replaces
them by values; `traincrew.operator.manifests.chart` writes the same template as a Helm template.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

Document = dict[str, Any]


class Value(Struct, frozen=True):
    """A value, by its path in the values such as ``metrics.port``."""

    path: str


class Namespace(Struct, frozen=True):
    """The namespace of the installation."""


class Either(Struct, frozen=True):
    """A value if it is set, else something else."""

    value: Value
    other: Namespace


class Image(Struct, frozen=True):
    """An image reference: its repository with its digest, its tag, or our version."""

    path: str


class Expression(Struct, frozen=True):
    """A Helm expression, for what only Helm knows, such as ``.Release.Name``."""

    code: str


Part = str | Value | Namespace | Either | Image | Expression


class Text(Struct, frozen=True):
    """A string that is concatenated from parts."""

    parts: tuple[Part, ...]


class When(Struct, frozen=True):
    """A node that is included only if a value is set: not empty, not false, not 0.

    Attributes:
        path: The value.
        node: The node.
        negated: Include it only if the value is not set.
    """

    path: str
    node: Any
    negated: bool = False


class Merged(Struct, frozen=True):
    """A mapping merged with the entries of a value; they have no key in common."""

    own: Document
    path: str


def text(*parts: Part) -> Text:
    """Return a string that is concatenated from parts."""
    return Text(parts)


def optional(path: str) -> When:
    """Return a value that is left out if it is empty."""
    return When(path, Value(path))


def look_up(values: Document, path: str) -> Any:
    """Return the value at a path such as ``metrics.port``."""
    found: Any = values
    for part in path.split("."):
        found = found[part]
    return found


class Filling(Struct, frozen=True):
    """The values for the placeholders.

    Attributes:
        values: All values, spelled as in YAML.
        namespace: The namespace of the installation.
        version: The default tag of the images.
    """

    values: Document
    namespace: str
    version: str

    def fill(self, node: Any) -> Any:
        """Return a template with its values; `ABSENT` if a condition does not hold."""
        match node:
            case dict():
                return {
                    key: filled
                    for key, value in node.items()
                    if (filled := self.fill(value)) is not ABSENT
                }
            case list():
                return [filled for item in node if (filled := self.fill(item)) is not ABSENT]
            case Value(path):
                return look_up(self.values, path)
            case Namespace():
                return self.namespace
            case Either(value, other):
                return self.fill(value) or self.fill(other)
            case Image(path):
                return self._image(look_up(self.values, path))
            case Text(parts):
                return "".join(str(self.fill(part)) for part in parts)
            case When(path, inner, negated):
                there = bool(look_up(self.values, path))
                return self.fill(inner) if there is not negated else ABSENT
            case Merged(own, path):
                return {**look_up(self.values, path), **self.fill(own)}
        return node

    def _image(self, image: Document) -> str:
        if image["digest"]:
            return f"{image['repository']}@{image['digest']}"
        return f"{image['repository']}:{image['tag'] or self.version}"


class _Absent:
    """The result of a condition that does not hold."""


ABSENT = _Absent()
