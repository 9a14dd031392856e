"""`make run` from a clean copy in containers without privileges."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from hack.containers import HOME, HOME_OF_ROOT, Containers, containers, copy_project
from suites.conftest import REQUIRE

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

USER = 12345
PROJECT = f"{HOME}/project"


def missing() -> list[str]:
    """Return the prerequisites of containers that this machine lacks."""
    lacking = [] if os.geteuid() == 0 else ["root"]
    return lacking + [name for name in ("runc", "make") if shutil.which(name) is None]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    if lacking := missing():
        text = f"containers cannot run here; missing: {', '.join(lacking)}"
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    directory: Path = tmp_path_factory.mktemp("containers") / "bundle"
    with containers(directory) as machine:
        copy_project(machine.root / PROJECT.lstrip("/"), USER)
        (machine.root / HOME_OF_ROOT.lstrip("/")).mkdir(mode=0o700)
        yield machine


def make_run(machine: Containers, *, uid: int, filtered: bool) -> subprocess.CompletedProcess[str]:
    return machine.run("make run", cwd=PROJECT, uid=uid, filtered=filtered)


def test_with_the_defaults_of_runc(machine: Containers) -> None:
    result = make_run(machine, uid=USER, filtered=False)
    assert result.returncode == 0, result.stdout
    assert "pods are sandboxed processes" in result.stdout
    assert "ChainerJob digits-mn: Succeeded after" in result.stdout


@pytest.mark.parametrize("uid", [USER, 0], ids=["user", "root"])
def test_with_the_system_call_filter_of_docker(machine: Containers, uid: int) -> None:
    result = make_run(machine, uid=uid, filtered=True)
    assert result.returncode == 2, result.stdout
    assert "pods cannot be isolated on this machine" in result.stdout
    assert "Operation not permitted" in result.stdout
    assert "--security-opt seccomp=unconfined" in result.stdout
    assert "ChainerJob" not in result.stdout
