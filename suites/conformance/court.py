"""Clusters to be judged, and the judge: what the suite and the command line share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hack.cluster import binaries

from . import images
from .judge import KUBECTL, Judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(sys.prefix) / "bin" / "traincrew"
NODES = 2


def missing() -> list[str]:
    """What this machine lacks to hold court; empty when nothing."""
    lacking = [f"{name}: apt-get install {name}" for name in images.missing()]
    if not KUBECTL.exists():
        lacking.append("kubectl beside this Python: make setup")
    unbuilt = binaries.unbuilt(["e2e.test", "agnhost"])
    if unbuilt and shutil.which("go") is None:
        lacking.append(f"Go, to build {' and '.join(unbuilt)}")
    return lacking


@contextmanager
def open_court(directory: Path, tell: Callable[[str], None] = print) -> Iterator[Judge]:
    """Start two embedded clusters and hand out their judge.

    Tests that want a cluster for themselves get the second one.

    Args:
        directory: For everything that is written.
        tell: Hears of builds.

    Raises:
        binaries.BuildFailed: A program could not be built.
        subprocess.CalledProcessError: A cluster did not start.
    """
    program = binaries.build("e2e.test", tell)
    directory.mkdir(parents=True, exist_ok=True)
    catalog = directory / "images.yaml"
    catalog.write_text(images.catalog(binaries.build("agnhost", tell), directory))
    with _cluster("shared", catalog) as shared, _cluster("serial", catalog) as serial:
        yield Judge(program, shared, directory, serial=serial)


@contextmanager
def _cluster(role: str, catalog: Path) -> Iterator[Path]:
    """A cluster and its kubeconfig."""
    kubeconfig = catalog.with_name(f"kubeconfig-{role}")
    name = f"conformance-{os.getpid()}-{role}"
    arguments = ["--nodes", str(NODES), "--images", str(catalog), "--kubeconfig", str(kubeconfig)]
    subprocess.run(
        [PROGRAM, "up", "--name", name, "--no-operator", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield kubeconfig
    finally:
        subprocess.run([PROGRAM, "down", "--name", name], check=True)
