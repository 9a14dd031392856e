"""A fetched layer -> a directory, with its digests checked on the way."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.layers.decompression import Decompression
from traincrew.local.images.oci.layers.limits import Limits, limits_of
from traincrew.local.images.oci.layers.records import RecordWriter
from traincrew.local.images.oci.layers.tarfiles import Archive
from traincrew.local.images.oci.layers.tree import LayerTree, Owners

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.local.images.oci.model import Descriptor

__all__ = ["Unpacked", "unpack"]


class Unpacked(Struct, frozen=True):
    """What a layer turned out to be.

    Attributes:
        size: bytes of its files, holes included.
        is_opaque: whether it hides all layers below it.
        implied: directories that it has entries of, but no entry for: of the image, they have the
            modes and owners of the layers below.
        left_out: what was not unpacked, for users.
        has_owners: whether it has owners other than root, or bits that were not set.
    """

    size: int
    is_opaque: bool
    implied: tuple[bytes, ...]
    left_out: tuple[str, ...]
    has_owners: bool


def unpack(
    blob: BinaryIO,
    descriptor: Descriptor | None,
    diff_id: str,
    root: int,
    records: BinaryIO,
    *,
    owners: Owners,
    progress: Callable[[int], None],
    limits: Limits | None = None,
) -> Unpacked:
    """Unpack a layer into an empty directory.

    Args:
        blob: the layer, at its start.
        descriptor: of the manifest; None for an archive of `docker save`, which has no digests of
            blobs.
        diff_id: the digest of its uncompressed archive.
        root: descriptor of the directory.
        records: file that gets a record of every entry.
        owners: as of `LayerTree`.
        progress: is given the number of compressed bytes that have been read so far.
        limits: those of the file system if None.

    Raises:
        ImageContentError: Its digests are others, or it is refused; the directory is to be removed.
        OSError: It cannot be read or written; likewise.
    """
    limits = limits or limits_of(root)
    writer = RecordWriter(records)
    tree = LayerTree(root, owners, limits, writer.write)
    try:
        with Decompression(blob, limits) as stream:
            archive = Archive(_reporting(stream, progress))
            for entry in archive.entries():
                tree.add(entry, archive)
            digest, size, found = stream.digests()
            progress(size)
        _check(descriptor, digest, size)
        _check_diff_id(diff_id, found)
        implied = tree.finish()
        return Unpacked(tree.size, tree.is_opaque, implied, tree.left_out(), tree.has_owners)
    except ImageContentError:
        # What is wrong with the bytes of a damaged blob says less than that it is damaged.
        if descriptor is not None:
            digest, size = _digest(blob)
            _check(descriptor, digest, size)
        raise
    finally:
        tree.close()


def _reporting(stream: Decompression, progress: Callable[[int], None]) -> Callable[[], bytes]:
    said = 0

    def piece() -> bytes:
        nonlocal said
        data = stream.piece()
        if stream.packed != said:
            said = stream.packed
            progress(said)
        return data

    return piece


def _check_diff_id(diff_id: str, found: str) -> None:
    if found != diff_id:
        raise ImageContentError(f"a layer unpacks to {found}, and the configuration says {diff_id}")


def _check(descriptor: Descriptor | None, digest: str, size: int) -> None:
    if descriptor is None:
        return
    if size != descriptor.size:
        raise ImageContentError(
            f"a layer has {size} bytes, and the manifest says {descriptor.size} "
            f"({descriptor.digest})"
        )
    if digest != descriptor.digest:
        raise ImageContentError(
            f"a layer has the digest {digest}, and the manifest says {descriptor.digest}"
        )


def _digest(blob: BinaryIO) -> tuple[str, int]:
    blob.seek(0)
    digest = hashlib.sha256()
    while data := blob.read(1024 * 1024):
        digest.update(data)
    return "sha256:" + digest.hexdigest(), os.fstat(blob.fileno()).st_size
