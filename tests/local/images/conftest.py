"""Fixtures of the tests of images."""

import os
from pathlib import Path
from textwrap import dedent

import pytest

from local.images.support import Catalog, StandIn


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN", str(directory))
    stand_in = StandIn(directory)
    monkeypatch.setattr("traincrew.local.images.uv.find_uv", lambda: str(stand_in.uv))
    return stand_in


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    def write(text: str) -> Path:
        path = tmp_path / "environments.yaml"
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return write
