"""`traincrew version`."""

from __future__ import annotations

import platform

import click


@click.command("version")
def version_command() -> None:
    """Print the version of traincrew, Python and the operating system."""
    from importlib.metadata import version

    python = f"{platform.python_implementation()} {platform.python_version()}"
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    click.echo(f"traincrew {version('traincrew')}\n{python}\n{system}")
