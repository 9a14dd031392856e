"""Fixtures of the tests of container images."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from traincrew.local.directories import remove_tree
from traincrew.local.images.oci.store import ContainerImages

NOBODY = 65534


@pytest.fixture
def images(tmp_path: Path) -> ContainerImages:
    """The store of this user: of root in most runs of CI."""
    return ContainerImages(tmp_path / "container-images")


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """Let the test run as a user without rights; its directory is the value."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    place = Path(tempfile.mkdtemp(prefix="traincrew-"))
    os.chown(place, NOBODY, NOBODY)
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield place
    finally:
        os.seteuid(0)
        os.setegid(0)
        remove_tree(place)
