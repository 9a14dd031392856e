"""The fast tests of the node, as a user without any privilege."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
NOBODY = 65534
FILES = ("pods", "running", "sandbox", "bare", "ports", "network", "ephemeral")


def usable_python() -> str | None:
    """Return an interpreter of this version that every user may run."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{name}", f"/usr/local/bin/{name}"):
        with contextlib.suppress(OSError):
            if as_nobody([candidate, "-c", ""]).returncode == 0:
                return candidate
    return None


def as_nobody(
    command: list[str], directory: str = "/", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
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
