"""Hostile images: each is refused with its reason, or harmless; nothing else changes."""

# ruff: noqa: E501 - each case of the tables is one line

import bz2
import gzip
import lzma
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from local.images.oci.conftest import NOBODY
from local.images.oci.packing import (
    BLOCKS,
    CHARACTERS,
    DIRECTORY,
    END,
    FIFO,
    FILE,
    HARD,
    Layer,
    config_of,
    directory,
    entry,
    hard_link,
    header,
    in_use,
    left_in,
    listing,
    octal,
    padded,
    pax,
    stored,
    symlink,
    unpacked,
)
from local.images.oci.test_layers import zstandard
from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.layers import Limits
from traincrew.local.images.oci.model import Descriptor, StoredImage
from traincrew.local.images.oci.removal import ImageInUseError
from traincrew.local.images.oci.store import ContainerImages

OUTSIDE = "/tmp/traincrew-hostile-outside"
"""What absolute names and links aim at; it does not exist, and must not be made."""
TO_OUTSIDE = "../" * 20 + OUTSIDE[1:]


def attribute(name: str, value: bytes, wanted: bytes) -> bytes:
    return pax({f"SCHILY.xattr.{name}": value}) + wanted


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


GOOD = entry("good", os.urandom(5000))
PLAIN = Layer(GOOD).archive
HUGE = (1 << 40).to_bytes(11, "big")

REFUSED: dict[str, tuple[Layer, str]] = {
    "a name that leaves the root": (Layer(entry("../x", b"x")), "../x: a name that leaves the image's root"),
    "a name that leaves it later": (Layer(entry("a/../../x", b"x")), "a name that leaves the image's root"),
    "a long name that leaves it": (Layer(entry(TO_OUTSIDE + "/" * 90, b"x")), "a name that leaves the image's root"),
    "a PAX name that leaves it": (Layer(pax({"path": TO_OUTSIDE.encode()}) + entry("x", b"x")), "a name that leaves the image's root"),
    "a hard link that leaves it": (Layer(hard_link("x", TO_OUTSIDE)), "a name that leaves the image's root"),
    "an absolute hard link": (Layer(hard_link("x", "/etc/passwd")), "x: a hard link to /etc/passwd, which is not in the same layer"),
    "a hard link through a symbolic one": (Layer(symlink("s", "/etc"), hard_link("x", "s/passwd")), "which is not in the same layer"),
    "a hard link to nothing": (Layer(hard_link("x", "y")), "x: a hard link to y, which is not"),
    "a hard link to the root": (Layer(hard_link("x", "./")), "which is not in the same layer"),
    "a hard link to a directory": (Layer(directory("d/"), hard_link("x", "d")), "x: a hard link to a directory"),
    "a hard link to a whiteout": (Layer(entry(".wh.d"), hard_link("x", "d")), "which is not in the same layer"),
    "a hard link to what it replaces": (Layer(entry("d/x", b""), hard_link("d", "d/x")), "a hard link to what it replaces"),
    "a file as directory": (Layer(entry("f", b""), entry("f/x", b"x")), "f/x: below f, which is no directory"),
    "a FIFO as directory": (Layer(entry("f", b"", FIFO), entry("f/x", b"x")), "below f, which is no directory"),
    "links in a circle": (Layer(symlink("a", "b"), symlink("b", "a"), entry("a/x", b"x")), "symbolic links that lead in a circle"),
    "a link to itself": (Layer(symlink("a", "a/a"), entry("a/x", b"x")), "symbolic links that lead in a circle"),
    "a link to a name that no file has": (Layer(symlink("a", "n" * 300), entry("a/x", b"x")), "a name of 300 bytes"),
    "a link to nothing": (Layer(entry("a", b"", b"2")), "a: a symbolic link to a name of 0 bytes"),
    "a link of 5,000 bytes": (Layer(pax({"linkpath": b"a/" * 2500}) + symlink("s", "x")), "a symbolic link to a name of 5000 bytes"),
    "a whiteout of the parent": (Layer(entry(".wh...", b"")), ".wh...: a whiteout that names no file"),
    "a whiteout of itself": (Layer(entry("d/.wh..", b"")), "a whiteout that names no file"),
    "a whiteout of nothing": (Layer(entry("d/.wh.", b"")), "a whiteout that names no file"),
    "an entry below a whiteout": (Layer(entry(".wh.d/x", b"")), ".wh.d/x: an entry below a whiteout"),
    "a link below a whiteout": (Layer(symlink("s", ".wh.d"), entry("s/x", b"")), "an entry below a whiteout"),
    "a name of 300 bytes": (Layer(entry("n" * 300, b"")), "a name of 300 bytes; files have at most 255"),
    "a name of 5,000 bytes": (Layer(entry("n/" * 2500, b"")), 'a name or attributes of 5001 bytes (type "L"); at most 4096'),
    "a PAX name of 5,000 bytes": (Layer(pax({"path": b"nn/" * 1700}) + entry("x", b"")), "directories; at most 4095 and 256 are accepted"),
    "300 directories in each other": (Layer(entry("d/" * 300 + "x", b"")), "at most 4095 and 256 are accepted"),
    "deeper by links": (Layer(directory("d/" * 200), symlink("s", "d/" * 199 + "d"), entry("s/" + "e/" * 200 + "x", b"")), "at most 4095 and 256 are accepted"),
    "a name with NUL": (Layer(pax({"path": b"good\0/../../x"}) + entry("x", b"")), "a name has a NUL byte"),
    "an entry of an unknown type": (Layer(entry("socket", b"", b"s")), 'socket: a tar entry of type "s", which layers do not have'),
    "an archive of several volumes": (Layer(entry("x", b"", b"M")), 'a tar entry of type "M"'),
    "an owner that does not exist": (Layer(entry("x", b"", fields={108: b"\x80\0\0\0\xff\xff\xff\xff"})), "x: an owner 4294967295:0"),
    "a negative owner": (Layer(entry("x", b"", fields={108: b"\xff" * 8})), "x: a number in its tar header is out of range"),
    "a negative size": (Layer(entry("x", b"", fields={124: b"\xff" * 12})), "x: a number in its tar header is out of range"),
    "a size that is no number": (Layer(entry("x", b"", fields={124: b"12x4\0"})), "x: a number in its tar header is wrong"),
    "a PAX size that is no number": (Layer(pax({"size": b"-1"}) + entry("x", b"")), "x: a number of its attributes is wrong"),
    "a size beyond the end": (Layer(entry("x", b"", fields={124: octal(1 << 30, 12)})), "a layer is cut: its tar archive ends in the middle of a file"),
    "a terabyte": (Layer(header(b"x", fields={124: b"\x80" + HUGE})), "a layer unpacks to more than 64 GiB"),
    "a sparse terabyte": (Layer(pax({"GNU.sparse.major": b"1", "GNU.sparse.minor": b"0", "GNU.sparse.realsize": b"%d" % (1 << 40)}) + entry("x", padded(b"0\n"))), "a layer unpacks to more than 64 GiB"),
    "an old sparse terabyte": (Layer(header(b"x", b"S", fields={483: b"\x80" + HUGE, 257: b"ustar  \0"})), "a layer unpacks to more than 64 GiB"),
    "a map of holes that lies": (Layer(pax({"GNU.sparse.map": b"0,10,5,10", "GNU.sparse.size": b"20"}) + entry("x", b"y" * 20)), "x: its map of holes is wrong"),
    "a map of holes beyond the end": (Layer(pax({"GNU.sparse.map": b"100,20", "GNU.sparse.size": b"50"}) + entry("x", b"y" * 20)), "x: its map of holes is wrong"),
    "a map of holes without end": (Layer(pax({"GNU.sparse.major": b"1", "GNU.sparse.realsize": b"9"}) + entry("x", b"1" * 2000)), "x: its map of holes is damaged"),
    "a map of a million holes": (Layer(pax({"GNU.sparse.major": b"1", "GNU.sparse.realsize": b"9"}) + entry("x", padded(b"1000000\n"))), "a sparse file has more than 100000 parts"),
    "attributes of 2 MiB": (Layer(pax({"comment": bytes(2 << 20)}) + GOOD), 'a name or attributes of 2097169 bytes (type "x")'),
    "attributes that are damaged": (Layer(header(b"p", b"x", 20), padded(b"999 path=../../../x\n"), GOOD), "PAX records that are damaged"),
    "attributes of nothing": (Layer(pax({"path": b"x"})), "a long name in it has no entry"),
    "no tar archive": (Layer(b"<html>" * 1000, end=b""), "a layer is no tar archive: the checksum of a header is wrong"),
    "a tar archive that is cut": (Layer(cut(PLAIN), end=b""), "a layer is cut: its tar archive ends in the middle of a file"),
    "a header that is cut": (Layer(PLAIN[:300], end=b""), "a layer is cut: its tar archive ends in the middle"),
    "gzip that is cut": (Layer(GOOD, blob=cut(gzip.compress(PLAIN))), "a layer is cut: its gzip data end in the middle"),
    "zstd that is cut": (Layer(GOOD, blob=cut(zstandard(PLAIN))), "a layer is cut: its zstd data end in the middle"),
    "gzip that is damaged": (Layer(GOOD, blob=flipped(gzip.compress(PLAIN))), "a layer"),
    "zstd that is damaged": (Layer(GOOD, blob=flipped(zstandard(PLAIN))), "a layer"),
    "gzip with something behind": (Layer(GOOD, blob=gzip.compress(PLAIN) + b"#!/bin/sh\n"), "a layer is damaged: gzip"),
    "a zstd window of 1 GiB": (Layer(GOOD, blob=b"\x28\xb5\x2f\xfd\x00\xa0" + bytes(100)), "a layer is damaged: zstd"),
    "xz": (Layer(GOOD, blob=lzma.compress(PLAIN)), "a layer is compressed by xz; it must be gzip or zstd"),
    "bzip2": (Layer(GOOD, blob=bz2.compress(PLAIN)), "a layer is compressed by bzip2"),
}  # fmt: skip


def around(place: Path) -> dict[str, tuple[float, int]]:
    """Return what is beside the store, with times and sizes."""
    return {
        str(path): (path.lstat().st_mtime, path.lstat().st_size)
        for path in place.rglob("*")
        if "container-images" not in path.parts
    }


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "directory").mkdir()
    return tmp_path


@pytest.mark.parametrize(("layer", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(images: ContainerImages, beside: Path, layer: Layer, message: str) -> None:
    before = around(beside)
    with pytest.raises(ImageContentError) as caught:
        stored(images, layer)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    check_nothing_happened(images, beside, before)


def check_nothing_happened(
    images: ContainerImages, beside: Path, before: dict[str, tuple[float, int]]
) -> None:
    assert around(beside) == before
    assert not os.path.lexists(OUTSIDE)
    assert left_in(images) == []
    assert images.images() == []
    assert not list(images.directory.glob("layers/*/*"))
    assert stored(images, Layer(GOOD)).size == 5000


def files(image: StoredImage) -> dict[str, str]:
    return listing(image.layers[0])


def is_left_out(*texts: str) -> Callable[[StoredImage], bool]:
    return lambda image: all(any(text in one for one in image.left_out) for text in texts)


HARMLESS: dict[str, tuple[Layer, Callable[[StoredImage], bool]]] = {
    "absolute names": (Layer(entry(OUTSIDE + "/x", b"x")), lambda image: files(image)[OUTSIDE[1:] + "/x"] == "x"),
    "an absolute link": (Layer(symlink("s", OUTSIDE), entry("s/x", b"x")), lambda image: files(image)[OUTSIDE[1:] + "/x"] == "x"),
    "a link that leaves the root": (Layer(symlink("s", TO_OUTSIDE), entry("s/x", b"x")), lambda image: files(image)[OUTSIDE[1:] + "/x"] == "x"),
    "a chain of links": (Layer(symlink("a", ".."), symlink("b", "a/.."), symlink("c", "b/../.."), entry("c/x", b"x")), lambda image: files(image)["x"] == "x"),
    "a file through a link to a file": (Layer(symlink("passwd", OUTSIDE), entry("passwd", b"x")), lambda image: files(image)["passwd"] == "x"),
    "a directory in place of a link": (Layer(symlink("s", OUTSIDE), directory("s/"), entry("s/x", b"x")), lambda image: files(image)["s/x"] == "x"),
    "a link in place of a directory": (Layer(directory("d/"), entry("d/y", b"y"), symlink("d", OUTSIDE), entry("d/x", b"x")), lambda image: files(image)[OUTSIDE[1:] + "/x"] == "x"),
    "a hard link to a link, written through": (Layer(symlink("s", OUTSIDE), hard_link("h", "s"), entry("h", b"x")), lambda image: files(image) == {"s": f"-> {OUTSIDE}", "h": "x"}),
    "a device whose name moves the cursor": (Layer(entry("a\x1b[2J\nb", b"", BLOCKS)), is_left_out(r"such as a\x1b[2J\nb")),
    "a device of the machine's disk": (Layer(entry("disk", b"", BLOCKS, mode=0o666, fields={329: octal(254, 8)})), is_left_out("devices: of 1 entry, such as disk")),
    "a device that looks like a whiteout": (Layer(entry("etc", b"", CHARACTERS)), lambda image: files(image) == {}),
    "a FIFO that nobody writes": (Layer(entry("f", b"", FIFO)), lambda image: files(image) == {"f": "FIFO"}),
    "attributes of overlayfs": (Layer(attribute("user.overlay.redirect", b"/etc", directory("d/")), attribute("trusted.overlay.opaque", b"y", directory("e/"))), lambda image: files(image) == {"d": "directory", "e": "directory"}),
    "an attribute that no file system holds": (Layer(attribute("user.large", bytes(70_000), entry("x", b"x"))), is_left_out("extended attributes user.large")),
    "an attribute with an odd name": (Layer(attribute("user.\x1b[2J", b"x", entry("x", b"x"))), lambda _: True),
    "invalid UTF-8": (Layer(entry(b"\xff\xfe", b"x")), lambda image: [os.fsencode(one.name) for one in image.layers[0].iterdir()] == [b"\xff\xfe"]),
    "a terminal's escapes in a name": (Layer(entry(b"\x1b[2J\r\n", b"x")), lambda image: "\x1b[2J\r\n" in files(image)),
    "case twins": (Layer(entry("File", b"1"), entry("file", b"2"), entry("FILE", b"3")), lambda image: files(image) == {"File": "1", "file": "2", "FILE": "3"}),
    "the same name again and again": (Layer(*[entry("x", b"%d" % number) for number in range(50)]), lambda image: files(image) == {"x": "49"}),
    "a whiteout of what is not there": (Layer(entry(".wh.nothing")), lambda image: files(image) == {"nothing": "whiteout"}),
    "a root that nobody may read": (Layer(entry("./", b"", DIRECTORY, mode=0), entry("x", b"x")), lambda image: stat.S_IMODE(image.layers[0].stat().st_mode) == 0),
    "times of other ages": (Layer(entry("x", b"", fields={136: b"\x80" + HUGE}), entry("y", b"", fields={136: b"\xff" * 3 + bytes(9)}), pax({"mtime": b"9" * 18 + b".5"}) + entry("z", b"")), lambda image: set(files(image)) == {"x", "y", "z"}),
    "a hidden second archive": (Layer(GOOD, end=END + Layer(entry("hidden", b"x")).archive), lambda image: set(files(image)) == {"good"}),
    "a size in a hard link": (Layer(GOOD, entry("h", b"", HARD, link="good", size=600), entry("y", b"y")), lambda image: set(files(image)) == {"good", "h", "y"}),
    "a PAX size beside another": (Layer(pax({"size": b"3"}) + header(b"x", FILE, 0) + padded(b"abc"), entry("y", b"y")), lambda image: files(image)["x"] == "abc"),
    "a sparse size without a map": (Layer(pax({"GNU.sparse.size": b"9" * 12}) + entry("x", b"abc")), lambda image: files(image)["x"] == "abc"),
    "thousands of empty gzip members": (Layer(GOOD, blob=gzip.compress(b"") * 5000 + gzip.compress(PLAIN)), lambda image: set(files(image)) == {"good"}),
}  # fmt: skip


@pytest.mark.parametrize(("layer", "is_harmless"), HARMLESS.values(), ids=HARMLESS)
def test_harmless(
    images: ContainerImages,
    beside: Path,
    layer: Layer,
    is_harmless: Callable[[StoredImage], bool],
) -> None:
    before = around(beside)
    image = stored(images, layer)
    assert is_harmless(image)
    assert all(text.isprintable() for text in image.left_out)
    assert images.verify(image) == []
    images.remove(image)
    check_nothing_happened(images, beside, before)


def test_the_same_for_a_user_without_rights(as_nobody: Path) -> None:
    images = ContainerImages(as_nobody / "container-images")
    before = around(as_nobody)
    for name, (layer, message) in REFUSED.items():
        if name == "an owner that does not exist":
            continue  # owners are not read
        with pytest.raises(ImageContentError) as caught:
            stored(images, layer)
        assert message in str(caught.value), name
    for name, (layer, is_harmless) in HARMLESS.items():
        image = stored(images, layer)
        assert is_harmless(image) or name == "a root that nobody may read"
        assert images.verify(image) == [], name
        assert all(path.lstat().st_uid == NOBODY for path in image.layers[0].glob("*"))
        images.remove(image)
    check_nothing_happened(images, as_nobody, before)


def test_set_user_id_programs_are_not_programs_of_others(as_nobody: Path) -> None:
    image = stored(
        ContainerImages(as_nobody / "container-images"), Layer(entry("su", b"", mode=0o6777))
    )
    assert stat.S_IMODE((image.layers[0] / "su").stat().st_mode) == 0o777
    assert is_left_out(
        "set-user-ID and set-group-ID bits, without subordinate IDs: of 1 entry, such as su"
    )(image)
    store = as_nobody / "container-images"
    assert stat.S_IMODE(store.stat().st_mode) == 0o700


def deflated_zeros(size: int) -> bytes:
    """Return gzip of so many zeros, quickly: members of 1 MiB."""
    assert size % (1 << 20) == 0
    return gzip.compress(bytes(1 << 20), 9) * (size >> 20)


def test_bombs_are_refused_by_ratio_and_by_size(tmp_path: Path) -> None:
    start = header(b"zeros", FILE, 0, fields={124: octal(30 << 20, 12)})
    for number, (limits, message) in enumerate(
        [
            (Limits(ratio_from=8 << 20), "unpacks to more than 250 times its size"),
            (Limits(size=20 << 20), "unpacks to more than 20 MiB, the most that is accepted"),
        ]
    ):
        blob = gzip.compress(start) + deflated_zeros(30 << 20)
        with pytest.raises(ImageContentError, match=message):
            unpacked(tmp_path / str(number), Layer(blob=blob), limits=limits)
    zstd = zstandard(start + bytes(30 << 20))
    with pytest.raises(ImageContentError, match="unpacks to more than 250 times its size"):
        unpacked(tmp_path / "zstd", Layer(blob=zstd), limits=Limits(ratio_from=8 << 20))
    with pytest.raises(OSError, match="No space left on device: a layer needs more than 1 MiB"):
        unpacked(tmp_path / "full", Layer(blob=zstd), limits=Limits(free=1 << 20))


def test_the_holes_of_all_files_count_into_the_size(tmp_path: Path) -> None:
    fields = {483: octal(15 << 20, 12), 257: b"ustar  \0"}
    layer = Layer(*[header(b"x%d" % number, b"S", fields=fields) for number in range(2)])
    with pytest.raises(ImageContentError, match="unpacks to more than 20 MiB"):
        unpacked(tmp_path / "tree", layer, limits=Limits(size=20 << 20))
    # They take no room on the disk.
    unpacked(tmp_path / "sparse", layer, limits=Limits(free=1 << 20))


def test_zeros_after_the_end_count_into_the_size(tmp_path: Path) -> None:
    blob = gzip.compress(END) + deflated_zeros(30 << 20)
    with pytest.raises(ImageContentError, match="unpacks to more than 20 MiB"):
        unpacked(tmp_path / "tree", Layer(blob=blob), limits=Limits(size=20 << 20))


def test_entries_and_directories_are_counted(tmp_path: Path) -> None:
    many = Layer(*[entry(f"f{number}", b"") for number in range(101)])
    with pytest.raises(ImageContentError, match="a layer has more than 100 entries"):
        unpacked(tmp_path / "many", many, limits=Limits(entries=100))
    deep = Layer(*[entry(f"d{number}/x/y/z", b"") for number in range(50)])
    with pytest.raises(ImageContentError, match="a layer has more than 100 directories"):
        unpacked(tmp_path / "deep", deep, limits=Limits(directories=100))


def test_digests_that_lie(images: ContainerImages, beside: Path) -> None:
    before = around(beside)
    layer, other = Layer(GOOD), Layer(entry("other", b"x" * 5000))
    described = layer.descriptor
    wrong = Descriptor(described.media_type, other.descriptor.digest, described.size)
    longer = Descriptor(described.media_type, described.digest, described.size + 1)
    for descriptor, diff_id, message in (
        (wrong, layer.diff_id, f"has the digest {described.digest}, and the manifest says"),
        (longer, layer.diff_id, f"has {described.size} bytes, and the manifest says"),
        (described, other.diff_id, f"unpacks to {layer.diff_id}, and the configuration says"),
    ):
        blob = images.partial(descriptor.digest)
        blob.write_bytes(layer.blob)
        with pytest.raises(ImageContentError) as caught:
            images.add_layer(blob, descriptor, diff_id, lambda _: None)
        assert message in str(caught.value)
    check_nothing_happened(images, beside, before)


def test_a_damaged_blob_is_called_damaged(images: ContainerImages) -> None:
    """Not by what is wrong with its content, which the image's author would be asked about."""
    layer = Layer(GOOD)
    blob = images.partial(layer.descriptor.digest)
    blob.write_bytes(flipped(layer.blob))
    with pytest.raises(ImageContentError, match=r"a layer has the digest .* the manifest says"):
        images.add_layer(blob, layer.descriptor, layer.diff_id, lambda _: None)


def test_300_layers(images: ContainerImages) -> None:
    with pytest.raises(ImageContentError, match="it has 300 layers; at most 256"):
        images.add_image([], b"", config_of(*[Layer(GOOD)] * 300), "")
    assert images.images() == []


def test_an_image_whose_settings_do_not_fit(images: ContainerImages) -> None:
    """Whether a program is there is asked when it is started: the image is harmless."""
    settings = {"Entrypoint": ["/missing"], "WorkingDir": "/../../../etc", "User": "nobody:x"}
    image = stored(images, Layer(GOOD), config=settings)
    assert image.config.entrypoint == ("/missing",)
    assert image.config.working_directory == "/etc"


def test_a_user_cannot_remove_what_runs(images: ContainerImages) -> None:
    image = stored(images, Layer(GOOD))
    with in_use(images, image), pytest.raises(ImageInUseError):
        images.remove(image)


def test_records_cannot_name_files_elsewhere(images: ContainerImages, beside: Path) -> None:
    """Whoever can write the store is this user; but nothing is opened by what it says."""
    image = stored(images, Layer(GOOD))
    record = b"\x98\x01\xc4\x0c../../secret" + b"\0" * 6
    records = image.layers[0].parent / "records"
    records.write_bytes(struct.pack("<I", len(record)) + record)
    assert [one.change for one in images.verify(image)] in (["changed"], ["added", "missing"])
