"""`traincrew down`: stop a cluster and remove it."""

from __future__ import annotations

import asyncio

import click

from traincrew.cli.cluster import daemon
from traincrew.cli.cluster.files import ClusterFiles, all_clusters
from traincrew.cli.cluster.merging import unmerge
from traincrew.cli.cluster.selection import named
from traincrew.cli.display.folding import say


@click.command("down")
@named
@click.option("--all", "everything", is_flag=True, help="Every cluster of this user.")
@click.option("--keep-data", is_flag=True, help="Keep the objects for the next `up`.")
def down_command(name: str, everything: bool, keep_data: bool) -> None:
    """End a cluster: its pods, its process, and everything it left behind.

    With --keep-data the objects stay, and `traincrew up` starts their pods again.
    """
    clusters = all_clusters() if everything else [ClusterFiles(name)]
    if not any(files.directory.exists() for files in clusters):
        say("there is no cluster to end" if everything else f"there is no cluster {name!r}")
        return
    for files in clusters:
        with files.locked():
            _down(files, keep_data)


def _down(files: ClusterFiles, keep_data: bool) -> None:
    daemon.stop(files, keep_pods=False)
    with files.unserved():
        if files.has_pods():  # the process was killed
            _end_pods(files)
        files.record.unlink(missing_ok=True)
        if keep_data:
            say(f"cluster {files.name!r} is down; its data stays in {files.directory}")
            return
        unmerge(files)
        files.remove()
    say(f"cluster {files.name!r} is down, nothing of it is left")


def _end_pods(files: ClusterFiles) -> None:
    """Stop the pods of a cluster whose process no longer exists."""
    from traincrew.local.node import end_pods

    asyncio.run(end_pods(files.node))
