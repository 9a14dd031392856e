"""The steps of docs/guides/first-script.md, in a terminal of a user who has never run anything.

PyTorch is a stand-in that shows how torchrun is called: suites/training have the real one.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from suites.guidetree import Tree

if TYPE_CHECKING:
    from pathlib import Path

TORCHRUN = """
import os, runpy, sys
options = [word for word in sys.argv[1:] if word.startswith("--")]
script = next(word for word in sys.argv[1:] if word.endswith(".py"))
assert any(word.startswith("--rdzv_endpoint") or word.startswith("--rdzv-endpoint")
           for word in options), options
os.environ.update(RANK=os.environ["HOSTNAME"].rpartition("-")[2], WORLD_SIZE="2")
sys.argv = [script]
runpy.run_path(script, run_name="__main__")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path, "first-script.md")


def interpreter(directory: Path) -> Path:
    """Return a Python that has the stand-in for PyTorch."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    (packages,) = (directory / "lib").glob("python*/site-packages")
    module = packages / "torch" / "distributed" / "run.py"
    module.parent.mkdir(parents=True)
    module.write_text(TORCHRUN)
    return directory / "bin" / "python"


def refused(tree: Tree, *words: str) -> str:
    """Run a command that fails, and return all that it prints."""
    result = subprocess.run(
        [sys.executable, "-m", "traincrew.cli", *words],
        cwd=tree.directory,
        env=tree.environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert result.returncode != 0
    return result.stdout + result.stderr


def test_the_three_steps(tree: Tree) -> None:
    python = interpreter(tree.directory / "venv")
    said = tree.traincrew("images", "map", "me/train", "--python", python)
    assert "to remove it: traincrew images unmap me/train" in said
    said = tree.traincrew("run", "job.yaml", "-v", ".:/app")
    assert "| worker 0 of 2" in said
    assert "| worker 1 of 2" in said
    assert "ElasticJob first: Succeeded" in said

    (tree.directory / "train.py").unlink()
    failed = refused(tree, "run", "job.yaml")
    assert "ElasticJob first: Failed" in failed
    assert "not mapped any more" in tree.traincrew("images", "unmap", "me/train")
    unknown = refused(tree, "run", "job.yaml")
    assert "no environment is defined for it" in unknown
    assert "define one: traincrew images map me/train" in unknown
