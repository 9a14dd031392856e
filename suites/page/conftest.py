"""A browser with the page of a real embedded cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from suites.pages import PageProcess, Window, browser

import traincrew

from . import checkers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from selenium import webdriver

__all__ = ["browser"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[traincrew.LocalCluster]:
    """An embedded cluster with the operator."""
    with traincrew.LocalCluster() as running:
        yield running


@pytest.fixture(scope="module")
def page(cluster: traincrew.LocalCluster) -> Iterator[PageProcess]:
    """The page of the cluster."""
    process = PageProcess(cluster.environment)
    yield process
    assert process.end() == 0


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what checks the page."""
    made = tmp_path_factory.mktemp("packages")
    checkers.install(made)
    return made


@pytest.fixture(scope="session")
def axe(packages: Path) -> str:
    """The program of axe-core."""
    return (packages / "node_modules" / "axe-core" / "axe.min.js").read_text()


@pytest.fixture
def window(browser: webdriver.Chrome, page: PageProcess) -> Iterator[Window]:
    """A window with the list of jobs; the browser must not have complained at the end."""
    opened = Window(browser, page)
    opened.resize(1280, 900)
    opened.open()
    yield opened
    assert opened.complaints() == []
