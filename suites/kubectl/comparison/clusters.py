"""Runs all commands with every version of kubectl on both clusters, concurrently."""

from __future__ import annotations

import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hack import kubectls
from traincrew.local.cluster import ClusterOptions, LocalCluster
from traincrew.local.node import NodeSpec

from .commands import HERE, Command, Group, load
from .execution import KubectlRunner, Output
from .known_differences import Difference, compare

if TYPE_CHECKING:
    from hack.cluster import RealCluster

NEWEST = "1.37"
MINORS = ("1.30", "1.33", NEWEST)
# Groups of commands that run concurrently on each cluster.
_CONCURRENCY = 3


_Results = list[tuple[Command, Output]]


@dataclass(frozen=True)
class Finding:
    """A command with one version of kubectl, and its differences."""

    minor: str
    group: str
    command: Command
    differences: tuple[Difference, ...]


def kubectl(minor: str) -> Path:
    """Return the path of a version of kubectl.

    Raises:
        Unavailable: It is not available for this machine.
    """
    return kubectls.newest() if minor == NEWEST else kubectls.packaged(minor)


def run(real: RealCluster, minors: tuple[str, ...] = MINORS) -> list[Finding]:
    """Run everything on both clusters.

    Raises:
        Unavailable: A version of kubectl is not available for this machine.
    """
    programs = {minor: kubectl(minor) for minor in minors}
    options = ClusterOptions(
        nodes=tuple(NodeSpec(name=node.name) for node in real.nodes),
        image_catalogs=(HERE.parents[1] / "scenarios" / "images.yaml",),
    )
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        embedded = stack.enter_context(LocalCluster(options))
        kubeconfigs = {"embedded": Path(embedded.kubeconfig_path), "real": real.kubeconfig}
        pool = stack.enter_context(ThreadPoolExecutor(2 * _CONCURRENCY))
        groups = load()

        def play(name: str, minor: str, group: Group) -> _Results:
            home = directory / name / minor
            home.mkdir(parents=True, exist_ok=True)
            return list(KubectlRunner(programs[minor], minor, kubeconfigs[name], home).run(group))

        def start(minor: str, group: Group) -> list[Future[_Results]]:
            return [pool.submit(play, name, minor, group) for name in kubeconfigs]

        turns = [(minor, group) for minor in minors for group in groups]
        together = {turn: start(*turn) for turn in turns if not turn[1].alone}
        results = {turn: [each.result() for each in started] for turn, started in together.items()}
        for turn in turns:
            if turn[1].alone:
                results[turn] = [each.result() for each in start(*turn)]
        return [
            Finding(minor, group.name, command, tuple(compare(ours, theirs)))
            for minor, group in turns
            for (command, ours), (_, theirs) in zip(*results[minor, group], strict=True)
        ]
