"""Bytes of indexes and manifests of images -> checked values. No files, no HTTP.

Formats: OCI image specification 1.1 (image index, manifest), and Docker's
image manifest version 2, schema 2, whose fields are the same.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from msgspec import Struct, field

from traincrew.engine.decoding import UndecodableError, decode_json
from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.model import Descriptor
from traincrew.local.images.oci.platforms import Platform, platform_rank

__all__ = [
    "MANIFEST_TYPES",
    "MAX_CONFIG",
    "MAX_LAYERS",
    "MAX_LAYER_SIZE",
    "MAX_MANIFEST",
    "Index",
    "IndexEntry",
    "Manifest",
    "ManifestSearch",
    "check_digest",
    "choose",
    "decode",
    "digest_of",
    "parse_document",
]

MAX_MANIFEST = 4 * 1024 * 1024
"""Bytes of a manifest or an index, the limit of registries (OCI distribution specification)."""
MAX_CONFIG = 4 * 1024 * 1024
"""Bytes of a configuration. With the history of 127 layers it has some 50 KiB."""
MAX_LAYERS = 256
"""Layers of one image. Docker builds up to 127, and overlayfs has 500 at most."""
MAX_LAYER_SIZE = 64 << 30
"""Bytes of one layer, compressed or not."""
_MAX_ENTRIES = 1000
"""Manifests in one index."""
_MAX_INDEXES = 4
"""Indexes on the way to a manifest. Builders nest one in another at most."""

_OCI = "application/vnd.oci.image."
_DOCKER = "application/vnd.docker."
_INDEX_TYPES = (f"{_OCI}index.v1+json", f"{_DOCKER}distribution.manifest.list.v2+json")
_IMAGE_TYPES = (f"{_OCI}manifest.v1+json", f"{_DOCKER}distribution.manifest.v2+json")
MANIFEST_TYPES = (*_IMAGE_TYPES, *_INDEX_TYPES)
"""Media types to ask a registry for (``Accept``)."""
_SCHEMA_1 = (
    f"{_DOCKER}distribution.manifest.v1+json",
    f"{_DOCKER}distribution.manifest.v1+prettyjws",
)
_CONFIG_TYPES = (f"{_OCI}config.v1+json", f"{_DOCKER}container.image.v1+json")
_LAYER_TYPES = frozenset(
    f"{start}{compression}"
    for start, compressions in (
        (f"{_OCI}layer.v1.tar", ("", "+gzip", "+zstd")),
        (f"{_OCI}layer.nondistributable.v1.tar", ("", "+gzip", "+zstd")),
        (f"{_DOCKER}image.rootfs.diff.tar", ("", ".gzip", ".zstd")),
        (f"{_DOCKER}image.rootfs.foreign.diff.tar", ("", ".gzip", ".zstd")),
    )
    for compression in compressions
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class IndexEntry(Struct, frozen=True):
    """What an index says of one manifest.

    Attributes:
        descriptor: of the manifest, or of another index.
        platform: None if the index names none.
        annotations: such as ``org.opencontainers.image.ref.name``.
    """

    descriptor: Descriptor
    platform: Platform | None = None
    annotations: dict[str, str] = field(default_factory=dict)


class Index(Struct, frozen=True):
    """An index (a "manifest list" of Docker): the image's manifests for several platforms."""

    entries: tuple[IndexEntry, ...]


class Manifest(Struct, frozen=True):
    """The manifest of an image for one platform; layers lowest first."""

    config: Descriptor
    layers: tuple[Descriptor, ...]


def digest_of(data: bytes) -> str:
    """Return the digest of a document."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def check_digest(digest: str, what: str) -> str:
    """Return a digest if it is a SHA-256.

    Args:
        digest: as it is written.
        what: whose it is, for the message.

    Raises:
        ImageContentError: It is none; other algorithms are not in use.
    """
    if not _DIGEST.fullmatch(digest):
        raise ImageContentError(
            f'the digest of {what} is "{digest[:100]}"; it must be "sha256:" and 64 hexadecimal '
            "digits in lower case"
        )
    return digest


class _RawPlatform(Struct):
    os: str = ""
    architecture: str = ""
    variant: str = ""


class _RawDescriptor(Struct):
    digest: str
    size: int
    mediaType: str = ""  # noqa: N815 - as in the format
    platform: _RawPlatform | None = None
    annotations: dict[str, str] | None = None


class _RawDocument(Struct):
    schemaVersion: int | None = None  # noqa: N815 - as in the format
    mediaType: str = ""  # noqa: N815 - as in the format
    config: _RawDescriptor | None = None
    layers: list[_RawDescriptor] | None = None
    manifests: list[_RawDescriptor] | None = None


class _Version(Struct):
    schemaVersion: Any = None  # noqa: N815 - as in the format
    fsLayers: Any = None  # noqa: N815 - as in the format


def parse_document(data: bytes, media_type: str = "") -> Manifest | Index:
    """Read a manifest or an index.

    Args:
        data: the document.
        media_type: what its descriptor or the registry calls it; empty if neither does.

    Raises:
        ImageContentError: It is neither, is too large, or is wrong; the message says where.
    """
    if len(data) > MAX_MANIFEST:
        raise ImageContentError(
            f"its manifest has more than {MAX_MANIFEST >> 20} MiB, the limit of registries"
        )
    media_type = media_type.partition(";")[0].strip()
    if media_type in _SCHEMA_1 or _is_schema_1(data):
        raise ImageContentError(
            "its manifest is in Docker's schema 1, which Docker no longer reads either: "
            "push the image again with a current docker or buildah"
        )
    raw: _RawDocument = decode(data, _RawDocument, "manifest")
    kind = raw.mediaType or media_type
    if raw.mediaType and media_type in MANIFEST_TYPES and raw.mediaType != media_type:
        # CVE-2021-41190: a document that is read as one type here, and as another there.
        raise ImageContentError(
            f'its manifest calls itself "{raw.mediaType[:100]}" but was sent as "{media_type}"'
        )
    if raw.manifests is not None and (raw.layers is not None or raw.config is not None):
        raise ImageContentError("its manifest is an index and a manifest in one")
    if raw.manifests is not None and (kind in _INDEX_TYPES or kind not in _IMAGE_TYPES):
        return _index(raw.manifests)
    if raw.config is not None and raw.layers is not None and kind not in _INDEX_TYPES:
        return _manifest(raw.config, raw.layers)
    raise ImageContentError(
        "its manifest has neither config and layers, as one of an image has, nor manifests, as an "
        f'index has (media type "{kind[:100]}")'
    )


def _is_schema_1(data: bytes) -> bool:
    try:
        version: _Version = decode_json(data, type=_Version)
    except UndecodableError:
        return False
    return version.schemaVersion == 1 or version.fsLayers is not None


def _index(manifests: list[_RawDescriptor]) -> Index:
    if len(manifests) > _MAX_ENTRIES:
        raise ImageContentError(
            f"its index has {len(manifests)} manifests; at most {_MAX_ENTRIES} are read"
        )
    return Index(
        tuple(
            IndexEntry(
                _descriptor(raw, f"manifests[{number}]", MAX_MANIFEST),
                None
                if raw.platform is None
                else Platform(raw.platform.os, raw.platform.architecture, raw.platform.variant),
                raw.annotations or {},
            )
            for number, raw in enumerate(manifests)
        )
    )


def _manifest(config: _RawDescriptor, layers: list[_RawDescriptor]) -> Manifest:
    if config.mediaType not in _CONFIG_TYPES:
        raise ImageContentError(
            f'it is no container image: its configuration is of type "{config.mediaType[:100]}"'
        )
    if len(layers) > MAX_LAYERS:
        raise ImageContentError(f"it has {len(layers)} layers; at most {MAX_LAYERS} can be mounted")
    for number, layer in enumerate(layers):
        if layer.mediaType not in _LAYER_TYPES:
            raise ImageContentError(
                f'layers[{number}] is of type "{layer.mediaType[:100]}"; layers are tar archives, '
                "plain or compressed by gzip or zstd"
            )
    return Manifest(
        _descriptor(config, "config", MAX_CONFIG),
        tuple(
            _descriptor(layer, f"layers[{number}]", MAX_LAYER_SIZE)
            for number, layer in enumerate(layers)
        ),
    )


def _descriptor(raw: _RawDescriptor, what: str, limit: int) -> Descriptor:
    if not 0 <= raw.size <= limit:
        raise ImageContentError(f"the size of {what} is {raw.size}; it must be 0 to {limit} bytes")
    return Descriptor(raw.mediaType, check_digest(raw.digest, what), raw.size)


class ManifestSearch:
    """Finds the manifest for a platform, from document to document; the caller fetches them."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._seen: set[str] = set()

    def follow(self, data: bytes, media_type: str = "") -> Manifest | Descriptor:
        """Read a document.

        Args:
            data: the document, whose digest the caller has checked.
            media_type: as of `parse_document`.

        Returns:
            The manifest, or what is to be fetched and followed next.

        Raises:
            ImageContentError: It is wrong, indexes refer to each other, or the image is not for
                this platform.
        """
        document = parse_document(data, media_type)
        if isinstance(document, Manifest):
            return document
        digest = digest_of(data)
        if digest in self._seen:
            raise ImageContentError(f"its indexes refer to each other ({digest})")
        if len(self._seen) >= _MAX_INDEXES:
            raise ImageContentError(f"its indexes are nested more than {_MAX_INDEXES} deep")
        self._seen.add(digest)
        chosen = choose(document, self._platform)
        if chosen.digest in self._seen:
            raise ImageContentError(f"its indexes refer to each other ({chosen.digest})")
        return chosen


def choose(index: Index, platform: Platform) -> Descriptor:
    """Return the manifest of an index for a platform, or the index that may have it.

    Raises:
        ImageContentError: It has none.
    """
    ranked = [
        (rank, position)
        for position, entry in enumerate(index.entries)
        if (rank := platform_rank(entry.platform, platform)) is not None
    ]
    if ranked:
        return index.entries[min(ranked)[1]].descriptor
    found = sorted(
        {
            str(entry.platform)
            for entry in index.entries
            # Attestations of buildx are listed as this.
            if entry.platform is not None and entry.platform.os != "unknown"
        }
    )
    there = f"it is there for {', '.join(found[:20])}" if found else "its index has no manifest"
    raise ImageContentError(f"it is not for {platform.os}/{platform.architecture}: {there}")


def decode(data: bytes, wanted: Any, what: str) -> Any:
    """Decode a document of a type.

    Raises:
        ImageContentError: It is not of the type.
    """
    try:
        return decode_json(data, type=wanted)
    except UndecodableError as error:
        raise ImageContentError(f"its {what} cannot be read: {error}") from None
