"""Pulling images of registries on the command line."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from traincrew.cli.display.console import Console, wants_colour
from traincrew.cli.display.lines import Line
from traincrew.cli.display.text import byte_size
from traincrew.cli.errors import BadInput
from traincrew.cli.images.bars import Bars, lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traincrew.local.images.oci.model import LayerStore, StoredImage
    from traincrew.local.images.oci.registry import Progress

__all__ = ["pull_container_image"]

_DRAW_SECONDS = 0.1


async def pull_container_image(name: str, store: LayerStore, *, either: bool = True) -> None:
    """Pull an image with the credentials of this user; show how far it is, and the result.

    Args:
        name: As the user wrote it.
        store: Where to.
        either: Whether an environment would do as well.

    Raises:
        ImagePullError: It cannot be had, or has no valid name.
        BadInput: The file of settings of registries is invalid.
    """
    from traincrew.local.images import ImagePullError
    from traincrew.local.images.errors import without_environment

    try:
        stored, changed = await _pulled(name, store)
    except ImagePullError as error:
        if not either or error.reason != "ErrImagePull":
            raise
        raise without_environment(name, error) from error
    how = "is ready" if changed else "is up to date"
    click.echo(f"{name}: image {stored.digest or stored.id} ({byte_size(stored.size)}) {how}")
    for one in stored.left_out:
        click.echo(f"{name}: left out: {one}", err=True)


async def _pulled(name: str, store: LayerStore) -> tuple[StoredImage, bool]:
    """Return the image, and whether it was not the same before."""
    from traincrew.local.images.oci.registry import load_settings, pull, user_keyring
    from traincrew.local.images.oci.registry.failures import SettingsError
    from traincrew.local.images.reference import parse_reference

    try:
        settings = load_settings()
    except SettingsError as error:
        raise BadInput(str(error)) from error
    reference = parse_reference(name)
    before = store.find(str(reference))
    with _shown(name) as report:
        stored = await pull(
            reference, store, credentials=user_keyring(), settings=settings, progress=report
        )
    return stored, stored != before


@contextmanager
def _shown(name: str) -> Iterator[Callable[[Progress], None]]:
    """Show reports on standard error: as bars on a terminal, otherwise as lines."""
    stream = sys.stderr
    live = stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    console = Console(stream, colour=wants_colour(stream, forbidden=False), live=live)
    bars = Bars(name)
    drawn = 0.0

    def report(progress: Progress) -> None:
        nonlocal drawn
        if not live:
            console.show(Line(f"{name}: {text}") for text in lines(progress))
            return
        now = time.monotonic()
        if now - drawn >= _DRAW_SECONDS:
            drawn = now
            console.set_block(bars.rows(progress, now))

    try:
        yield report
    finally:
        console.close()
