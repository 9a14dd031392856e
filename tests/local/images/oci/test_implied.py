"""Directories that a layer does not describe are those of the layers below."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from local.images.oci.packing import Layer, directory, entry, stored, symlink
from traincrew.local.images.oci.store import ContainerImages

BASE = Layer(
    directory("./", 0o755),
    directory("tmp/", 0o1777),
    directory("home/", 0o750, uid=7, gid=8),
    directory("home/me/", 0o700, uid=1000, gid=1000),
    directory("usr/", 0o755),
    directory("usr/share/", 0o775),
    directory("link/", 0o777),
)


def modes(images: ContainerImages, *layers: Layer) -> dict[str, int]:
    """Return what an image has beside its layers: directories and their modes."""
    image = stored(images, *layers)
    assert images.verify(image) == []
    top = image.layers[-1]
    if top.name != "directories":
        return {}
    paths = [top, *sorted(top.rglob("*"))]
    found = {str(path.relative_to(top)): stat.S_IMODE(path.stat().st_mode) for path in paths}
    images.remove(image)
    assert images.images() == []
    return found


def test_a_directory_that_is_not_described_is_as_it_was(images: ContainerImages) -> None:
    top = Layer(entry("tmp/x", b""), entry("home/me/deep/x", b""), entry("usr/share/x", b""))
    assert modes(images, BASE, top) == {
        ".": 0o755, "home": 0o750, "home/me": 0o700, "tmp": 0o1777, "usr": 0o755,
        "usr/share": 0o775,
    }  # fmt: skip
    # Through any number of layers.
    assert modes(images, BASE, Layer(entry("tmp/y", b"")), Layer(entry("tmp/z", b""))) == {
        ".": 0o755, "tmp": 0o1777,
    }  # fmt: skip


def test_what_needs_nothing_gets_nothing(images: ContainerImages) -> None:
    for layers in (
        [BASE],
        [BASE, Layer(entry("usr/x", b""), entry("new/deep/x", b""))],
        [BASE, Layer(directory("tmp/", 0o700), entry("tmp/x", b""))],
        [BASE, Layer(entry("tmp/x", b"")), Layer(directory("tmp/", 0o700))],
        [BASE, Layer(entry("tmp/x", b"")), Layer(entry(".wh.tmp"))],
        [BASE, Layer(entry("tmp/.wh..wh..opq"), entry("tmp/x", b""))],
        [BASE, Layer(entry(".wh.tmp")), Layer(entry("tmp/x", b""))],
        [BASE, Layer(entry(".wh..wh..opq"), entry("tmp/x", b""))],
        [BASE, Layer(entry("link", b"a file")), Layer(entry(".wh.link"), entry("link/x", b""))],
        [BASE, Layer(symlink("link", "/etc")), Layer(entry("link/x", b""))],
    ):
        assert modes(images, *layers) == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_container_sees_owners_and_modes(images: ContainerImages, tmp_path: Path) -> None:
    image = stored(images, BASE, Layer(entry("home/me/x", b"", mode=0o600, uid=1000, gid=1000)))
    (tmp_path / "root").mkdir()
    lower = ":".join(str(layer) for layer in reversed(image.layers))
    script = (
        f"mount -t overlay overlay -o lowerdir={lower} root\n"
        "stat -c '%n %a %u:%g' $(find root | sort)"
    )
    found = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert found.splitlines() == [
        "root 755 0:0",
        "root/home 750 7:8",
        "root/home/me 700 1000:1000",
        "root/home/me/x 600 1000:1000",
        "root/link 777 0:0",
        "root/tmp 1777 0:0",
        "root/usr 755 0:0",
        "root/usr/share 775 0:0",
    ]


def test_a_user_without_rights_has_the_modes(as_nobody: Path) -> None:
    images = ContainerImages(as_nobody / "store")
    top = Layer(entry("tmp/x", b""), entry("home/me/x", b""))
    assert modes(images, BASE, top)["tmp"] == 0o1777


LINKED = Layer(
    directory("usr/"),
    directory("usr/bin/"),
    entry("usr/bin/old", b"old"),
    symlink("bin", "usr/bin"),
)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts an overlay as root does")
@pytest.mark.parametrize(
    ("top", "shown"),
    [
        (Layer(entry("bin/x", b"")), ["bin", "bin/x", "usr", "usr/bin", "usr/bin/old"]),
        (Layer(entry("bin/.wh.old")), ["bin", "usr", "usr/bin", "usr/bin/old"]),
    ],
    ids=["a file", "a whiteout"],
)
def test_a_layer_does_not_write_through_a_link_of_a_lower_one(
    images: ContainerImages, tmp_path: Path, top: Layer, shown: list[str]
) -> None:
    """Its own directory takes the place of the link, as in containerd's snapshotter `overlayfs`.

    `suites/container_images/test_foreign_images.py` compares it with podman, which does the same.
    """
    image = stored(images, LINKED, top)
    assert images.verify(image) == []
    (tmp_path / "root").mkdir()
    lower = ":".join(str(layer) for layer in reversed(image.layers))
    script = (
        f"mount -t overlay overlay -o lowerdir={lower} root\n"
        "cd root; find . -mindepth 1 ! -type c -printf '%P\\n' 2>&1 | sort"
    )
    found = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert [line for line in found.splitlines() if not line.startswith("find: ")] == shown
