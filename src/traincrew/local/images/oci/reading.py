"""What the store has of an image -> `StoredImage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.configuration import parse_config
from traincrew.local.images.oci.model import StoredImage
from traincrew.local.images.oci.places import (
    DIRECTORIES,
    OWNERS,
    TREE,
    ImageRecord,
    LayerRecord,
    Places,
    read,
)

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.images.oci.model import ImageConfig
    from traincrew.local.images.oci.platforms import Platform

__all__ = ["is_of_repository", "layers_of", "stored_image", "unpacked_trees"]


def stored_image(
    places: Places, platform: Platform, image_id: str, names: dict[str, str]
) -> StoredImage | None:
    """Return an image by its ID; None if it is not there, or lacks a layer.

    Args:
        places: of the store.
        platform: of this machine.
        image_id: digest of its configuration.
        names: IDs of images by name.
    """
    place = places.image(image_id)
    record: ImageRecord | None = read(place / "image.json", ImageRecord)
    if record is None:
        return None
    try:
        config = parse_config((place / "config.json").read_bytes(), None, platform)
    except (OSError, ImageContentError):
        return None
    layers = layers_of(places, config)
    if layers is None:
        return None
    trees = list(layers)
    owned = {tree for tree, layer in layers.items() if layer.has_owners}
    if (place / DIRECTORIES).is_dir():
        trees.append(place / DIRECTORIES)
        if (place / OWNERS).exists():
            owned.add(place / DIRECTORIES)
    return StoredImage(
        id=image_id,
        digest=record.digest,
        names=tuple(sorted(name for name, owner in names.items() if owner == image_id)),
        config=config,
        layers=tuple(trees),
        owned=frozenset(owned),
        size=sum(layer.size for layer in layers.values()),
        created=record.created,
        imported=record.imported,
        left_out=tuple(dict.fromkeys(text for layer in layers.values() for text in layer.left_out)),
    )


def layers_of(places: Places, config: ImageConfig) -> dict[Path, LayerRecord] | None:
    """Return the trees of an image's layers as they are mounted, lowest first, with their records.

    Args:
        places: of the store.
        config: of the image.

    Returns:
        None if a layer is missing.
    """
    layers: dict[Path, LayerRecord] = {}
    for diff_id in config.diff_ids:
        directory = places.layer(diff_id)
        layer: LayerRecord | None = read(directory / "layer.json", LayerRecord)
        if layer is None:
            return None
        if layer.is_opaque:
            layers.clear()
        # overlayfs accepts a directory once. Of a layer that is there twice, the upper one
        # hides and deletes all that the lower one does.
        layers.pop(directory / TREE, None)
        layers[directory / TREE] = layer
    return layers


def unpacked_trees(image: StoredImage) -> list[Path]:
    """Return the trees of an image that layers were unpacked to."""
    return [tree for tree in image.layers if tree.name == TREE]


def is_of_repository(name: str, repository: str) -> bool:
    """Return whether a reference is of a repository, whatever its tag or digest is."""
    rest = name.removeprefix(repository)
    return rest != name and rest[:1] in {":", "@"}
