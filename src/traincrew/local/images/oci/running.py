"""A stored image as what containers are started from."""

from __future__ import annotations

import errno
import os
from functools import lru_cache
from typing import TYPE_CHECKING

from traincrew.local.images.environment import Environment, ImageRoot
from traincrew.local.images.oci.files import read_file

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.images.oci.model import StoredImage
    from traincrew.local.images.reference import ImageReference

__all__ = ["environment_of"]

_MAX_ACCOUNTS = 1024 * 1024
"""Bytes of `/etc/passwd` and of `/etc/group` that are read."""


def environment_of(
    reference: ImageReference, image: StoredImage, place: Path | None = None
) -> Environment:
    """Return what a container needs of an image.

    Args:
        reference: By which the container names it.
        image: The image.
        place: On which containers hold a lock.

    Raises:
        OSError: The image was removed meanwhile.
    """
    config = image.config
    passwd, group = _accounts(image.layers)
    identity = f"{reference.repository}@{image.digest}" if image.digest else image.id
    return Environment(
        name=reference.familiar_name,
        variables=config.variables,
        working_directory=config.working_directory,
        command=list(config.entrypoint),
        arguments=list(config.arguments),
        root=ImageRoot(
            id=identity,
            layers=image.layers,
            owned=image.owned,
            size=image.size,
            user=config.user,
            passwd=passwd,
            group=group,
            volumes=config.volumes,
            stop_signal=config.stop_signal,
            place=place,
        ),
    )


@lru_cache(maxsize=16)
def _accounts(layers: tuple[Path, ...]) -> tuple[str, str]:
    """Return an image's `/etc/passwd` and `/etc/group`; layers are named by their digests.

    Raises:
        FileNotFoundError: A layer was removed meanwhile.
    """
    found = [
        (read_file(layers, path, _MAX_ACCOUNTS) or b"").decode("utf-8", "surrogateescape")
        for path in ("/etc/passwd", "/etc/group")
    ]
    for layer in layers:
        if not layer.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(layer))
    return found[0], found[1]
