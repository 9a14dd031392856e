"""Finished environments in the cache: read-only, sealed, checked at every use.

A virtual environment cannot be moved, and pods may be using it, so a damaged one is never changed:
the next *generation* is built beside it (`DIGEST`, `DIGEST-1`, …) and takes its place the moment
it is complete. The marker file, written last, completes a tree; of the complete ones the newest
counts.

Three things describe what a tree has to be:

* The marker names the recipe and the digest of the manifest.
* The manifest (`traincrew.local.images.manifest`) has a digest of every file. To compare it all
  files must be read: a second for each gigabyte or two.
* The seal, a file beside the tree, has what `stat` says of its directories and first files. It is
  compared at every pull, in a few milliseconds. `ctime` is part of it, which changes with every
  write and can be set by nobody; it changes with a copy or a backup as well, so another seal alone
  is no damage: the manifest decides, and the seal is renewed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import struct
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from traincrew.engine.decoding import decode_json
from traincrew.local.directories import write_new
from traincrew.local.images.manifest import (
    MANIFEST,
    Damage,
    Entry,
    compare,
    decode,
    encode,
    scan,
)

__all__ = [
    "MARKER",
    "Marker",
    "Seals",
    "current_tree",
    "finish",
    "is_complete",
    "next_tree",
    "recipe_of",
]

MARKER = "traincrew-environment.json"
_OWN = frozenset({MARKER, MANIFEST})
_WATCHED_DIRECTORIES = 1500
_WATCHED_FILES = 500
"""Entries in a seal, those nearest to the top: more would take longer than a pull may."""
_STATUS = struct.Struct("<IIQqQ")
_NOT_WRITABLE = 0o555


class Marker(Struct):
    """The marker of a complete tree.

    Attributes:
        name: Of the entry of the catalog it was built for.
        recipe: The digest that its directory is named after.
        manifest: SHA-256 of the manifest.
        python: Version of its Python.
        interpreter: The interpreter it was made from.
        requirements: As in the catalog.
        seconds: The time the build took.
    """

    name: str
    recipe: str
    manifest: str
    python: str
    interpreter: str
    requirements: tuple[str, ...]
    seconds: float


class _Seal(Struct):
    watched: list[str]
    status: str


def recipe_of(tree: Path) -> Path:
    """Return the path of a tree's first generation."""
    return tree.with_name(tree.name.partition("-")[0])


def is_complete(tree: Path) -> bool:
    """Return whether the tree is complete and its interpreter still exists."""
    return (tree / MARKER).is_file() and os.access(tree / "bin" / "python", os.X_OK)


def current_tree(recipe: Path) -> Path | None:
    """Return the newest complete generation of a tree, if there is one."""
    complete = [tree for tree in _generations(recipe) if is_complete(tree)]
    return max(complete, key=_generation) if complete else None


def next_tree(recipe: Path) -> Path:
    """Return where the next generation is to be built."""
    present = [_generation(tree) for tree in _generations(recipe) if (tree / MARKER).is_file()]
    number = max(present) + 1 if present else 0
    return recipe.with_name(f"{recipe.name}-{number}") if number else recipe


def _generations(recipe: Path) -> list[Path]:
    with suppress(OSError), os.scandir(recipe.parent) as entries:
        return [
            recipe.with_name(entry.name)
            for entry in entries
            if entry.name == recipe.name
            or (
                entry.name.startswith(f"{recipe.name}-") and entry.name.rpartition("-")[2].isdigit()
            )
        ]
    return []


def _generation(tree: Path) -> int:
    return int(tree.name.partition("-")[2] or 0)


def finish(tree: Path, marker: Marker) -> None:
    """Make a tree read-only and complete.

    Raises:
        OSError: A file cannot be read or written.
    """
    _make_read_only(tree)
    manifest = encode(scan(tree, _OWN))
    write_new(tree / MANIFEST, manifest)
    (tree / MANIFEST).chmod(0o444)
    marker.recipe = recipe_of(tree).name
    marker.manifest = hashlib.sha256(manifest).hexdigest()
    temporary = tree / (MARKER + ".new")
    write_new(temporary, msgspec.json.format(msgspec.json.encode(marker)))
    temporary.chmod(0o444)
    temporary.rename(tree / MARKER)
    Seals().write(tree, _seal(tree, decode(manifest)))


def _make_read_only(tree: Path) -> None:
    """Take away the permission to write, from all but the directory itself.

    A file with further names, in a package cache for example, is replaced by a copy: it would
    change with them, and they with it.
    """
    for directory, _, names in os.walk(tree, topdown=False):
        for name in names:
            path = Path(directory, name)
            found = path.lstat()
            if stat.S_ISREG(found.st_mode):
                if found.st_nlink > 1:
                    copy = path.with_name(f".traincrew-{path.name[:200]}")
                    shutil.copy2(path, copy)
                    copy.rename(path)
                path.chmod(found.st_mode & _NOT_WRITABLE | 0o400)
        if directory != os.fspath(tree):
            mode = stat.S_IMODE(Path(directory).stat().st_mode)
            Path(directory).chmod(mode & _NOT_WRITABLE | 0o500)


class Seals:
    """Checks trees against their seals and manifests.

    The seals of a cache that cannot be written are renewed in memory.
    """

    def __init__(self) -> None:
        self._renewed: dict[Path, _Seal] = {}

    def is_unchanged(self, tree: Path) -> bool:
        """Return whether a tree is complete and as its seal has it; takes milliseconds."""
        try:
            marker = decode_json((tree / MARKER).read_bytes(), type=Marker)
            if marker.recipe != recipe_of(tree).name:
                return False
            seal = self._renewed.get(tree)
            if seal is not None and _status(tree, seal.watched) == seal.status:
                return True
            seal = decode_json(_seal_path(tree).read_bytes(), type=_Seal)
            return bool(seal.watched) and _status(tree, seal.watched) == seal.status
        except (OSError, ValueError):
            return False

    def damage(self, tree: Path) -> list[Damage]:
        """Compare every file of a complete tree with its manifest; renew the seal if all agree.

        Raises:
            OSError: A file cannot be read.
        """
        try:
            marker = decode_json((tree / MARKER).read_bytes(), type=Marker)
            content = (tree / MANIFEST).read_bytes()
            expected = decode(content)
        except FileNotFoundError as error:
            return [Damage("missing", Path(error.filename).name)]
        except ValueError:
            return [Damage("changed", MANIFEST, "content")]
        if marker.recipe != recipe_of(tree).name:
            return [Damage("changed", MARKER, f"of {marker.recipe}")]
        if marker.manifest != hashlib.sha256(content).hexdigest():
            return [Damage("changed", MANIFEST, "content")]
        # Before the files are read: what changes meanwhile must not be sealed.
        seal = _seal(tree, expected)
        found = compare(expected, scan(tree, _OWN))
        if not found:
            self.write(tree, seal)
        return found

    def write(self, tree: Path, seal: _Seal) -> None:
        """Seal a tree, in memory at least."""
        self._renewed[tree] = seal
        with suppress(OSError):
            temporary = _seal_path(tree).with_suffix(".seal-new")
            write_new(temporary, msgspec.json.encode(seal))
            temporary.rename(_seal_path(tree))


def _seal(tree: Path, entries: list[Entry]) -> _Seal:
    """Return the seal of a tree as it is now."""
    mode = stat.S_IMODE(tree.stat().st_mode)
    if mode & ~_NOT_WRITABLE:
        # As the last one: until the marker is there, files are created in it.
        with suppress(OSError):
            tree.chmod(mode & _NOT_WRITABLE)
    # Escaped paths cannot be opened as they are.
    listed = [entry for entry in entries if "\\" not in entry.path]
    listed.sort(key=lambda entry: entry.path.count("/"))
    directories = [entry.path for entry in listed if entry.kind == "directory"]
    others = [entry.path for entry in listed if entry.kind != "directory"]
    watched = ["", MARKER, MANIFEST, *directories[:_WATCHED_DIRECTORIES], *others[:_WATCHED_FILES]]
    try:
        return _Seal(watched, _status(tree, watched))
    except OSError:
        return _Seal([], "")  # one is missing, so that it is never compared


def _seal_path(tree: Path) -> Path:
    return tree.with_suffix(".seal")


def _status(tree: Path, watched: list[str]) -> str:
    """Return the digest of what the kernel says of the watched entries.

    Raises:
        OSError: One does not exist.
    """
    digest = hashlib.sha256()
    above = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for path in watched:
            found = os.stat(path or ".", dir_fd=above, follow_symlinks=False)
            digest.update(
                _STATUS.pack(
                    found.st_mode, found.st_uid, found.st_size, found.st_ctime_ns, found.st_ino
                )
            )
    finally:
        os.close(above)
    return digest.hexdigest()
