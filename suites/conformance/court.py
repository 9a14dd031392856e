"""A cluster to be judged, and the judge: what the suite and the command line share."""

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
    """Start an embedded cluster and hand out its judge.

    Args:
        directory: For everything that is written.
        tell: Hears of builds.

    Raises:
        binaries.BuildFailed: A program could not be built.
        subprocess.CalledProcessError: The cluster did not start.
    """
    program = binaries.build("e2e.test", tell)
    directory.mkdir(parents=True, exist_ok=True)
    catalog = directory / "images.yaml"
    catalog.write_text(images.catalog(binaries.build("agnhost", tell), directory))
    kubeconfig = directory / "kubeconfig"
    name = f"conformance-{os.getpid()}"
    arguments = ["--nodes", str(NODES), "--images", str(catalog), "--kubeconfig", str(kubeconfig)]
    subprocess.run(
        [PROGRAM, "up", "--name", name, "--no-operator", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield Judge(program, kubeconfig, directory)
    finally:
        subprocess.run([PROGRAM, "down", "--name", name], check=True)
