"""One raw entry of a catalog, with errors that name the field."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Any

from traincrew.local.images.errors import CatalogError

__all__ = ["Entry"]

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_LONGEST_PATH, _LONGEST_NAME = 4096, 255
"""PATH_MAX and NAME_MAX of Linux: bytes of a path with its end, and of each part."""
_MAX_NAME = 50
"""Characters of an unknown field that are compared with the known ones."""


class Entry:
    """Typed access to the fields of an entry.

    Args:
        path: The file of the catalog.
        index: Of the entry in it.
        raw: The entry.

    Raises:
        CatalogError: It is no mapping, has no valid name, or unknown fields.
    """

    FIELDS = (
        "name",
        "images",
        "from",
        "python",
        "buildRequirements",
        "requirements",
        "hashes",
        "pipArguments",
        "files",
        "programs",
        "machinePrograms",
        "env",
        "command",
        "args",
        "workingDir",
        "user",
        "ownPorts",
    )

    def __init__(self, path: Path, index: int, raw: Any) -> None:
        self.path = path
        self.where = f"{path}: environments[{index}]"
        self.raw: dict[str, Any] = raw if isinstance(raw, dict) else {}
        if not isinstance(raw, dict):
            raise CatalogError(f"{self.where}: must be a mapping with name, images and python")
        self.name = self.text("name") or self.fail("name", "is required")
        if not _NAME.fullmatch(self.name):
            self.fail("name", f'"{self.name}": only lower case letters, digits, "-" and "."')
        self.where += f' ("{self.name}")'
        for key in self.raw:
            if key not in self.FIELDS:
                close = difflib.get_close_matches(str(key)[:_MAX_NAME], self.FIELDS, n=1)
                hint = (
                    f'did you mean "{close[0]}"?' if close else f"known: {', '.join(self.FIELDS)}"
                )
                self.fail(str(key), f"is not a field of an environment; {hint}")

    def fail(self, key: str, problem: str) -> Any:
        """Raise CatalogError about a field."""
        raise CatalogError(f"{self.where}.{key}: {problem}")

    def text(self, key: str) -> str | None:
        """Return a text; None if it is missing or empty."""
        value = self.raw.get(key)
        if value is None or isinstance(value, str):
            self._check(key, value or "")
            return value or None
        return str(self.fail(key, _not_text(value)))

    def flag(self, key: str) -> bool | None:
        """Return true or false; None if it is missing."""
        value = self.raw.get(key)
        if value is None or isinstance(value, bool):
            return value
        return bool(self.fail(key, f"must be true or false, not {_kind(value)}"))

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts, none of which is empty."""
        value = self.raw.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            self.fail(key, f"must be a list, not {_kind(value)}")
        for index, item in enumerate(value):
            if not isinstance(item, str) or not item:
                self.fail(f"{key}[{index}]", _not_text(item))
            self._check(f"{key}[{index}]", item)
        return tuple(value)

    def text_map(self, key: str) -> dict[str, str]:
        """Return a mapping of texts."""
        value = self.raw.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.fail(key, f"must be a mapping, not {_kind(value)}")
        for name, item in value.items():
            if not isinstance(name, str):
                self.fail(f"{key}.{name}", f"the name {_not_text(name)}")
            self._check(key, name)
            if not isinstance(item, str):
                self.fail(f"{key}.{name}", _not_text(item))
            self._check(f"{key}.{name}", item)
        return dict(value)

    def _check(self, key: str, text: str) -> None:
        if "\0" in text or not _is_encodable(text):
            self.fail(key, "has a character that no path, variable or argument can have")

    def local_path(self, key: str, text: str) -> Path:
        """Resolve the path of a field, relative to the directory of the catalog."""
        path = self.path.parent / Path(text).expanduser()
        # Every look at such a path would be an error of the system.
        if len(os.fsencode(path)) >= _LONGEST_PATH or any(
            len(os.fsencode(part)) > _LONGEST_NAME for part in path.parts
        ):
            self.fail(key, "is too long for a path")
        return path


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: Any) -> str:
    return {dict: "a mapping", list: "a list", str: "a string", type(None): "nothing"}.get(
        type(value), f"{value!r}"
    )


def _not_text(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return f'must be a string: write it in quotes, "{str(value).lower()}"'
    return f"must be a string, not {_kind(value)}"
