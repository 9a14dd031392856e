"""Environments that `traincrew images map` defines: a catalog that only this program writes.

It is read before the catalog that users write themselves, which is left as it is.
"""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from traincrew.local.directories import make_directory, write_new
from traincrew.local.images.catalog import is_path, load_catalogs
from traincrew.local.images.documents import read_entries
from traincrew.local.images.errors import CatalogError
from traincrew.local.images.reference import parse_reference

__all__ = [
    "default_catalog",
    "map_image",
    "mapped_images",
    "read_requirements",
    "unmap_image",
    "user_catalogs",
]

_MAX_BYTES = 128 * 1024
"""Of a file of requirements."""
_COMMENT = re.compile(r"(?:^|\s)#.*")


def _directory() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "traincrew"


def default_catalog() -> Path:
    """Return the default path of the catalog that users write themselves."""
    return _directory() / "environments.yaml"


def user_catalogs() -> tuple[Path, Path]:
    """Return the catalogs of this user, in order of precedence."""
    return _directory() / "mapped.yaml", default_catalog()


def mapped_images() -> list[str]:
    """Return the images that this user has mapped.

    Raises:
        CatalogError: The file cannot be read, or somebody has changed it.
    """
    return [image for entry in _entries() for image in entry.get("images", ())]


def map_image(image: str, python: str, requirements: list[str]) -> str:
    """Define the environment of an image, in place of an earlier mapping of it.

    Args:
        image: Its name; without a tag for all of them.
        python: A version such as ``3.11``, ``current``, or the path of an interpreter, also one
            relative to the current directory.
        requirements: Packages, as pip takes them.

    Returns:
        The name of the environment.

    Raises:
        ImagePullError: The image has no valid name.
        CatalogError: Something of it is wrong, as the message says.
        OSError: The file cannot be written.
    """
    parse_reference(image)
    if is_path(python):
        # Not resolved: the link in a virtual environment is what makes it one.
        path = Path.cwd() / Path(python).expanduser()
        try:
            there = path.exists()
        except OSError:  # it is too long, for example
            there = False
        if not there:
            raise CatalogError(f"python: {path} does not exist")
        python = str(path)
    entries = [entry for entry in _entries() if image not in entry.get("images", ())]
    taken = {entry.get("name") for entry in entries}
    plain = re.sub(r"[^a-z0-9]+", "-", image.lower())[:100].strip("-")
    names = (plain if number == 1 else f"{plain}-{number}" for number in range(1, len(taken) + 2))
    name = next(each for each in names if each not in taken)
    entry: dict[str, Any] = {"name": name, "images": [image], "python": python}
    if requirements:
        entry["requirements"] = requirements
    _write([entry, *entries])
    return name


def unmap_image(image: str) -> bool:
    """Remove the mapping of an image; return whether there was one.

    Raises:
        CatalogError: The file cannot be read, or somebody has changed it.
        OSError: The file cannot be written.
    """
    entries = _entries()
    left = [entry for entry in entries if image not in entry.get("images", ())]
    if len(left) == len(entries):
        return False
    _write(left)
    return True


def _entries() -> list[dict[str, Any]]:
    path, _ = user_catalogs()
    if not path.exists():
        return []
    load_catalogs([path])  # which says what is wrong with it
    return [entry for entry in read_entries(path) if isinstance(entry, dict)]


def _write(entries: list[dict[str, Any]]) -> None:
    """Write the catalog if it is valid, so that nobody sees a part of it."""
    path, _ = user_catalogs()
    make_directory(path.parent)
    text = "# Written by `traincrew images map`.\n" + yaml.safe_dump(
        {"environments": entries}, sort_keys=False, allow_unicode=True
    )
    new = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    write_new(new, text.encode())
    try:
        load_catalogs([new])
        new.replace(path)
    except CatalogError as error:
        where = re.escape(f"{new}: ") + r'environments\[\d+\] \("[^"]*"\)\.'
        raise CatalogError(re.sub(where, "", str(error))) from error
    finally:
        with suppress(OSError):
            new.unlink()


def read_requirements(path: Path) -> list[str]:
    """Return the packages of a file of requirements, without comments.

    Raises:
        CatalogError: It cannot be read, or has options, which a catalog keeps elsewhere.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise CatalogError(f"{path}: has more than {_MAX_BYTES >> 10} KiB")
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise CatalogError(f"{path}: cannot be read: {(error.strerror or '?').lower()}") from error
    except UnicodeDecodeError as error:
        raise CatalogError(f"{path}: not UTF-8 text") from error
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        requirement = _COMMENT.sub("", line).strip()
        if requirement.startswith("-") or requirement.endswith("\\"):
            raise CatalogError(
                f"{path}:{number}: {requirement[:80]!r} is an option or a line that goes on: write"
                " one package a line; pip's own settings (pip config list) name the index"
            )
        if requirement:
            found.append(requirement)
    return found
