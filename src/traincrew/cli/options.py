"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from traincrew.cli.display.text import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def current_directory() -> Path:
    """Return the working directory; the root if it has been removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


class Duration(click.ParamType[float]):
    """Seconds, written ``90s``, ``5m`` or ``1h30m``."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse a duration; click reports errors."""
        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def cluster_options(command: F) -> F:
    """Add the options of an embedded cluster to a command."""
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
            help="How pods are kept apart; `bare`: not at all, for jobs of one pod.",
        ),
        click.option(
            "--scheduler-name",
            multiple=True,
            metavar="NAME",
            help="Also place the pods with this schedulerName; may be repeated.",
        ),
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command
