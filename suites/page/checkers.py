"""What checks the page, from its packages: installed once for all tests of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CODE = Path(__file__).parent / "code"


def run(directory: Path, *words: str) -> None:
    """Run a command there; it must succeed."""
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def install(directory: Path) -> None:
    """Install the packages of `code` in a directory."""
    if shutil.which("npm") is None:
        if os.environ.get("TRAINCREW_REQUIRE_REAL_CLUSTER"):
            pytest.fail("npm is missing", pytrace=False)
        pytest.skip("the page's code cannot be checked here; missing: npm (Node.js)")
    for file in CODE.iterdir():
        if file.is_file():
            shutil.copy(file, directory)
    run(directory, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
