"""Kubeflow's SDK, as PyPI has it, trains on the embedded cluster without a container engine."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from suites.shell import User, running

from traincrew.local.directories import default_cache

HERE = Path(__file__).parent / "kubeflow"
_PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")


@pytest.mark.timeout(900)
def test_it_trains_on_three_nodes(tmp_path: Path) -> None:
    user = User(tmp_path, default_cache())
    packages = tmp_path / "packages"
    locked = ("--no-deps", "--require-hashes", "-r", str(HERE / "requirements.txt"))
    user.does(*_PIP, *locked, "--target", str(packages))
    user.traincrew("images", "pull", "pytorch/pytorch")
    user.environment["PYTHONPATH"] = str(packages)
    user.timeout = 600.0

    with running(user):
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
