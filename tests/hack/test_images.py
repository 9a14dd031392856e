"""What images are made of, as their Dockerfiles say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hack.images import ImageError, catalog, lock
from hack.images.catalog import Image

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("image", catalog.IMAGES.values(), ids=list(catalog.IMAGES))
def test_every_image_is_made_of_one_locked_release(image: Image) -> None:
    assert lock.read()[catalog.suite(image)]


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ("FROM scratch\n", "it names none"),
        (
            (
                "FROM docker.io/library/debian:trixie-slim AS build\n"
                "FROM docker.io/library/debian:bookworm-slim\n"
            ),
            "it names bookworm and trixie",
        ),
    ],
)
def test_packages_of_one_release_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, named: str
) -> None:
    (tmp_path / "Dockerfile").write_text(lines)
    monkeypatch.setattr(catalog, "REPOSITORY", tmp_path)

    with pytest.raises(ImageError, match=named):
        catalog.suite(Image("mine", "me/mine", "Dockerfile"))


def test_packages_are_checked_by_their_release() -> None:
    packages = {"libc6": lock.read()["trixie"]["libc6"]}

    assert lock.differences(packages, "trixie") == []
    assert lock.differences({"libc6": "2.36-9"}, "trixie") == [
        f"libc6 is 2.36-9, older than {packages['libc6']}"
    ]
    assert lock.differences({"libc6-dev": "2.41"}, "trixie") == [
        "libc6-dev is not in debian-packages.lock"
    ]
