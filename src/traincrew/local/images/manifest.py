"""The manifest of a finished environment: what every file in it was when it was built.

It is a file inside the environment. The marker of the environment holds its digest, so that neither
is exchanged without the other.
"""

from __future__ import annotations

import hashlib
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["MANIFEST", "Damage", "Entry", "compare", "decode", "encode", "scan", "summary"]

MANIFEST = "traincrew-manifest.json"
_THREADS = 4
_SHOWN = 3

Kind = Literal["file", "directory", "link", "special"]
Change = Literal["missing", "added", "changed"]


class Entry(Struct, frozen=True, array_like=True):
    """One file or directory.

    Attributes:
        path: Relative to the environment; what cannot be shown in it is escaped.
        kind: What it is; "special" stands for devices, pipes and sockets.
        mode: Its permissions; 0 for links, which have none.
        size: Of a file, in bytes.
        content: SHA-256 of a file, target of a link.
    """

    path: str
    kind: Kind
    mode: int
    size: int = 0
    content: str = ""


class Damage(Struct, frozen=True):
    """One difference between an environment and its manifest.

    Attributes:
        change: What has happened to it.
        path: Relative to the environment.
        detail: What differs, if it was changed.
    """

    change: Change
    path: str
    detail: str = ""


def encode(entries: list[Entry]) -> bytes:
    """Return the manifest as a file."""
    return msgspec.json.encode(entries)


def decode(content: bytes) -> list[Entry]:
    """Return the entries of a manifest.

    Raises:
        ValueError: It is not a manifest.
    """
    return msgspec.json.decode(content, type=list[Entry])


def scan(root: Path, leave_out: frozenset[str]) -> list[Entry]:
    """Return the entries of a directory, sorted by path, with the digests of all files.

    Args:
        root: The directory; it is no entry itself.
        leave_out: Names directly below it that are no entries.

    Raises:
        OSError: A file cannot be read.
    """
    found = list(_walk(str(root), "", leave_out))
    with ThreadPoolExecutor(_THREADS) as pool:
        return sorted(pool.map(lambda item: _entry(str(root), *item), found), key=_path)


def _path(entry: Entry) -> str:
    return entry.path


def _walk(root: str, below: str, leave_out: frozenset[str]) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(f"{root}/{below}") as entries:
        found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
    for name, status in found:
        if not below and name in leave_out:
            continue
        yield f"{below}{name}", status
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(root, f"{below}{name}/", leave_out)


def _entry(root: str, path: str, status: os.stat_result) -> Entry:
    shown = _text(path)
    place, mode = f"{root}/{path}", stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        # Whatever is there by now: neither a link nor a pipe is followed or waited for.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(place, flags), "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return Entry(shown, "file", mode, status.st_size, digest)
    if stat.S_ISDIR(status.st_mode):
        return Entry(shown, "directory", mode)
    if stat.S_ISLNK(status.st_mode):
        return Entry(shown, "link", 0, 0, _text(str(Path(place).readlink())))
    return Entry(shown, "special", mode)


def _text(path: str) -> str:
    """Return a path as text that can be shown: no two paths have the same."""
    text = os.fsencode(path).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text
    )


def compare(expected: list[Entry], found: list[Entry]) -> list[Damage]:
    """Return the differences, sorted by path."""
    wanted = {entry.path: entry for entry in expected}
    present = {entry.path: entry for entry in found}
    damage = []
    for path in sorted(wanted.keys() | present.keys()):
        before, now = wanted.get(path), present.get(path)
        if now is None:
            damage.append(Damage("missing", path))
        elif before is None:
            damage.append(Damage("added", path))
        elif before != now:
            damage.append(Damage("changed", path, _difference(before, now)))
    return damage


def _difference(before: Entry, now: Entry) -> str:
    if before.kind != now.kind:
        return f"{before.kind}, now {now.kind}"
    if before.size != now.size:
        return f"{before.size} bytes, now {now.size}"
    if before.content != now.content:
        return "target" if before.kind == "link" else "content"
    return f"mode {before.mode:04o}, now {now.mode:04o}"


def summary(damage: list[Damage]) -> str:
    """Return the differences in one line: "2 changed (a, b), 1 missing (c)"."""
    parts = []
    for change in ("changed", "missing", "added"):
        paths = [one.path for one in damage if one.change == change]
        if paths:
            more = ", …" if len(paths) > _SHOWN else ""
            parts.append(f"{len(paths)} {change} ({', '.join(paths[:_SHOWN])}{more})")
    return ", ".join(parts)
