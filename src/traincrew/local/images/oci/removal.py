"""Removal of images and layers that nothing uses."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from traincrew.local.directories import remove_tree
from traincrew.local.filelocks import try_lock
from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.configuration import parse_config
from traincrew.local.images.oci.owners import stale_owned
from traincrew.local.images.oci.pins import pinned

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from traincrew.local.images.oci.model import StoredImage
    from traincrew.local.images.oci.places import Places
    from traincrew.local.images.oci.platforms import Platform

__all__ = ["ImageInUseError", "remove_image", "remove_layers", "remove_unused_layers"]


class ImageInUseError(Exception):
    """An image cannot be removed because a container has it as its root."""


def remove_image(places: Places, image: StoredImage) -> None:
    """Remove an image with its names; its layers stay.

    Raises:
        ImageInUseError: A container has it as its root.
        OSError: It cannot be removed.
    """
    with places.lock("names"):
        with _unused(places, image):
            away = places.take_away(places.image(image.id))
        if away is not None:
            # First, so that there is room for the names on a full disk.
            remove_tree(away)
        names = places.names()
        left = {name: owner for name, owner in names.items() if owner != image.id}
        if left != names:
            places.write_names(left)


def remove_unused_layers(places: Places, platform: Platform) -> list[str]:
    """Remove the layers that no image has, and no pull counts on; return their diff IDs.

    Raises:
        OSError: They cannot be removed.
    """
    removed = []
    with places.lock("content"):
        kept = pinned(places.partial) | _referenced(places, platform)
        for path in sorted(places.layers.glob("sha256-*")):
            diff_id = path.name.replace("-", ":", 1)
            if diff_id not in kept:
                removed.append((diff_id, places.take_away(path)))
        owned = [places.take_away(path) for path in stale_owned(places)]
    _remove([*(away for _, away in removed), *owned])
    return [diff_id for diff_id, _ in removed]


def remove_layers(places: Places, layers: Iterable[Path], images: Sequence[StoredImage]) -> None:
    """Remove layers of images, which are then no longer there.

    Raises:
        ImageInUseError: A container has one of the images as its root.
        OSError: They cannot be removed.
    """
    with contextlib.ExitStack() as stack:
        for image in images:
            stack.enter_context(_unused(places, image))
        with places.lock("content"):
            away = [places.take_away(path) for path in layers]
            away += [places.take_away(path) for path in stale_owned(places)]
    _remove(away)


@contextlib.contextmanager
def _unused(places: Places, image: StoredImage) -> Iterator[None]:
    """Keep containers from using an image.

    Raises:
        ImageInUseError: One has it as its root.
    """
    try:
        descriptor = os.open(places.image(image.id), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        if not try_lock(descriptor):
            name = image.names[0] if image.names else image.id
            raise ImageInUseError(f"{name} is in use by a container")
        yield
    finally:
        os.close(descriptor)


def _referenced(places: Places, platform: Platform) -> set[str]:
    """Return the layers of all images, also of those that lack one."""
    kept: set[str] = set()
    for place in places.images.glob("sha256-*"):
        with contextlib.suppress(OSError, ImageContentError):
            config = (place / "config.json").read_bytes()
            kept.update(parse_config(config, None, platform).diff_ids)
    return kept


def _remove(paths: Iterable[Path | None]) -> None:
    for path in paths:
        if path is not None:
            remove_tree(path)
