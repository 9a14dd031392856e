"""What `traincrew images verify` compares, and how it shows what is damaged."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import click

from traincrew.cli.errors import BadInput, CommandFailed

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.images import EnvironmentStatus, ImageStore
    from traincrew.local.images.manifest import Damage
    from traincrew.local.images.oci.model import StoredImage

__all__ = ["built", "show_damage", "verify_stored"]

_SHOWN = 20
"""Differences of an environment or image that are listed."""


def verify_stored(
    store: ImageStore, images: list[StoredImage], *, repair: bool, also: int = 0
) -> None:
    """Compare container images with what was unpacked.

    Args:
        store: that has them.
        images: to compare.
        repair: whether to pull anew what is damaged.
        also: how many environments are damaged, which fails the command anyway.

    Raises:
        CommandFailed: One is damaged and stays so.
    """
    from traincrew.cli.images.pulling import pull_container_image
    from traincrew.cli.images.stored import verify

    def pull(name: str) -> None:
        asyncio.run(pull_container_image(name, store.containers, either=False))

    damaged = verify(
        store.containers, images, pull=pull if repair else None, show=show_damage, say=click.echo
    )
    if damaged and not also:
        raise CommandFailed(
            f"{damaged} container image(s) not as they were unpacked"
            + ("" if repair else ": `traincrew images verify --repair` pulls them anew")
        )


def built(store: ImageStore, name: str | None) -> dict[Path, list[EnvironmentStatus]]:
    """Return the built environments by their directories, which several entries may share.

    Raises:
        BadInput: There is no environment of the name.
    """
    known = store.environments()
    if name is not None and all(status.name != name for status in known):
        names = ", ".join(sorted({status.name for status in known}))
        raise BadInput(f'there is no environment "{name}"; there are: {names}')
    built: dict[Path, list[EnvironmentStatus]] = {}
    for status in known:
        if status.path is not None and status.is_ready:
            built.setdefault(status.path, []).append(status)
    if name is not None:
        built = {
            tree: sharing
            for tree, sharing in built.items()
            if any(status.name == name for status in sharing)
        }
    if not built:
        click.echo("no environment is built" if name is None else f"{name}: not built by traincrew")
    return built


def show_damage(damage: list[Damage]) -> None:
    """Print the first differences, and how many there are beside."""
    for one in damage[:_SHOWN]:
        detail = f"  ({one.detail})" if one.detail else ""
        click.echo(f"  {one.change:<7}  {one.path}{detail}")
    if rest := damage[_SHOWN:]:
        counts = Counter(one.change for one in rest)
        more = ", ".join(f"{count} {change}" for change, count in sorted(counts.items()))
        click.echo(f"  and {len(rest)} more: {more}")
