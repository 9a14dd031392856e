"""Objects with gaps, written once and filled in twice: here, and by Helm.

A template is a plain document in which some places are one of the nodes below. `fill` puts values
in; `traincrew.operator.manifests.chart` writes the same template in Helm's language.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

Document = dict[str, Any]


class Value(Struct, frozen=True):
    """A value that was chosen, by its path in the values such as ``metrics.port``."""

    path: str


class Namespace(Struct, frozen=True):
    """The namespace that is installed into."""


class Either(Struct, frozen=True):
    """A value if it was chosen, else something else."""

    value: Value
    other: Namespace


class Image(Struct, frozen=True):
    """The reference to an image: its repository with its digest, its tag, or our version."""

    path: str


class Text(Struct, frozen=True):
    """Parts of one string."""

    parts: tuple[str | Value | Namespace | Either | Image, ...]


class When(Struct, frozen=True):
    """An entry or item that is there only if a value is: not empty, not false, not 0.

    Attributes:
        path: The value.
        node: What is there.
        negated: There only if the value is not.
    """

    path: str
    node: Any
    negated: bool = False


class Merged(Struct, frozen=True):
    """A mapping, and the entries of a value besides; they have no key in common."""

    own: Document
    path: str


def text(*parts: str | Value | Namespace | Either | Image) -> Text:
    """One string of several parts."""
    return Text(parts)


def optional(path: str) -> When:
    """A value that is left out where it is empty."""
    return When(path, Value(path))


def look_up(values: Document, path: str) -> Any:
    """The value at a path such as ``metrics.port``."""
    found: Any = values
    for part in path.split("."):
        found = found[part]
    return found


class Filling(Struct, frozen=True):
    """What the gaps are filled with.

    Attributes:
        values: As spelled in YAML, complete.
        namespace: Where everything is installed.
        version: Tag of the images by default.
    """

    values: Document
    namespace: str
    version: str

    def fill(self, node: Any) -> Any:
        """A template with values in it; `Absent` where a condition does not hold."""
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
    """Of a condition that does not hold."""


ABSENT = _Absent()
