"""Kubeflow's SDK, as PyPI has it: how it is installed, and what a user of it sees."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suites.shell import User

HERE = Path(__file__).parent / "kubeflow"
_PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def install(user: User) -> None:
    """Install the SDK for somebody's Python."""
    packages = user.home / "packages"
    locked = ("--no-deps", "--require-hashes", "-r", str(HERE / "requirements.txt"))
    user.does(*_PIP, *locked, "--target", str(packages))
    user.environment["PYTHONPATH"] = str(packages)


def trains(user: User) -> None:
    """Train on three nodes, and look at the job by all that the SDK has for it."""
    printed = user.does(sys.executable, str(HERE / "training.py"))

    found = json.loads(printed.splitlines()[-1])  # before it, that no release of Trainer is found
    assert "torch-distributed" in found["runtimes"]
    assert (found["status"], found["nodes"]) == ("Complete", 3)
    assert sorted(found["logs"]) == ["node-0", "node-1", "node-2"]
    for rank, node in enumerate(sorted(found["logs"])):
        words = f"rank {rank} of 3: loss below 0.01: True"
        assert words in "\n".join(found["logs"][node])
    assert found["listed"] == [[found["name"], "Complete"]]
    assert found["left"] == []
