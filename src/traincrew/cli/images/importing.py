"""Importing archives of images on the command line."""

from __future__ import annotations

import io
import os
import stat
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self, cast

from traincrew.cli.display.console import Console, wants_colour
from traincrew.cli.display.lines import Line
from traincrew.cli.display.rows import Row
from traincrew.cli.display.text import byte_size
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.local.images.oci.archives import ImportProgress, import_images
from traincrew.local.images.reference import familiar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traincrew.local.images.oci.model import StoredImage
    from traincrew.local.images.oci.store import ContainerImages

__all__ = ["import_archive"]

_DRAW_SECONDS = 0.1


def import_archive(
    store: ContainerImages, source: str, names: tuple[str, ...]
) -> list[StoredImage]:
    """Import the images of an archive or directory, and show how far it is.

    Args:
        store: where to.
        source: a path, or ``-`` for standard input.
        names: more names for the image.

    Raises:
        BadInput: It is no image, or a name is invalid.
        CommandFailed: It cannot be read or stored.
    """
    from traincrew.local.images.errors import ImageContentError, ImagePullError

    shown = "standard input" if source == "-" else source
    try:
        with _opened(source) as (opened, size), _Bars(size) as bars:
            return import_images(store, opened, names, bars)
    except ImageContentError as error:
        raise BadInput(f"{shown}: {error}") from error
    except ImagePullError as error:
        raise BadInput(error.message) from error
    except OSError as error:
        if error.filename == source:
            raise BadInput(f"{source}: {error.strerror}") from error
        where = "" if error.filename is not None else f"{shown}: "
        raise CommandFailed(f"{where}{error}") from error


@contextmanager
def _opened(source: str) -> Iterator[tuple[BinaryIO | Path, int]]:
    """Yield what is to be read, and its size in bytes: 0 if it is unknown."""
    if source == "-":
        if sys.stdin.isatty():
            raise BadInput(
                "standard input is a terminal: docker save IMAGE | traincrew images import -"
            )
        try:
            descriptor = os.dup(sys.stdin.fileno())
        except io.UnsupportedOperation:  # in tests
            yield sys.stdin.buffer, 0
            return
        # Without a buffer: its lock would be held at the end while another thread still reads.
        with os.fdopen(descriptor, "rb", buffering=0) as raw:
            yield cast("BinaryIO", raw), _size(descriptor)
        return
    path = Path(source)
    if path.is_dir():
        yield path, 0
        return
    with path.open("rb") as file:
        yield file, _size(file.fileno())


def _size(descriptor: int) -> int:
    found = os.fstat(descriptor)
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


class _Bars(ImportProgress):
    """Shows an import on standard error: as a bar on a terminal, otherwise as lines."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._live = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        colour = wants_colour(sys.stderr, forbidden=False)
        self._console = Console(sys.stderr, colour=colour, live=self._live)
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._console.close()

    def reading(self, size: int) -> None:
        """Show how much of the archive has been read."""
        now = time.monotonic()
        if now - self._drawn < _DRAW_SECONDS:
            return
        self._drawn = now
        if self._size:
            words = ("reading", f"{byte_size(size)} of {byte_size(self._size)}")
            self._console.set_block((Row(words=words, done=min(size / self._size, 1.0)),))
        else:
            self._console.set_block((Row("reading", words=(byte_size(size),)),))

    def unpacking(self, image: str, layer: int, layers: int) -> None:
        """Show which layer is being unpacked."""
        if self._live:
            words = ("unpacking", familiar(image), f"layer {layer} of {layers}")
            self._console.set_block((Row(words=words, done=(layer - 1) / layers),))
        else:
            text = f"{familiar(image)}: unpacking layer {layer} of {layers}"
            self._console.show([Line(text)])
