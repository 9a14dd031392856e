"""Volumes that are container images."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.local.images import owned_root
from traincrew.local.images.oci.files import real_path
from traincrew.local.node.volumes.podvolumes import VolumeError

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.images import ImageRoot
    from traincrew.local.subordinate import IdMap

__all__ = ["ImagePart", "ImageVolume", "as_container", "image_volumes", "mounted_images"]

Document = Mapping[str, Any]


class ImageVolume(NamedTuple):
    """An image as the volume of one container.

    Attributes:
        root: of the image.
        layers: those that the container mounts, in which files have the owners that it sees.
    """

    root: ImageRoot
    layers: tuple[Path, ...]

    def part(self, sub_path: str) -> ImagePart:
        """Return what is mounted of it.

        Raises:
            VolumeError: It has nothing there.
        """
        found = real_path(self.root.layers, sub_path)
        if found is None:
            raise VolumeError(f"subPath {sub_path!r} does not exist in the image")
        path, is_directory = found
        return ImagePart([str(layer) for layer in self.layers], path, is_file=not is_directory)


class ImagePart(NamedTuple):
    """A file or directory of an image.

    Attributes:
        layers: of the image, lowest first.
        path: in it, without links; empty for its root.
        is_file: whether it is a file.
    """

    layers: list[str]
    path: str
    is_file: bool


def image_volumes(spec: Document, container: Document) -> dict[str, Document]:
    """Return the `image` of each volume that is one and that a container mounts, by its name.

    Args:
        spec: Of the pod.
        container: Of its spec.
    """
    mounted = {mount["name"] for mount in container.get("volumeMounts") or ()}
    return {
        volume["name"]: volume["image"]
        for volume in spec.get("volumes") or ()
        if volume.get("image") is not None and volume["name"] in mounted
    }


def as_container(volume: Document) -> Document:
    """Return the `image` of a volume as a container that names the same image."""
    image = {"image": volume.get("reference", "")}
    policy = volume.get("pullPolicy")
    return image | ({"imagePullPolicy": policy} if policy else {})


async def mounted_images(
    roots: Mapping[str, ImageRoot], id_map: IdMap | None
) -> dict[str, ImageVolume]:
    """Return the images of a container's volumes, with the owners of files that it sees.

    Args:
        roots: By the names of the volumes.
        id_map: The users of the container; None if it has one.

    Raises:
        OSError: Layers with these owners cannot be made.
    """
    found = {}
    for name, root in roots.items():
        shown = root if id_map is None else await asyncio.to_thread(owned_root, root, id_map)
        found[name] = ImageVolume(root, shown.layers)
    return found
