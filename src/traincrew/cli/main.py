"""The `traincrew` command.

Each command lives in a module of its own that is imported when the command is called, so that
`traincrew --help` answers at once; the texts of the overview stand here for the same reason.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, NamedTuple

import click


class CommandFailed(click.ClickException):
    """A command cannot do what it was asked; the message says why and what to do."""

    def show(self, file: Any = None) -> None:
        """Print the message the way compilers do."""
        click.echo(f"traincrew: {self.format_message()}", file=file or sys.stderr, err=True)


class BadInput(CommandFailed):
    """What was given cannot be used: a manifest, a file, a name."""

    exit_code = 2


class _Command(NamedTuple):
    module: str
    help: str


COMMANDS = {
    "run": _Command("run", "Run a training job here, watch it, end with its outcome."),
    "up": _Command("clusters", "Start a cluster that stays, for kubectl and friends."),
    "down": _Command("clusters", "End a cluster, its pods and everything it left behind."),
    "status": _Command("clusters", "Show the clusters of this user and what runs in them."),
    "restart": _Command("clusters", "Restart a cluster's control plane; its pods keep running."),
    "operator": _Command("operator", "Run the operator for any Kubernetes cluster."),
    "manifests": _Command("manifests", "Print or write the YAML that installs the operator."),
    "doctor": _Command("doctor", "Say what this machine can emulate, and fix the rest."),
    "images": _Command("images", "List, prepare and remove the environments of images."),
    "version": _Command("version", "Print the version."),
}

EPILOG = """\b
Shell completion: add one line to your shell's start-up file:
  bash   eval "$(_TRAINCREW_COMPLETE=bash_source traincrew)"
  zsh    eval "$(_TRAINCREW_COMPLETE=zsh_source traincrew)"
  fish   _TRAINCREW_COMPLETE=fish_source traincrew | source
"""


class LazyGroup(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        """Name the commands in the order people meet them."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click calls it so
        cmd_name: str,
    ) -> click.Command | None:
        """Import a command; None if there is none of that name."""
        command = COMMANDS.get(cmd_name)
        if command is None:
            return None
        module = importlib.import_module(f"traincrew.cli.{command.module}")
        found = getattr(module, f"{cmd_name}_command")
        assert isinstance(found, click.Command)
        return found

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click calls it so
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a misspelt one say which was probably meant."""
        import difflib

        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(COMMANDS)}."
            raise click.UsageError(f"There is no command {name!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)


HELP = """Run distributed training jobs from their Kubernetes manifest.

On a cluster, or right here without one.

\b
  traincrew run -f job.yaml        run it here, now
  eval "$(traincrew up)"           or start a cluster and use your own kubectl
"""


@click.group(
    cls=LazyGroup,
    help=HELP,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="traincrew", message="%(prog)s %(version)s")
def cli() -> None:
    """Every command is a member of this group."""


def _explain(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and f"{error.name}.".startswith("traincrew.local."):
        return (
            "the embedded cluster is not installed here (the operator's image leaves it out); "
            "install traincrew with pip to use it"
        )
    return (
        f"unexpected {type(error).__name__}: {error}\n"
        "This should not happen; TRAINCREW_DEBUG=1 shows where it did."
    )


def main() -> None:
    """Entry point of the `traincrew` program."""
    # structlog loads rich when it finds it, for tracebacks we do not use: a tenth of our start.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    try:
        code = cli(prog_name="traincrew", standalone_mode=False)
    except click.exceptions.Exit as end:
        code = end.exit_code
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("traincrew: interrupted", err=True)
        code = 130
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except Exception as error:
        if os.environ.get("TRAINCREW_DEBUG"):
            raise
        click.echo(f"traincrew: {_explain(error)}", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)
