"""Errors of the commands, with a message for users and an exit code."""

from __future__ import annotations

import sys
from typing import Any

import click


class CommandFailed(click.ClickException):
    """A command failed; the message contains the reason and the fix."""

    def show(self, file: Any = None) -> None:
        """Print the message in the format of compilers."""
        click.echo(f"traincrew: {self.format_message()}", file=file or sys.stderr)


class BadInput(CommandFailed):
    """An input cannot be used: a manifest, a file, a name."""

    exit_code = 2
