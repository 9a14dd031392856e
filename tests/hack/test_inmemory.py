"""Commands whose temporary files are in memory, where that can be."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hack import inmemory

PROGRAM = """
import os, sys, tempfile
place = tempfile.gettempdir()
print(place, os.statvfs(place).f_files != os.statvfs("/").f_files)
sys.exit(3)
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hack.inmemory", *command],
        cwd=Path(inmemory.__file__).parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_command_runs_with_or_without_and_its_exit_code_is_returned() -> None:
    done = run(sys.executable, "-c", PROGRAM)
    assert done.returncode == 3, done.stderr
    place, other = done.stdout.split()
    if place != tempfile.gettempdir():
        assert other == "True"
        assert not Path(place).exists(), "nothing is left"


def test_nothing_is_changed_if_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inmemory, "NEEDED", 2**63)
    assert inmemory.prefix({}) == []


def test_nothing_is_changed_without_the_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(inmemory, "NEEDED", 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert inmemory.prefix({"PATH": str(tmp_path), "TMPDIR": str(tmp_path)}) == []


@pytest.mark.parametrize(
    ("meminfo", "expected"),
    [("MemTotal:  10 kB\nMemAvailable:    7 kB\n", 7168), ("MemTotal: 10 kB\n", 0), ("", 0)],
)
def test_available_memory(meminfo: str, expected: int) -> None:
    assert inmemory.available(meminfo) == expected
