"""Hashes of packages: what an environment installs is what its catalog was written with.

They are in requirements files as ``uv pip compile --generate-hashes`` and ``pip-compile`` write
them, named by the field ``hashes`` of an environment. A requirement that pins a version with hashes
there installs no other file. If all requirements do, nothing without a hash is installed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from traincrew.local.images.errors import BuildError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = ["hashed", "read"]

OPEN = frozenset({"torch"})
"""Packages whose dependencies differ between indexes and builds, so that they cannot be pinned."""

_PIN = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*==\s*([^\s;,*]+)\s*(?:;.*)?")
_HASH = re.compile(r"\s--hash=(sha(?:256|384|512):[0-9a-f]+)")


def read(files: Iterable[Path]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the hashes in requirements files, by the normalized name and version of a package.

    Raises:
        BuildError: A file cannot be read, or has something else; the message names file and line.
    """
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BuildError(f"hashes: {file}: cannot be read: {error}") from error
        # A requirement continues on the next line after a backslash.
        for line in text.replace("\\\n", " ").splitlines():
            stated = line.partition(" #")[0].strip()
            if not stated or stated.startswith("#"):
                continue
            pinned = _pin(stated.partition(" --hash=")[0])
            hashes = tuple(_HASH.findall(f" {stated}"))
            if pinned is None or not hashes:
                raise BuildError(
                    f'hashes: {file}: "{stated[:60]}": must be NAME==VERSION --hash=sha256:..., '
                    'as of "uv pip compile --generate-hashes"'
                )
            found[pinned] = found.get(pinned, ()) + hashes
    return found


def hashed(
    requirements: Sequence[str],
    hashes: Mapping[tuple[str, str], tuple[str, ...]],
    without: Collection[str] = (),
) -> tuple[list[str], bool]:
    """Add hashes to requirements.

    Args:
        requirements: As of `pip install`.
        hashes: From `read`.
        without: Normalized names of packages that get none.

    Returns:
        The lines of a requirements file, and whether all of them have hashes, and so can their
        dependencies: nothing without one needs to be installed.
    """
    lines, complete = [], True
    for requirement in requirements:
        pinned = _pin(requirement)
        known = hashes.get(pinned, ()) if pinned and pinned[0] not in without else ()
        complete &= pinned is not None and bool(known) and pinned[0] not in OPEN
        lines.append(" ".join([requirement.strip(), *(f"--hash={one}" for one in known)]))
    return lines, complete


def _pin(requirement: str) -> tuple[str, str] | None:
    """Return name and version of a requirement that accepts this version only."""
    match = _PIN.fullmatch(requirement)
    return (re.sub(r"[-_.]+", "-", match[1].lower()), match[2]) if match else None
