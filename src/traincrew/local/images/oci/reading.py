"""What the store has of an image -> `StoredImage`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.configuration import parse_config
from traincrew.local.images.oci.model import StoredImage
from traincrew.local.images.oci.places import ImageRecord, LayerRecord, Places, read

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.images.oci.platforms import Platform

__all__ = ["stored_image"]


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
    layers: dict[Path, None] = {}
    size = 0
    left_out: list[str] = []
    for diff_id in config.diff_ids:
        directory = places.layer(diff_id)
        layer: LayerRecord | None = read(directory / "layer.json", LayerRecord)
        if layer is None:
            return None
        tree = directory / "tree"
        if layer.is_opaque:
            layers.clear()
        # overlayfs accepts a directory once. Of a layer that is there twice, the upper one
        # hides and deletes all that the lower one does.
        size += layer.size if tree not in layers else 0
        layers.pop(tree, None)
        layers[tree] = None
        left_out += (text for text in layer.left_out if text not in left_out)
    return StoredImage(
        id=image_id,
        digest=record.digest,
        names=tuple(sorted(name for name, owner in names.items() if owner == image_id)),
        config=config,
        layers=tuple(layers),
        size=size,
        created=record.created,
        left_out=tuple(left_out),
    )
