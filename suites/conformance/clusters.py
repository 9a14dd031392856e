"""Embedded clusters and the e2e runner, for the suite and the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hack.cluster import binaries

from traincrew.local.directories import discard_tree

from . import images
from .e2e_runner import KUBECTL, E2eRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(sys.prefix) / "bin" / "traincrew"
NODES = 2


def missing() -> list[str]:
    """Return what this machine lacks to run the conformance tests; empty if nothing."""
    lacking = [f"{name}: apt-get install {name}" for name in images.missing()]
    if not KUBECTL.exists():
        lacking.append("kubectl beside this Python: make setup")
    unbuilt = binaries.unbuilt(["e2e.test", *images.PROGRAMS])
    if unbuilt and shutil.which("go") is None:
        lacking.append(f"Go, to build {' and '.join(unbuilt)}")
    return lacking


@contextmanager
def open_clusters(
    directory: Path, on_progress: Callable[[str], None] = print
) -> Iterator[E2eRunner]:
    """Start two embedded clusters and yield the runner of tests against them.

    Tests that want a cluster for themselves get the second one.

    Args:
        directory: For all files.
        on_progress: Called with the progress of builds.

    Raises:
        binaries.BuildFailed: A program could not be built.
        subprocess.CalledProcessError: A cluster did not start.
    """
    program = binaries.build("e2e.test", on_progress)
    directory.mkdir(parents=True, exist_ok=True)
    # Not the developer's: upstream's names would stand for these images in every cluster.
    cache = directory / "cache"
    cache.mkdir()
    try:
        images.import_into(cache, directory, on_progress)
        with (
            _cluster("shared", directory, cache) as shared,
            _cluster("serial", directory, cache) as serial,
        ):
            yield E2eRunner(program, shared, directory, serial=serial)
    finally:
        discard_tree(cache)


@contextmanager
def _cluster(role: str, directory: Path, cache: Path) -> Iterator[Path]:
    """Start a cluster and yield its kubeconfig."""
    kubeconfig = directory / f"kubeconfig-{role}"
    name = f"conformance-{os.getpid()}-{role}"
    settings = ["--nodes", str(NODES), "--image-source", "image", "--kubeconfig", str(kubeconfig)]
    subprocess.run(
        [PROGRAM, "up", "--name", name, "--no-operator", *settings],
        env={**os.environ, "TRAINCREW_CACHE": str(cache)},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield kubeconfig
    finally:
        subprocess.run([PROGRAM, "down", "--name", name], check=True)
