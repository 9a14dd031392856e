"""Fixtures: a registry that runs, and one that pulls from it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from local.images.oci.registry.support import Puller, Registry, serving

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    registry = Registry()
    async with serving(registry):
        yield registry


@pytest.fixture
def puller(tmp_path: Path) -> Puller:
    return Puller(tmp_path)
