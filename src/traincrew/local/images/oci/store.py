"""The store of container images: layers by their diff ID, images by their ID and names.

Any number of processes of one user may use one directory at once. What has its final name is
complete: it was filled below ``partial`` and renamed.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from traincrew.local.directories import write_new
from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.cleanup import new_directory, sweep
from traincrew.local.images.oci.configuration import parse_config
from traincrew.local.images.oci.documents import digest_of
from traincrew.local.images.oci.implied import LayerDirectories, restore_directories
from traincrew.local.images.oci.layers import unpack
from traincrew.local.images.oci.owners import owners_of_directories
from traincrew.local.images.oci.pins import Pins
from traincrew.local.images.oci.places import (
    DIRECTORIES,
    OWNERS,
    TREE,
    ImageRecord,
    LayerRecord,
    Places,
    now,
    read,
)
from traincrew.local.images.oci.platforms import Platform, platform_of
from traincrew.local.images.oci.reading import layers_of, stored_image
from traincrew.local.images.oci.removal import (
    ImageInUseError,
    remove_image,
    remove_layers,
    remove_unused_layers,
)
from traincrew.local.images.oci.verification import damage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from traincrew.local.images.manifest import Damage
    from traincrew.local.images.oci.layers import Owners
    from traincrew.local.images.oci.model import Descriptor, ImageConfig, StoredImage

__all__ = ["ContainerImages", "ImageInUseError", "own_owners"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_AT_ONCE = 2
"""Layers that one process unpacks at once: each takes some 20 MiB of memory, and a processor."""


def own_owners() -> Owners:
    """Return how this process unpacks: as ``true`` if it may give files to all users."""
    if os.geteuid() != 0:
        return "single"
    with contextlib.suppress(OSError), open("/proc/self/uid_map", encoding="ascii") as file:  # noqa: PTH123
        # In a user namespace root may have some users only.
        return "true" if file.read().split() == ["0", "0", "4294967295"] else "single"
    return "true"


class ContainerImages:
    """The images that are stored in a directory; fulfils `LayerStore`."""

    def __init__(self, directory: Path, owners: Owners | None = None) -> None:
        """Use a directory, which is made when something is stored.

        What killed processes have left in it is removed before the first change.

        Args:
            directory: of the store.
            owners: how layers are unpacked; as this process can if None.
        """
        self._owners: Owners = owners or own_owners()
        self._places = Places(directory, self._owners)
        self._platform = platform_of(os.uname().machine)
        self._pins = Pins(self._places.partial)
        self._turns = threading.BoundedSemaphore(_MOST_AT_ONCE)
        self._made = False

    @classmethod
    def of_cache(cls, cache: Path) -> ContainerImages:
        """Return the images of a cache, such as `default_cache()`."""
        return cls(cache / "container-images")

    @property
    def directory(self) -> Path:
        """Where the images are."""
        return self._places.directory

    @property
    def platform(self) -> Platform:
        """What images are chosen for."""
        return self._platform

    # What pulls and imports write to: see `LayerStore`.

    def has_layer(self, diff_id: str) -> bool:
        """Return whether a layer is unpacked; it stays until an image has it, or this process ends.

        Raises:
            OSError: The store cannot be written.
        """
        if not self._places.layer(diff_id).is_dir():
            return False
        self._make()
        with self._places.lock("content", shared=True):
            self._pins.add(diff_id)
            return self._places.layer(diff_id).is_dir()

    def lock(self, digest: str) -> AbstractContextManager[None]:
        """Let one pull at a time, of any process, fetch and unpack a blob; waits for others.

        Raises:
            OSError: The store cannot be written.
        """
        self._make()
        return self._places.lock_blob(digest)

    def partial(self, digest: str) -> Path:
        """Return the file that collects the bytes of a blob; hold its lock.

        Raises:
            OSError: The store cannot be written.
        """
        self._make()
        return self._places.blob(digest)

    def add_layer(
        self,
        blob: Path,
        descriptor: Descriptor | None,
        diff_id: str,
        progress: Callable[[int], None],
    ) -> None:
        """Check a fetched blob, unpack it, and remove it: see `LayerStore`.

        Args:
            blob: the file; kept if the disk is full, removed if it is refused.
            descriptor: of the blob; None in an archive without digests of blobs.
            diff_id: of the layer.
            progress: is given the number of compressed bytes that have been read so far.

        Raises:
            ImageContentError: It is refused.
            OSError: It cannot be stored.
        """
        self._make()
        if not self.has_layer(diff_id):
            with self._turns, new_directory(self._places.partial, "layer") as made:
                try:
                    record = self._unpack(made, blob, descriptor, diff_id, progress)
                except ImageContentError:
                    blob.unlink(missing_ok=True)
                    raise
                write_new(made / "layer.json", msgspec.json.encode(record))
                # Before the layer is there: nobody would look for the blob again.
                blob.unlink(missing_ok=True)
                with self._places.lock("content", shared=True):
                    self._pins.add(diff_id)
                    self._places.complete(made, self._places.layer(diff_id))
        blob.unlink(missing_ok=True)

    def _unpack(
        self,
        made: Path,
        blob: Path,
        descriptor: Descriptor | None,
        diff_id: str,
        progress: Callable[[int], None],
    ) -> LayerRecord:
        tree = made / TREE
        tree.mkdir(mode=0o700)
        root = os.open(tree, _DIRECTORY)
        try:
            with blob.open("rb") as file, (made / "records").open("wb") as records:
                found = unpack(
                    file, descriptor, diff_id, root, records, owners=self._owners, progress=progress
                )
        except OSError as error:
            if error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, str(self.directory)) from error
        finally:
            os.close(root)
        return LayerRecord(
            found.size, found.is_opaque, found.implied, found.left_out, found.has_owners
        )

    def add_image(
        self,
        names: Sequence[str],
        manifest: bytes,
        config: bytes,
        digest: str,
        *,
        imported: bool = False,
    ) -> StoredImage:
        """Store an image whose layers are all unpacked: see `LayerStore`.

        Args:
            names: references, normalized; they leave other images.
            manifest: as the registry sent it; empty for one of `docker save`.
            config: its bytes, whose digest the caller has checked.
            digest: of the manifest; empty likewise.
            imported: whether it is from an archive.

        Raises:
            ImageContentError: The configuration is wrong, or a layer is missing.
            OSError: It cannot be stored.
        """
        self._make()
        image_id = digest_of(config)
        parsed = parse_config(config, None, self._platform)
        with self._places.lock("content", shared=True):
            for diff_id in parsed.diff_ids:
                if not self._places.layer(diff_id).is_dir():
                    raise ImageContentError(f"its layer {diff_id} was removed meanwhile")
            with self._places.lock("names"):
                record = ImageRecord(digest, now(), imported)
                self._write_image(image_id, parsed, manifest, config, record)
                self._places.write_names({**self._places.names(), **dict.fromkeys(names, image_id)})
            self._pins.remove(parsed.diff_ids)
        found = self.find(image_id)
        assert found is not None
        return found

    def _write_image(
        self,
        image_id: str,
        parsed: ImageConfig,
        manifest: bytes,
        config: bytes,
        described: ImageRecord,
    ) -> None:
        place = self._places.image(image_id)
        record, digest = msgspec.json.encode(described), described.digest
        if place.is_dir():
            known: ImageRecord | None = read(place / "image.json", ImageRecord)
            pulled = known is not None and known.imported and not described.imported
            if known is None or pulled or (digest and digest != known.digest):
                self._places.replace(place / "manifest.json", manifest)
                self._places.replace(place / "config.json", config)
                self._places.replace(place / "image.json", record)
            return
        with new_directory(self._places.partial, "image") as made:
            write_new(made / "manifest.json", manifest)
            write_new(made / "config.json", config)
            write_new(made / "image.json", record)
            layers = layers_of(self._places, parsed) or {}
            directories = [
                LayerDirectories(tree, layer.implied, owners_of_directories(tree, layer))
                for tree, layer in layers.items()
            ]
            owned = self._owners == "true"
            owners = restore_directories(directories, made / DIRECTORIES, owned=owned)
            if owners:
                write_new(made / OWNERS, msgspec.json.encode(owners))
            self._places.complete(made, place)

    def temporary(self) -> AbstractContextManager[Path]:
        """Return a new directory that is removed after the block, or when this process is killed.

        Raises:
            OSError: The store cannot be written.
        """
        self._make()
        return new_directory(self._places.partial, "import")

    # What is there.

    def find(self, name: str) -> StoredImage | None:
        """Return the image of a normalized reference, or of an ID (``sha256:…``).

        An image that lacks a layer, because it was damaged, is not there.
        """
        names = self._places.names()
        if name.startswith("sha256:"):
            return stored_image(self._places, self._platform, name, names)
        if name in names:
            return stored_image(self._places, self._platform, names[name], names)
        repository, _, digest = name.partition("@")
        place, slash, last = repository.rpartition("/")
        repository = place + slash + last.partition(":")[0]  # a digest says more than a tag
        if digest:
            for image_id in {names[known] for known in names if _is_of(known, repository)}:
                found = stored_image(self._places, self._platform, image_id, names)
                if found is not None and found.digest == digest:
                    return found
        return None

    def images(self) -> list[StoredImage]:
        """Return all images, by their names."""
        names = self._places.names()
        ids = []
        with contextlib.suppress(FileNotFoundError):
            ids = [path.name.replace("-", ":", 1) for path in self._places.images.glob("sha256-*")]
        found = (stored_image(self._places, self._platform, image_id, names) for image_id in ids)
        return sorted(
            (image for image in found if image is not None), key=lambda one: (one.names, one.id)
        )

    def place(self, image: StoredImage) -> Path:
        """Return the directory of an image, which is not removed while a container has it locked.

        The lock is shared: the shim of a container takes it (`local/node/sandbox/shim.py`).
        """
        return self._places.image(image.id)

    def verify(self, image: StoredImage) -> list[Damage]:
        """Compare every file of an image with what was unpacked; takes seconds for gigabytes.

        Raises:
            OSError: A file cannot be read.
        """
        return [
            replace(damage, path=f"{tree.parent.name[7:19]}/{damage.path}")
            for tree in _unpacked(image)
            for damage in damage_of(tree, tree.parent / "records", self._owners)
        ]

    # What is removed.

    def untag(self, name: str) -> None:
        """Take a name from its image, which stays.

        Raises:
            OSError: The names cannot be written.
        """
        with self._places.lock("names"):
            names = self._places.names()
            if names.pop(name, None) is not None:
                self._places.write_names(names)

    def remove(self, image: StoredImage) -> None:
        """Remove an image with its names, and the layers that no other image has.

        Raises:
            ImageInUseError: A container has it as its root.
            OSError: It cannot be removed.
        """
        self._make()
        remove_image(self._places, image)
        self.prune()

    def prune(self) -> list[str]:
        """Remove the layers that no image has, and no pull counts on; return their diff IDs.

        Raises:
            OSError: They cannot be removed.
        """
        if not self._places.layers.is_dir():
            return []
        self._make()
        return remove_unused_layers(self._places, self._platform)

    def discard_damaged(self, image: StoredImage) -> int:
        """Remove the damaged layers of an image, so that it is pulled anew; return their number.

        Raises:
            ImageInUseError: A container has a damaged layer in its root.
            OSError: They cannot be removed.
        """
        damaged = {
            tree.parent
            for tree in _unpacked(image)
            if damage_of(tree, tree.parent / "records", self._owners)
        }
        sharing = [
            other
            for other in self.images()
            if any(tree.parent in damaged for tree in _unpacked(other))
        ]
        remove_layers(self._places, damaged, sharing)
        return len(damaged)

    def _make(self) -> None:
        if not self._made:
            self._places.make()
            self._made = True
            sweep(self._places.partial)


def _unpacked(image: StoredImage) -> list[Path]:
    """Return the trees of an image that layers were unpacked to."""
    return [tree for tree in image.layers if tree.name == TREE]


def _is_of(name: str, repository: str) -> bool:
    """Return whether a reference is of a repository, whatever its tag or digest is."""
    rest = name.removeprefix(repository)
    return rest != name and rest[:1] in {":", "@"}
