"""The options that choose a cluster, and common messages about a cluster."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from traincrew.cli.cluster.files import DEFAULT_NAME, ClusterFiles, all_clusters
from traincrew.cli.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def complete_cluster(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete the names of existing clusters in the shell."""
    return [each.name for each in all_clusters() if each.name.startswith(incomplete)]


named = click.option(
    "--name",
    default=DEFAULT_NAME,
    show_default=True,
    help="Which cluster.",
    shell_complete=complete_cluster,
)


def kubeconfig_of(name: str) -> str:
    """Return the kubeconfig of a cluster of `traincrew up` that is running.

    Raises:
        BadInput: There is no such cluster, or it is not running; the message has the fix.
    """
    files = ClusterFiles(name)
    state = files.state().kind
    if state == "running":
        return str(files.kubeconfig)
    if state == "absent":
        known = [repr(each.name) for each in all_clusters() if each.state().kind != "absent"]
        there = f"there are: {', '.join(known)}" if known else "there is none"
        raise BadInput(f"--name: there is no cluster {name!r} of this user; {there}")
    raise BadInput(f"--name: cluster {name!r} is {state}; `{command_for('up', name)}` starts it")


def target_options(command: F) -> F:
    """Add the options that choose a cluster, and a namespace in it, to a command."""

    @functools.wraps(command)
    def with_cluster(*words: Any, cluster: str | None, **more: Any) -> Any:
        if cluster is not None:
            if more["kubeconfig"] or more["context"]:
                raise BadInput("--name, and --kubeconfig or --context: choose one of them")
            more["kubeconfig"] = kubeconfig_of(cluster)
        return command(*words, **more)

    decorators = (
        click.option("--kubeconfig", metavar="FILE",
                     help="Which cluster.  [default: as kubectl, else the embedded one]"),
        click.option("--context", metavar="NAME", help="Context of the kubeconfig."),
        click.option("--name", "cluster", metavar="NAME", shell_complete=complete_cluster,
                     help="Which cluster, as `traincrew up --name NAME` called it."),
        click.option("-n", "--namespace", metavar="NAME",
                     help="Where to look.  [default: the context's]"),
    )  # fmt: skip
    decorated: Any = with_cluster
    for decorator in reversed(decorators):
        decorated = decorator(decorated)
    return cast("F", decorated)


def command_for(verb: str, name: str) -> str:
    """Return the command line of a command for a cluster, for messages."""
    return f"traincrew {verb}" + ("" if name == DEFAULT_NAME else f" --name {name}")


def program() -> str:
    """Return how to call this program from the working directory, for messages."""
    called = Path(sys.argv[0])
    found = shutil.which("traincrew")
    if not called.is_file() or (found is not None and called.samefile(found)):
        return "traincrew"
    return min(os.path.relpath(called), str(called.absolute()), key=len)


def print_export(target: Path) -> None:
    """Print the shell command that makes kubectl use a kubeconfig."""
    click.echo(f"export KUBECONFIG={shlex.quote(str(target))}")
