"""The fast tests of the node, as a user without any privilege."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import pytest
from suites.nobody import NOBODY, as_nobody, usable_python

PROJECT = Path(__file__).parents[2]
FILES = (
    "pods",
    "running",
    "sandbox",
    "bare",
    "ports",
    "network",
    "ephemeral",
    "environment_attacks",
    "kernel_paths",
    "memory_files",
    "storage_limits",
    "full_disk",
    "credentials_in_pods",
    "image_roots",
)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the user")
@pytest.mark.parametrize("name", FILES)
def test_the_tests_pass_without_root(name: str) -> None:
    python = usable_python()
    if python is None:
        pytest.skip("no interpreter of this version that another user may run")
    home = Path("/tmp") / f"traincrew-nobody-{os.getpid()}"
    home.mkdir()
    try:
        os.chown(home, NOBODY, NOBODY)
        result = as_nobody(
            [
                python,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "-c",
                str(PROJECT / "pyproject.toml"),
                f"--basetemp={home / 'tests'}",
                str(PROJECT / "tests" / "local" / "node" / f"test_{name}.py"),
            ],
            str(home),
            HOME=str(home),
            PYTHONDONTWRITEBYTECODE="1",
            PYTHONPATH=f"{PROJECT / 'src'}:{sysconfig.get_path('purelib')}",
        )
        assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
    finally:
        shutil.rmtree(home, ignore_errors=True)
