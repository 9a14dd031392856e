"""A full disk: programs keep their exit code, and users are told. The cases: `full_disk_cases`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PLACE = "TRAINCREW_TEST_SMALL_DISK"
CASES = Path(__file__).with_name("full_disk_cases.py")
SIZE = "3m"


def _enter() -> list[str]:
    own = ["--mount"] if os.geteuid() == 0 else ["--mount", "--user", "--map-root-user"]
    return ["unshare", *own]


def _can_mount() -> bool:
    command = [*_enter(), "mount", "-t", "tmpfs", "none", "/mnt"]
    if shutil.which("unshare") is None or shutil.which("mount") is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not _can_mount(), reason="no disk can be mounted")
def test_with_a_small_disk(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header"]
    test += [
        f"--basetemp={tmp_path / 'inner'}",
        "-c",
        str(CASES.parents[3] / "pyproject.toml"),
        str(CASES),
    ]
    script = f'mount -t tmpfs -o size={SIZE} none "$0" && exec "$@"'
    run = subprocess.run(
        [*_enter(), "sh", "-c", script, str(disk), *test],
        env={**os.environ, PLACE: str(disk)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
    assert "4 passed" in run.stdout, run.stdout
