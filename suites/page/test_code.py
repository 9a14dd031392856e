"""The page's own code: types, style, and that the library beside it is the one of its package."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .checkers import run

STATIC = Path(__file__).parents[2] / "src" / "traincrew" / "cli" / "page" / "static"
VENDOR = {
    "uPlot.esm.js": "dist/uPlot.esm.js",
    "uPlot.min.css": "dist/uPlot.min.css",
    "uPlot.LICENSE": "LICENSE",
}


@pytest.fixture(scope="module")
def place(packages: Path) -> Path:
    """A directory with the checkers, the page, and the types of its library."""
    shutil.copytree(STATIC, packages / "static")
    types = packages / "node_modules" / "uplot" / "dist" / "uPlot.d.ts"
    shutil.copy(types, packages / "static" / "vendor" / "uPlot.esm.d.ts")
    return packages


def test_types(place: Path) -> None:
    run(place, "npx", "tsc", "-p", ".")


def test_style(place: Path) -> None:
    run(place, "npx", "eslint", "static")


@pytest.mark.parametrize(("ours", "theirs"), VENDOR.items())
def test_the_library_is_that_of_its_package(place: Path, ours: str, theirs: str) -> None:
    """If this fails: copy it from the package, ``npm ci`` in ``suites/page/code`` gets it."""
    package = place / "node_modules" / "uplot"

    assert (STATIC / "vendor" / ours).read_bytes() == (package / theirs).read_bytes()


def test_nothing_is_downloaded() -> None:
    for file in STATIC.glob("*.*"):
        text = file.read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert "http:" not in text.replace("http://www.w3.org/2000/svg", ""), file.name
        assert "https:" not in text, file.name


def test_numbers(place: Path) -> None:
    run(place, "node", "--test", "points.test.mjs", "usage.test.mjs")
