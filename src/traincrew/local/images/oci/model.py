"""What the parts of the package hand to each other.

Formats: OCI image specification 1.1, and Docker's image manifest version 2, schema 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

__all__ = ["Descriptor", "ImageConfig", "LayerStore", "StoredImage"]


class Descriptor(Struct, frozen=True):
    """What a manifest says of one blob.

    Attributes:
        media_type: of OCI or Docker.
        digest: ``sha256:`` and 64 hexadecimal digits, in lower case.
        size: in bytes, as stored in a registry.
    """

    media_type: str
    digest: str
    size: int


class ImageConfig(Struct, frozen=True, kw_only=True):
    """The configuration of an image, as far as containers need it.

    Attributes:
        diff_ids: digest of each layer's uncompressed tar, lowest first.
        entrypoint: of containers without ``command``.
        arguments: ``Cmd``: of containers with neither ``command`` nor ``args``.
        variables: in the image's order.
        working_directory: absolute; ``/`` where the image names none.
        user: as written: ``""``, ``1000``, ``trainer``, ``1000:users``.
        volumes: paths whose content outlives no container.
        stop_signal: ``SIGTERM`` where the image names none.
        labels: of the image.
        operating_system: ``linux``.
        architecture: ``amd64``, ``arm64``.
    """

    diff_ids: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    working_directory: str = "/"
    user: str = ""
    volumes: tuple[str, ...] = ()
    stop_signal: str = "SIGTERM"
    labels: Mapping[str, str] = field(default_factory=dict)
    operating_system: str = "linux"
    architecture: str = ""


class StoredImage(Struct, frozen=True, kw_only=True):
    """An image whose layers are unpacked.

    Attributes:
        id: digest of its configuration.
        digest: of what the name stands for in a registry: an index, or the manifest itself; empty
            for one of `docker save`.
        names: references, normalized, such as ``docker.io/library/python:3.11``; none if only its
            ID is left.
        config: its configuration.
        layers: directories, lowest first, in the format of overlayfs: a deleted entry is a
            character device 0:0, an opaque directory has the attribute ``user.overlay.opaque``.
        owned: those of `layers` that have owners other than root in the image, or set-user-ID bits.
        size: of its files, in bytes.
        created: when it was stored, RFC 3339.
        left_out: what of it could not be unpacked here, as text for users: devices, say.
        imported: whether it is from an archive: a registry need not know it.
    """

    id: str
    digest: str
    names: tuple[str, ...]
    config: ImageConfig
    layers: tuple[Path, ...]
    size: int
    created: str
    left_out: tuple[str, ...] = ()
    imported: bool = False
    owned: frozenset[Path] = frozenset()


class LayerStore(Protocol):
    """The part of the store that a pull writes to. Blocking: call it in threads."""

    def has_layer(self, diff_id: str) -> bool:
        """Return whether a layer is unpacked: a pull need not fetch it."""
        ...

    def lock(self, digest: str) -> AbstractContextManager[None]:
        """Let one pull at a time, of any process, fetch and unpack a blob; waits for others."""
        ...

    def partial(self, digest: str) -> Path:
        """Return the file that collects the bytes of a blob.

        What an earlier pull has left in it was not checked: a pull goes on at its end.
        """
        ...

    def add_layer(
        self, blob: Path, descriptor: Descriptor, diff_id: str, progress: Callable[[int], None]
    ) -> None:
        """Check a fetched blob, unpack it, and remove it.

        Args:
            blob: the file; removed also if it is refused.
            descriptor: of the blob, in the manifest.
            diff_id: of the layer, in the configuration.
            progress: is given the number of compressed bytes that have been read so far.

        Raises:
            ImageContentError: the bytes are not those that the digests name, or not a layer that
                is safe to unpack; the message says what, but not which image.
            OSError: the disk is full, say.
        """
        ...

    def add_image(
        self, names: Sequence[str], manifest: bytes, config: bytes, digest: str
    ) -> StoredImage:
        """Store an image whose layers are all unpacked; its names leave other images.

        Args:
            names: references, normalized.
            manifest: as the registry sent it.
            config: the blob, whose digest the caller has checked.
            digest: as in `StoredImage`; where the name stands for an index, it is not that of
                `manifest`.
        """
        ...

    def find(self, name: str) -> StoredImage | None:
        """Return the image of a normalized reference, or of an ID (``sha256:…``)."""
        ...

    def place(self, image: StoredImage) -> Path:
        """Return the directory on which a container holds a shared lock (flock) while it runs."""
        ...
