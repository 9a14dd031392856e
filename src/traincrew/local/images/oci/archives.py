"""Images of `docker save`, `podman save`, skopeo and buildx -> the store.

Formats: the layout of OCI (image specification 1.1, "image-layout"), as a directory or an archive;
and Docker's archive (image specification v1.2), in which ``manifest.json`` lists images and the
files of their layers. Docker writes both into one archive since version 25; the first counts, as in
containerd.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from msgspec import Struct

from traincrew.local.images.errors import ImageContentError, ImagePullError
from traincrew.local.images.oci.configuration import parse_config
from traincrew.local.images.oci.documents import (
    MAX_CONFIG,
    MAX_MANIFEST,
    Index,
    IndexEntry,
    Manifest,
    ManifestSearch,
    choose,
    decode,
    digest_of,
    parse_document,
)
from traincrew.local.images.oci.members import ArchiveMembers, DirectoryMembers, Members
from traincrew.local.images.reference import parse_reference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.images.oci.model import Descriptor, StoredImage
    from traincrew.local.images.oci.platforms import Platform
    from traincrew.local.images.oci.store import ContainerImages

__all__ = ["ImportProgress", "import_images"]

_MAX_IMAGES = 200
_NAME = "io.containerd.image.name"
_TAG = "org.opencontainers.image.ref.name"
_NO_IMAGE = (
    "it is no image: it has neither index.json (an OCI layout) nor manifest.json (`docker save`). "
    "What `docker export` writes are only the files of a container"
)


class ImportProgress:
    """What an import does; the methods are called in its thread, and do nothing here."""

    def reading(self, size: int) -> None:
        """So many bytes of the archive have been read."""

    def unpacking(self, image: str, layer: int, layers: int) -> None:
        """A layer of an image, counted from 1, is being unpacked."""


class _Listed(Struct):
    Config: str
    Layers: list[str]
    RepoTags: list[str] | None = None


class _Found(Struct):
    """One image of an archive: its documents, and the file of each layer with its descriptor."""

    names: tuple[str, ...]
    manifest: bytes
    config: bytes
    layers: list[tuple[str, Descriptor | None]]


def import_images(
    store: ContainerImages,
    source: BinaryIO | Path,
    names: Sequence[str] = (),
    progress: ImportProgress | None = None,
) -> list[StoredImage]:
    """Store the images of an archive or a directory.

    Args:
        store: where to.
        source: an archive, plain or compressed by gzip or zstd, which need not be seekable; or a
            directory in the layout of OCI.
        names: more names for the image, if there is only one.
        progress: what happens is reported to it.

    Raises:
        ImageContentError: It is no image, is damaged, or is refused; images before it stay.
        ImagePullError: A name is invalid.
        OSError: It cannot be read, or stored.
    """
    progress = progress or ImportProgress()
    wanted = tuple(str(parse_reference(name)) for name in names)
    with store.temporary() as directory:
        members: Members
        if isinstance(source, Path):
            members = DirectoryMembers(source, directory)
        else:
            members = ArchiveMembers(source, directory, progress.reading)
        found = _images_of(members, store.platform)
        if wanted and len(found) != 1:
            raise ImageContentError(f"it has {len(found)} images: one name cannot be given to all")
        return [_store(store, members, image, wanted, progress) for image in found]


def _images_of(members: Members, platform: Platform) -> list[_Found]:
    if members.has("index.json"):
        return _of_layout(members, platform)
    if members.has("manifest.json"):
        return _of_docker(members, platform)
    raise ImageContentError(_NO_IMAGE)


def _store(
    store: ContainerImages,
    members: Members,
    image: _Found,
    names: tuple[str, ...],
    progress: ImportProgress,
) -> StoredImage:
    all_names = tuple(dict.fromkeys((*image.names, *names)))
    shown = all_names[0] if all_names else digest_of(image.config)
    diff_ids = parse_config(image.config, None, store.platform).diff_ids
    for number, ((name, descriptor), diff_id) in enumerate(
        zip(image.layers, diff_ids, strict=True), start=1
    ):
        if not store.has_layer(diff_id):
            progress.unpacking(shown, number, len(diff_ids))
            store.add_layer(members.take(name), descriptor, diff_id, lambda _: None)
    digest = digest_of(image.manifest) if image.manifest else ""
    return store.add_image(all_names, image.manifest, image.config, digest, imported=True)


def _of_docker(members: Members, platform: Platform) -> list[_Found]:
    listed: list[_Listed] = decode(
        members.read("manifest.json", MAX_MANIFEST), list[_Listed], "manifest.json"
    )
    _check_number(len(listed))
    found = []
    for one in listed:
        config = members.read(one.Config, MAX_CONFIG)
        diff_ids = parse_config(config, None, platform).diff_ids
        if len(one.Layers) != len(diff_ids):
            raise ImageContentError(
                f"its manifest.json has {len(one.Layers)} layers and its configuration "
                f"{len(diff_ids)}"
            )
        names = tuple(_reference(tag) for tag in one.RepoTags or ())
        found.append(_Found(names, b"", config, [(name, None) for name in one.Layers]))
    return found


def _of_layout(members: Members, platform: Platform) -> list[_Found]:
    index = parse_document(members.read("index.json", MAX_MANIFEST))
    if not isinstance(index, Index):
        raise ImageContentError("its index.json is no index")
    named: dict[str, list[IndexEntry]] = {}
    for entry in index.entries:
        named.setdefault(_name_of(entry), []).append(entry)
    by_digest: dict[str, _Found] = {}
    for name, entries in named.items():
        chosen = [choose(Index(tuple(entries)), platform)]
        if not name and all(entry.platform is None for entry in entries):
            chosen = [entry.descriptor for entry in entries]  # several images without names
        for descriptor in chosen:
            image = _followed(members, descriptor, platform)
            names = (_reference(name),) if name else ()
            known = by_digest.setdefault(digest_of(image.manifest), image)
            known.names = tuple(dict.fromkeys((*known.names, *names)))
    _check_number(len(by_digest))
    return list(by_digest.values())


def _followed(members: Members, descriptor: Descriptor, platform: Platform) -> _Found:
    search = ManifestSearch(platform)
    while True:
        data = _blob(members, descriptor, MAX_MANIFEST)
        found = search.follow(data, descriptor.media_type)
        if isinstance(found, Manifest):
            break
        descriptor = found
    config = _blob(members, found.config, MAX_CONFIG)
    parse_config(config, found.layers, platform)
    return _Found((), data, config, [(_path(layer), layer) for layer in found.layers])


def _blob(members: Members, descriptor: Descriptor, limit: int) -> bytes:
    data = members.read(_path(descriptor), limit)
    if digest_of(data) != descriptor.digest:
        raise ImageContentError(
            f"{_path(descriptor)} has the digest {digest_of(data)}, not that of its name"
        )
    return data


def _path(descriptor: Descriptor) -> str:
    return "blobs/" + descriptor.digest.replace(":", "/", 1)


def _name_of(entry: IndexEntry) -> str:
    """Return the reference that an index names an image by; a tag alone is none."""
    name = entry.annotations.get(_NAME) or entry.annotations.get(_TAG, "")
    return name if "/" in name or ":" in name else ""


def _reference(name: str) -> str:
    try:
        return str(parse_reference(name))
    except ImagePullError as error:
        raise ImageContentError(error.message) from None


def _check_number(images: int) -> None:
    if not images:
        raise ImageContentError("it has no image")
    if images > _MAX_IMAGES:
        raise ImageContentError(f"it has {images} images; at most {_MAX_IMAGES} are imported")
