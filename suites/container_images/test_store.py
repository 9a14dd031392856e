"""The store of container images when its processes are killed, or the disk is full."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import variation
from local.images.oci.packing import Layer, directory, entry, hard_link, left_in, stored, symlink
from traincrew.local.images.oci.layers import read_records
from traincrew.local.images.oci.store import ContainerImages

if TYPE_CHECKING:
    from collections.abc import Iterator

MOMENTS = 30
NAME = "docker.io/me/train:7"
SMALL = Layer(directory("etc/"), entry("etc/motd", b"small"))
MIB = 1 << 20


def some_layers() -> list[Layer]:
    """Return layers with files of all sizes, sealed directories, links and whiteouts."""
    chance = random.Random(variation.NUMBER)
    layers = []
    for number in range(3):
        entries = [directory(f"d{n}/", 0o555 if n % 3 else 0o755) for n in range(40)]
        for n in range(300):
            place = f"d{n % 40}/file{n}"
            entries.append(entry(place, chance.randbytes(chance.choice([0, 10, 5_000, 60_000]))))
        entries += [
            hard_link("hard", "d1/file1"),
            symlink("link", "d1"),
            entry(f"d2/.wh.x{number}"),
        ]
        layers.append(Layer(*entries))
    return layers


def work(place: str, layers: list[Layer]) -> None:
    stored(ContainerImages(Path(place)), *layers, names=(NAME,))
    images = ContainerImages(Path(place))
    image = images.find(NAME)
    assert image is not None
    images.remove(image)
    stored(images, *layers, names=(NAME,))
    os._exit(0)


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Nothing half is left: what has its name is whole, and the next start removes the rest."""
    layers = some_layers()
    context = multiprocessing.get_context("fork")
    before = time.monotonic()
    whole = context.Process(target=work, args=(str(tmp_path / "whole"), layers))
    whole.start()
    whole.join(120)
    assert whole.exitcode == 0
    seconds = time.monotonic() - before
    chance = random.Random(variation.NUMBER)
    killed = 0
    place = tmp_path / "store"
    deadline = before + 400
    while killed < MOMENTS:
        assert time.monotonic() < deadline
        process = context.Process(target=work, args=(str(place), layers))
        began = time.monotonic()
        process.start()
        process.join(chance.uniform(0.02, seconds))
        if process.exitcode is None:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        else:
            assert process.exitcode == 0
            # The first took longer, to make all directories.
            seconds = time.monotonic() - began
        process.join(60)
        check_nothing_is_half(ContainerImages(place))
    images = ContainerImages(place)
    image = stored(images, *layers, names=(NAME,))
    assert images.verify(image) == []
    assert images.prune() == []
    assert len(list(place.glob("layers/*/*"))) == len(layers)
    assert left_in(images) == []


def check_nothing_is_half(images: ContainerImages) -> None:
    with images.temporary():
        pass  # the first change removes what nobody works on
    # Bytes of a blob may stay for the next pull.
    assert all(".blob" in name for name in left_in(images))
    for image in images.images():
        assert images.verify(image) == []
    for layer in images.directory.glob("layers/*/*"):
        with (layer / "records").open("rb") as file:
            assert len(list(read_records(file))) > 300
        assert (layer / "layer.json").is_file()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 MiB, of which images leave 256 MiB free."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(place: Path, mebibytes: int) -> None:
    with contextlib.suppress(OSError), (place / "filler").open("ab") as file:
        for _ in range(mebibytes):
            file.write(os.urandom(MIB))
            file.flush()


def test_a_disk_without_room_is_reported_and_nothing_is_lost(small_disk: Path) -> None:
    images = ContainerImages(small_disk / "store")
    small = stored(images, SMALL, names=(NAME,))
    fill(small_disk, 100)
    large = Layer(entry("large", os.urandom(30 * MIB)))
    with pytest.raises(
        OSError, match=r"a layer needs more than \d+ MiB, and 256 MiB must"
    ) as caught:
        stored(images, large)
    assert caught.value.errno == errno.ENOSPC
    assert images.find(NAME) == small
    assert images.verify(small) == []
    assert left_in(images) == [images.partial(large.descriptor.digest).name]
    (small_disk / "filler").unlink()
    stored(images, large)


def test_a_disk_that_fills_up_meanwhile(small_disk: Path) -> None:
    images = ContainerImages(small_disk / "store")
    small = stored(images, SMALL, names=(NAME,))
    large = Layer(*[entry(f"f{number}", os.urandom(MIB)) for number in range(40)])
    blob = images.partial(large.descriptor.digest)
    blob.write_bytes(large.blob)

    def others_write(_: int) -> None:
        fill(small_disk, 400)

    with pytest.raises(OSError, match="No space left on device") as caught:
        images.add_layer(blob, large.descriptor, large.diff_id, others_write)
    assert caught.value.errno == errno.ENOSPC
    assert str(images.directory) in str(caught.value)
    assert left_in(images) == [blob.name]
    assert images.find(NAME) == small
    # Also on a full disk images can be removed.
    images.remove(small)
    (small_disk / "filler").unlink()
    images.add_layer(blob, large.descriptor, large.diff_id, lambda _: None)
    assert images.has_layer(large.diff_id)
