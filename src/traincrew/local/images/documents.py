"""Reading the YAML of a catalog, which may be somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.engine.yamlreader import YamlError, explain, read
from traincrew.local.images.errors import CatalogError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_entries"]

_MAX_BYTES = 256 * 1024
"""Of a catalog; the shipped one has 17 KiB."""
_MAX_ENTRIES = 1000


def read_entries(path: Path) -> list[Any]:
    """Return the raw entries of a catalog.

    Args:
        path: The file.

    Raises:
        CatalogError: It cannot be read, is not YAML, or is not a list of entries.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise CatalogError(f"{path}: has more than {_MAX_BYTES >> 10} KiB, so it is no catalog")
        document = read(content)
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {error.strerror}") from error
    except YamlError as error:
        raise CatalogError(explain(str(path), error)) from error
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
