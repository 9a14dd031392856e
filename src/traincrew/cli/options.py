"""Options several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from traincrew.cli.text import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


class Duration(click.ParamType[float]):
    """Seconds, written ``90s``, ``5m`` or ``1h30m``."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a duration; click reports what is wrong with it."""
        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def cluster_options(command: F) -> F:
    """What an embedded cluster is made of."""
    decorators = (
        click.option(
            "--nodes",
            type=click.IntRange(1, 1000),
            default=1,
            show_default=True,
            metavar="N",
            help="Virtual nodes over this machine.",
        ),
        click.option(
            "--gpus",
            type=click.IntRange(0, 10000),
            metavar="N",
            help="GPUs the nodes offer together.  [default: those of this machine]",
        ),
        click.option(
            "--images",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            multiple=True,
            metavar="FILE",
            help="A catalog of your own environments for image names; may be repeated.",
        ),
        click.option(
            "--sandbox",
            type=click.Choice(["auto", "namespaces", "bare"]),
            default="auto",
            show_default=True,
            help="How pods are kept apart.",
        ),
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command
