"""The files of the store: where they are, and what is in them."""

from __future__ import annotations

import contextlib
import errno
import secrets
import time
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.local.directories import private_directory, write_new
from traincrew.local.images.oci.cleanup import BLOB, REMOVED, held_lock, new_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from traincrew.local.images.oci.layers import Owners

__all__ = ["DIRECTORIES", "OWNERS", "TREE", "ImageRecord", "LayerRecord", "Places", "now", "read"]

_LOCKS = "locks"
_NAMES = "names.json"
TREE = "tree"
DIRECTORIES = "directories"
"""Of an image: directories that its layers hide, as they should be (`implied`)."""
OWNERS = "owners.json"
"""Of an image: owners of these directories, where they are this user's."""


class LayerRecord(Struct, frozen=True):
    """What is known of an unpacked layer; of its entries, the file ``records`` tells.

    Attributes:
        size: bytes of its files.
        is_opaque: whether it hides all layers below it.
        implied: paths of directories that it does not describe itself, as bytes.
        left_out: what was not unpacked, for users.
        has_owners: whether the image has owners other than root in it, or set-user-ID bits.
    """

    size: int
    is_opaque: bool = False
    implied: tuple[bytes, ...] = ()
    left_out: tuple[str, ...] = ()
    has_owners: bool = False


class ImageRecord(Struct, frozen=True):
    """What is known of an image; its manifest and configuration are files beside it.

    Attributes:
        digest: of its manifest in a registry; empty for one of `docker save`.
        created: when it was stored, RFC 3339.
        imported: whether it is from an archive, and was not pulled since.
    """

    digest: str
    created: str
    imported: bool = False


class _Names(Struct):
    names: dict[str, str] = field(default_factory=dict)


class Places:
    """Paths below the directory of the store, and the changes that more than one process makes."""

    def __init__(self, directory: Path, owners: Owners) -> None:
        self.directory = directory
        self.images = directory / "images"
        self.layers = directory / "layers" / owners
        self.partial = directory / "partial"
        self.locks = directory / _LOCKS

    def make(self) -> None:
        """Make the directories.

        Raises:
            OSError: They cannot be made, or belong to another user.
        """
        private_directory(self.directory)
        for path in (self.images, self.layers.parent, self.layers, self.partial, self.locks):
            path.mkdir(mode=0o700, exist_ok=True)

    def image(self, image_id: str) -> Path:
        """Return the directory of an image."""
        return self.images / _named(image_id)

    def layer(self, diff_id: str) -> Path:
        """Return the directory of an unpacked layer."""
        return self.layers / _named(diff_id)

    def blob(self, digest: str) -> Path:
        """Return the file of the bytes of a blob."""
        return self.partial / (_named(digest) + BLOB)

    @contextlib.contextmanager
    def lock(self, name: str, *, shared: bool = False) -> Iterator[None]:
        """Hold a lock of the store, which other processes respect; waits for them.

        Raises:
            OSError: It cannot be made.
        """
        with held_lock(self.locks / f"{name}.lock", shared=shared, keep=True):
            yield

    @contextlib.contextmanager
    def lock_blob(self, digest: str) -> Iterator[None]:
        """Hold the lock of a blob; waits for others. A start leaves it alone meanwhile.

        Raises:
            OSError: It cannot be made.
        """
        path = self.blob(digest)
        with held_lock(path.with_name(path.name + ".lock")):
            yield

    def names(self) -> dict[str, str]:
        """Return the IDs of images by their names."""
        try:
            data = (self.images / _NAMES).read_bytes()
            return decode_json(data, type=_Names).names
        except (FileNotFoundError, UndecodableError):
            return {}

    def write_names(self, names: dict[str, str]) -> None:
        """Set the names of images; the caller holds the lock ``names``.

        Raises:
            OSError: They cannot be written; those before stay.
        """
        self.replace(self.images / _NAMES, msgspec.json.format(msgspec.json.encode(_Names(names))))

    def replace(self, path: Path, content: bytes) -> None:
        """Write a file so that others see the old content or the new one.

        Raises:
            OSError: It cannot be written; the old one stays.
        """
        with new_directory(self.partial, "file") as directory:
            temporary = directory / path.name
            write_new(temporary, content)
            temporary.replace(path)

    def complete(self, made: Path, final: Path) -> None:
        """Give a directory that was filled below ``partial`` its final name.

        If another process was faster, its directory stays.

        Raises:
            OSError: It cannot be renamed.
        """
        try:
            made.rename(final)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                raise

    def take_away(self, path: Path) -> Path | None:
        """Take a directory out of the store; return where its files are, for `remove_tree`.

        Nothing is made for it: it works on a full disk.

        Raises:
            OSError: It cannot be moved.
        """
        away = self.partial / f"{REMOVED}{secrets.token_hex(8)}"
        try:
            path.rename(away)
        except FileNotFoundError:
            return None
        return away


def read(path: Path, wanted: Any) -> Any:
    """Return what a file of the store has in it; None if it is missing or damaged."""
    try:
        return decode_json(path.read_bytes(), type=wanted)
    except (OSError, UndecodableError):
        return None


def now() -> str:
    """Return the time for a record."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _named(digest: str) -> str:
    """Return a digest as the name of a file; it was checked, and so has no slash."""
    assert "/" not in digest
    return digest.replace(":", "-")
