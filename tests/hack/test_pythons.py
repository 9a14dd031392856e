"""Which Python the checks run on beside the default one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hack.pythons import Interpreter, PythonsError

from hack import pythons


def program(path: Path, answer: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)
    return path


def says(path: Path, minor: int, level: str = "final", name: str = "cpython") -> Path:
    return program(path, f"""echo '[3, {minor}, 1, "{level}", "{name}", true, "{path}"]'""")


def test_this_interpreter_is_known() -> None:
    found = pythons.probe(Path(sys.executable))
    assert found is not None
    assert found.version == sys.version_info[:3]


def test_the_newest_of_path_pyenv_and_uv(tmp_path: Path) -> None:
    home = tmp_path / "my home"
    bin_directory = tmp_path / "bin"
    on_path = says(bin_directory / "python3.12", 12)
    environment = {"PATH": f"{home / '.pyenv/shims'}:{bin_directory}:{tmp_path / 'missing'}"}

    def newest() -> Path:
        found = pythons.newest(pythons.candidates(environment, home))
        assert found is not None
        return found.path

    assert newest() == on_path
    # A front of pyenv may start another interpreter in another directory.
    says(home / ".pyenv/shims/python3.14", 14)
    of_pyenv = says(home / ".pyenv/versions/3.13.1/bin/python3", 13)
    assert newest() == of_pyenv
    of_uv = says(home / ".local/share/uv/python/cpython-3.14.1-linux-x86_64-gnu/bin/python3", 14)
    assert newest() == of_uv


@pytest.mark.parametrize(
    "answer",
    [
        "exit 1",
        "echo nonsense",
        """echo '[3, 10, 1, "final", "cpython", true, "/x"]'""",
        """echo '[3, 99, 1, "final", "cpython", true, "/x"]'""",
        """echo '[3, 14, 0, "candidate", "cpython", true, "/x"]'""",
        """echo '[3, 12, 1, "final", "pypy", true, "/x"]'""",
        """echo '[3, 14, 1, "final", "cpython", false, "/x"]'""",
    ],
)
def test_interpreters_that_are_skipped(tmp_path: Path, answer: str) -> None:
    unusable = program(tmp_path / "a/python3", answer)
    usable = says(tmp_path / "b/python3", 11)
    assert pythons.newest([unusable]) is None
    assert pythons.newest([unusable, usable]) == Interpreter((3, 11, 1), usable)


def test_the_newest_final_release_among_debians_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pythons, "NEWEST", (3, 15))
    index = "\n".join(
        f"Package: python3.{minor}-venv\nSource: python3.{minor}\nVersion: {version}\n"
        for minor, version in ((14, "3.14.10-1"), (13, "3.13.9-1"), (15, "3.15.0~rc1-1"))
    )
    assert pythons.debian_minor(index) == 14
    assert pythons.debian_minor(index.replace("~rc1", "")) == 15
    monkeypatch.setattr(pythons, "NEWEST", (3, 14))
    assert pythons.debian_minor(index.replace("~rc1", "")) == 14
    with pytest.raises(PythonsError, match=r"python3\.N-venv"):
        pythons.debian_minor("Package: python3\nVersion: 3\n")
