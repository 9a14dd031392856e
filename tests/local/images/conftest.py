"""Fixtures of the tests of images."""

from pathlib import Path
from textwrap import dedent

import pytest

from local.images.support import Catalog, StandIn, stand_in_for_uv


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return stand_in_for_uv(tmp_path / "bin", monkeypatch)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    def write(text: str) -> Path:
        path = tmp_path / "environments.yaml"
        path.write_text(dedent(text), encoding="utf-8")
        return path

    return write
