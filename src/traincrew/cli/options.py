"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from traincrew.cli.display.text import parse_duration
from traincrew.cli.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.plan.shared.templates.accelerators import Accelerators

F = TypeVar("F", bound="Callable[..., Any]")


def current_directory() -> Path:
    """Return the working directory; the root if it has been removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path("/")


def absolute(path: Path | None) -> str | None:
    """Return a path as the options of a cluster keep it: valid in every directory."""
    return str(path.absolute()) if path is not None else None


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


def controller_config_file(command: F) -> F:
    """Add mxnet-operator's option for accelerators to a command that starts the operator."""
    return click.option(
        "--controller_config_file",
        "--controller-config-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="YAML: volumes and variables for containers that use an accelerator (MxJob).",
    )(command)


def read_accelerators(path: Path | None) -> Accelerators:
    """Read the file of `controller_config_file`; without one there are no accelerators.

    Raises:
        BadInput: The file cannot be used; the message names it, the field and the fix.
    """
    from traincrew.plan.shared.templates.accelerators import NO_ACCELERATORS

    if path is None:
        return NO_ACCELERATORS
    from traincrew.operator.accelerators import AcceleratorsError, read

    try:
        return read(path)
    except AcceleratorsError as error:
        raise BadInput(f"--controller_config_file: {error}") from error


def cluster_options(command: F) -> F:
    """Add the options of an embedded cluster to a command."""
    decorators = (
        click.option(
            "--nodes",
            type=click.IntRange(1, 1000),
            default=1,
            show_default=True,
            metavar="N",
            help="Number of virtual nodes.",
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
            "--image-source",
            type=click.Choice(["auto", "environment", "image"]),
            default="auto",
            show_default=True,
            help="What image names stand for: Python environments, container images, or whichever"
            " there is.",
        ),
        click.option(
            "--sandbox",
            type=click.Choice(["auto", "namespaces", "bare"]),
            default="auto",
            show_default=True,
            help="Pod isolation; `bare` turns it off, for jobs of one pod.",
        ),
        click.option(
            "--scheduler-name",
            multiple=True,
            metavar="NAME",
            help="Also schedule pods with this schedulerName; repeatable.",
        ),
        controller_config_file,
        click.option(
            "--admin-in-pods",
            is_flag=True,
            help="Give all pods the administrator's kubeconfig, not only their ServiceAccount.",
        ),
        click.option(
            "--progress/--no-progress",
            default=True,
            show_default=True,
            help="Let training programs report their progress, into the status of their job.",
        ),
    )
    for decorator in reversed(decorators):
        command = decorator(command)
    return command


def output_option(command: F) -> F:
    """Add ``-o`` to a command that prints state."""
    return click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
    )(command)
