"""Reading the YAML of a catalog, which may be somebody else's: bounded, whatever is in it.

A few hundred bytes of YAML stand for gigabytes (aliases of merges of aliases), deep nesting ends
the interpreter's stack, and the constructors of PyYAML raise what they like for odd values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from traincrew.local.images.errors import CatalogError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_entries"]

_MAX_BYTES = 256 * 1024
"""Of a catalog; the shipped one has 17 KiB."""
_MAX_DEPTH = 50
_MAX_ALIASES = 1000
_MAX_MERGED = 1000
_MAX_DIGITS = 100
_MAX_ENTRIES = 1000
_ANY = (
    yaml.YAMLError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class _Loader(yaml.SafeLoader):
    """Builds plain values, and refuses what grows beyond the text it is written in."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._aliases = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            self._aliases += 1
            if self._aliases > _MAX_ALIASES:
                self._refuse(f"more than {_MAX_ALIASES} aliases")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._refuse(f"nested more than {_MAX_DEPTH} deep")
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > _MAX_MERGED:
            self._refuse(f"more than {_MAX_MERGED} fields in one mapping", node.start_mark)

    def construct_number(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > _MAX_DIGITS:
            self._refuse(f"a number of more than {_MAX_DIGITS} digits", node.start_mark)
        number: int = self.construct_yaml_int(node)
        return number

    def _refuse(self, what: str, mark: yaml.Mark | None = None) -> None:
        raise yaml.MarkedYAMLError(problem=what, problem_mark=mark or self.get_mark())


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_number)

# The parser in C has no place for bounds, but takes a tenth of the time.
_UnboundedLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_entries(path: Path, *, ours: bool = False) -> list[Any]:
    """Return the raw entries of a catalog.

    Args:
        path: The file.
        ours: Whether it is the shipped one, which needs no bounds.

    Raises:
        CatalogError: It cannot be read, is not YAML, or is not a list of entries.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise CatalogError(f"{path}: has more than {_MAX_BYTES >> 10} KiB, so it is no catalog")
        loader = _UnboundedLoader if ours else _Loader
        document = yaml.load(content.decode("utf-8"), loader)  # noqa: S506 - both are safe
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CatalogError(f"{path}: is not UTF-8 text: {error}") from error
    except _ANY as error:
        detail = " ".join(str(error).split()) or type(error).__name__
        raise CatalogError(f"{path}: is not valid YAML: {detail}") from error
    if document is None:
        return []
    if not isinstance(document, dict) or set(document) - {"environments"}:
        found = (
            ", ".join(f'"{key}"' for key in document)
            if isinstance(document, dict)
            else type(document).__name__
        )
        raise CatalogError(f'{path}: the only top-level field is "environments"; found {found}')
    entries = document.get("environments")
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise CatalogError(f"{path}: environments: must be a list of entries")
    if len(entries) > _MAX_ENTRIES:
        raise CatalogError(f"{path}: environments: has more than {_MAX_ENTRIES} entries")
    return entries
