"""All random examples, all crashes and all rounds of the fast tests, which have one in a few.

The fast tests choose by the code, so commits have others in turn; see `variation`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import variation

ROOT = Path(__file__).resolve().parents[2]
USES = ("from variation import", "plan.shared.histories import JobHistory")


def test_every_example() -> None:
    files = [
        str(path)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if any(each in path.read_text() for each in USES)
    ]
    assert len(files) > 5, "where are they?"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env={**os.environ, variation.EVERY: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
