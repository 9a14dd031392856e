"""The `traincrew` command.

Each command has a module of its own that is imported when the command is called, so that
`traincrew --help` is fast; the texts of the overview are here for the same reason.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys

import click

from traincrew.cli.display.safe import SafeStream
from traincrew.cli.errors import CommandFailed
from traincrew.cli.starting import raise_interrupts

COMMANDS = {
    "run": "Run a training job here, watch it, end with its outcome.",
    "up": "Start a cluster that stays, for kubectl and friends.",
    "down": "End a cluster, its pods and everything it left behind.",
    "status": "Show the clusters of this user and what runs in them.",
    "list": "List the training jobs of any cluster.",
    "watch": "Watch a job of any cluster until it ends.",
    "logs": "Print the logs of all pods of a job, merged.",
    "why": "Explain what a job waits for, or why it failed.",
    "ui": "Serve a page with the jobs of any cluster.",
    "runs": "List what pods of the last runs wrote; it is kept for a day.",
    "restart": "Restart a cluster's control plane; its pods keep running.",
    "operator": "Run the operator for any Kubernetes cluster.",
    "orphans": "Find, and delete, what an older mxnet-operator left behind.",
    "apiserver": "Serve the Kubernetes API alone, for tests.",
    "envtest": "Write kube-apiserver and etcd for envtest: a directory.",
    "mpi": "Turn values of the chart kube-openmpi into an MPICluster.",
    "verify": "Check an installed operator with a small job.",
    "manifests": "Print or write the YAML that installs the operator.",
    "doctor": "Say what this machine can emulate, and fix the rest.",
    "images": "List, prepare and remove the environments of images.",
    "version": "Print the version.",
}

EPILOG = """\b
Shell completion: add one line to your shell's start-up file:
  bash   eval "$(_TRAINCREW_COMPLETE=bash_source traincrew)"
  zsh    eval "$(_TRAINCREW_COMPLETE=zsh_source traincrew)"
  fish   _TRAINCREW_COMPLETE=fish_source traincrew | source
"""


_CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}
_READER_LEFT = 141
"""Exit code of a program whose output nobody reads any more: 128 + SIGPIPE, as shells report it."""


class LazyGroup(click.Group):
    """Imports a command when it is called."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; end quietly when the reader of its output has left.

        click would end with 1.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise click.exceptions.Exit(_READER_LEFT) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click calls it so
        """List the commands in the order in which users need them."""
        return list(COMMANDS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click calls it so
        cmd_name: str,
    ) -> click.Command | None:
        """Import a command; None if it does not exist."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"traincrew.cli.commands.{cmd_name}")
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
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; suggest a similar one if it is misspelt."""
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
    """Group all commands."""
    # The module of the command is imported by now; what it does may need to be cleaned up.
    raise_interrupts()


def _show(error: click.ClickException) -> None:
    """Print an error as click does, wrapped to the terminal."""
    import io

    from traincrew.cli.display.folding import say

    shown = io.StringIO()
    error.show(shown)
    say(shown.getvalue())


def _explain(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
        what = error.filename or "the output"
        return f"cannot write {what}: {os.strerror(error.errno).lower()}"
    if isinstance(error, PermissionError) and error.filename:
        return f"cannot use {error.filename}: permission denied"
    if isinstance(error, ModuleNotFoundError) and f"{error.name}.".startswith("traincrew.local."):
        return (
            "the embedded cluster is not installed here (the operator's image leaves it out); "
            "install traincrew with pip to use it"
        )
    from traincrew.engine.errors import ConfigError

    if isinstance(error, ConfigError):
        return str(error)
    return (
        f"unexpected {type(error).__name__}: {error}\n"
        "This should not happen; TRAINCREW_DEBUG=1 shows where it did."
    )


def _open_standard_streams() -> None:
    """Open those that the caller has closed, before another file gets their number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    # Python leaves out the streams that were closed.
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")


def _guard_standard_streams() -> None:
    """Let nothing that a cluster has sent control the terminal."""
    sys.stdout, sys.stderr = SafeStream(sys.stdout), SafeStream(sys.stderr)


def _flush(code: int) -> int:
    """Write what is left of the output; return the exit code if that was not possible."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Keep the interpreter from trying again, and reporting that, at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return _READER_LEFT
        _show(CommandFailed(_explain(error)))
        return code or 1
    return code


def main() -> None:
    """Run the `traincrew` program."""
    _open_standard_streams()
    _guard_standard_streams()
    # Other users must not be able to write our files, such as programs in cached environments.
    os.umask(os.umask(0o077) | 0o022)
    # structlog imports rich if available, for tracebacks that we do not use: 10% of the start-up.
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]
    try:
        code = cli(prog_name="traincrew", standalone_mode=False)
    except click.exceptions.Exit as end:
        code = end.exit_code
    except SystemExit as end:  # a command that ends with the exit code of its job
        code = end.code
    except click.ClickException as error:
        _show(error)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("traincrew: interrupted", err=True)
        code = 130
    except Exception as error:
        if os.environ.get("TRAINCREW_DEBUG"):
            raise
        _show(CommandFailed(_explain(error)))
        code = 1
    sys.exit(_flush(code if isinstance(code, int) else 0))
