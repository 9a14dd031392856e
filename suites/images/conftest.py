"""The project's images, built and unpacked once for all tests of them."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest
from hack.images.archive import Archive
from suites.images.container import Container

from hack import images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Set where a suite that could not run must not count as passed.
REQUIRE = "TRAINCREW_REQUIRE_REAL_CLUSTER"


@pytest.fixture(scope="session")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Container]]:
    """A function that builds and unpacks an image by its name."""
    lacking = images.missing()
    lacking += [f"{name}: apt-get install {name}" for name in ("runc",) if not shutil.which(name)]
    if lacking:
        text = "images cannot be built and run here; missing: " + "; ".join(lacking)
        if os.environ.get(REQUIRE):
            pytest.fail(text, pytrace=False)
        pytest.skip(text)
    unpacked: dict[str, Container] = {}
    directory = tmp_path_factory.mktemp("images")
    try:

        def unpack(name: str) -> Container:
            if name not in unpacked:
                root = directory / name
                root.mkdir()
                archive = Archive(images.build(name))
                archive.unpack(root)
                unpacked[name] = Container(root, archive)
            return unpacked[name]

        yield unpack
    finally:
        shutil.rmtree(directory, ignore_errors=True)  # gigabytes; pytest would keep them
