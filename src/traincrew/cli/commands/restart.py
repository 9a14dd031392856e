"""`traincrew restart`: restart the control plane and keep the pods."""

from __future__ import annotations

import click

from traincrew.cli.cluster import daemon
from traincrew.cli.cluster.files import ClusterFiles
from traincrew.cli.cluster.selection import command_for, named, print_export
from traincrew.cli.display.folding import say
from traincrew.cli.errors import CommandFailed


@click.command("restart")
@named
def restart_command(name: str) -> None:
    """Restart a cluster's control plane; pods keep running meanwhile."""
    files = ClusterFiles(name)
    if files.state().kind == "absent":
        raise CommandFailed(f"there is no cluster {name!r}; `{command_for('up', name)}` starts one")
    with files.locked():
        daemon.stop(files, keep_pods=True)
        record = daemon.spawn(files, say)
    say(f"cluster {name!r} is back (process {record.pid})")
    print_export(files.kubeconfig)
