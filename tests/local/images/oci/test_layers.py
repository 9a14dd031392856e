"""Layers of honest images become directories in the format of overlayfs."""

import gzip
import os
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from local.images.oci.packing import (
    CHARACTERS,
    DIRECTORY,
    END,
    FIFO,
    FILE,
    Layer,
    directory,
    entry,
    hard_link,
    header,
    listing,
    octal,
    padded,
    pax,
    records,
    symlink,
    unpacked,
)
from traincrew.local.images.oci.layers import Kind

CAPABILITY = bytes.fromhex("0100000200200000") + bytes(12)
"""cap_net_raw, permitted and effective, version 2."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def test_files_links_and_directories(tmp_path: Path) -> None:
    layer = Layer(
        directory("./", 0o755),
        directory("usr/", 0o555),
        entry("usr/program", b"#!/bin/sh\n", mode=0o755),
        hard_link("usr/other", "usr/program"),
        symlink("bin", "usr"),
        symlink("absolute", "/usr/program"),
        entry("/rooted", b"x"),
        entry("queue", b"", FIFO, mode=0o600),
    )
    found = unpacked(tmp_path / "tree", layer)
    assert listing(tmp_path / "tree") == {
        "absolute": "-> /usr/program",
        "bin": "-> usr",
        "queue": "FIFO",
        "rooted": "x",
        "usr": "directory",
        "usr/other": "#!/bin/sh\n",
        "usr/program": "#!/bin/sh\n",
    }
    assert (found.left_out, found.implied, found.is_opaque, found.size) == ((), (), False, 11)
    program = (tmp_path / "tree/usr/program").stat()
    assert program.st_mode & 0o7777 == 0o755
    assert program.st_nlink == 2
    assert program.st_mtime == 1_700_000_000
    usr = (tmp_path / "tree/usr").stat()
    assert (usr.st_mode & 0o7777, usr.st_mtime) == (0o555, 1_700_000_000)


def test_what_lower_layers_have_is_deleted_and_hidden(tmp_path: Path) -> None:
    layer = Layer(
        entry("etc/.wh.passwd"),
        entry("var/cache/.wh..wh..opq"),
        entry("var/cache/new", b"new"),
        # Deleted and made anew, in both orders.
        entry("opt/.wh.one"),
        directory("opt/one/"),
        directory("opt/two/"),
        entry("opt/.wh.two"),
        # A file hides the one below anyway.
        entry("opt/file", b"kept"),
        entry("opt/.wh.file"),
        entry("opt/.wh.three"),
        entry("opt/three/deep/file", b"3"),
        entry(".wh..wh.plnk"),
    )
    found = unpacked(tmp_path / "tree", layer)
    assert listing(tmp_path / "tree") == {
        "etc": "directory",
        "etc/passwd": "whiteout",
        "opt": "directory",
        "opt/file": "kept",
        "opt/one": "opaque directory",
        "opt/three": "opaque directory",
        "opt/three/deep": "directory",
        "opt/three/deep/file": "3",
        "opt/two": "opaque directory",
        "var": "directory",
        "var/cache": "opaque directory",
        "var/cache/new": "new",
    }
    assert found.implied == (
        b"var/cache", b"var", b"opt/three/deep", b"opt/three", b"opt", b"etc", b"",
    )  # fmt: skip
    assert not found.is_opaque


@as_root
def test_root_marks_what_is_hidden_for_both_kinds_of_mounts(tmp_path: Path) -> None:
    unpacked(tmp_path / "tree", Layer(entry("d/.wh..wh..opq")), owners="true")
    assert os.getxattr(tmp_path / "tree/d", "trusted.overlay.opaque") == b"y"
    assert os.getxattr(tmp_path / "tree/d", "user.overlay.opaque") == b"y"


def test_an_opaque_root_hides_all_layers_below(tmp_path: Path) -> None:
    assert unpacked(tmp_path / "tree", Layer(entry(".wh..wh..opq"))).is_opaque


def test_later_entries_replace_earlier_ones(tmp_path: Path) -> None:
    layer = Layer(
        entry("a", b"1"),
        hard_link("b", "a"),
        entry("a", b"2"),
        directory("d/"),
        entry("d/x", b"x"),
        entry("d", b"now a file"),
        entry("e", b"e"),
        directory("e/"),
        entry("e/y", b"y"),
        symlink("e/z", "y"),
        entry("e/z", b"z"),
        directory("e/", 0o700),
    )
    unpacked(tmp_path / "tree", layer)
    assert listing(tmp_path / "tree") == {
        "a": "2", "b": "1", "d": "now a file", "e": "directory", "e/y": "y", "e/z": "z",
    }  # fmt: skip
    assert (tmp_path / "tree/e").stat().st_mode & 0o7777 == 0o700
    last = {one.path: one.kind for one in records(tmp_path / "tree")}
    assert last == {
        b"": Kind.DIRECTORY, b"a": Kind.FILE, b"b": Kind.HARD_LINK, b"d": Kind.FILE,
        b"d/x": Kind.REMOVED, b"e": Kind.DIRECTORY, b"e/y": Kind.FILE, b"e/z": Kind.FILE,
    }  # fmt: skip


def test_links_of_the_layer_are_followed_within_it(tmp_path: Path) -> None:
    layer = Layer(
        directory("usr/"),
        directory("usr/lib/"),
        symlink("lib", "/usr/lib"),
        symlink("up", "../../../usr"),
        entry("lib/one", b"1"),
        entry("up/lib/two", b"2"),
        hard_link("three", "lib/one"),
        symlink("ahead", "not/there"),
        entry("ahead/four", b"4"),
    )
    unpacked(tmp_path / "tree", layer)
    found = listing(tmp_path / "tree")
    assert found["usr/lib/one"] == "1"
    assert found["usr/lib/two"] == "2"
    assert found["three"] == "1"
    assert found["not/there/four"] == "4"


@as_root
def test_owners_and_set_user_id_bits_are_those_of_the_image_for_root(tmp_path: Path) -> None:
    layer = Layer(
        entry("su", b"x", mode=0o4755),
        entry("mine", b"x", uid=1000, gid=1001),
        directory("home/", 0o2750, uid=1000, gid=1001),
        pax({"uid": b"3000000000", "gid": b"4000000000"}) + symlink("big", "x"),
        pax({"SCHILY.xattr.security.capability": CAPABILITY}) + entry("ping", b"x", mode=0o755),
    )
    found = unpacked(tmp_path / "tree", layer, owners="true")
    tree = tmp_path / "tree"
    assert found.left_out == ()
    assert (tree / "su").stat().st_mode & 0o7777 == 0o4755
    assert ((tree / "mine").stat().st_uid, (tree / "mine").stat().st_gid) == (1000, 1001)
    home = (tree / "home").stat()
    assert (home.st_uid, home.st_gid, home.st_mode & 0o7777) == (1000, 1001, 0o2750)
    assert ((tree / "big").lstat().st_uid, (tree / "big").lstat().st_gid) == (3 * 10**9, 4 * 10**9)
    assert "security.capability" in os.listxattr(tree / "ping")


def test_what_a_single_user_cannot_have_is_reported(tmp_path: Path) -> None:
    layer = Layer(
        entry("su", b"x", mode=0o4755),
        entry("wall", b"x", mode=0o2755),
        entry("mine", b"x", uid=1000, gid=1001),
        entry("dev/null", b"", CHARACTERS, mode=0o666),
        pax({"SCHILY.xattr.security.capability": b"x", "SCHILY.xattr.user.note": b"kept"})
        + entry("ping", b"x"),
    )
    found = unpacked(tmp_path / "tree", layer)
    assert found.left_out == (
        "devices: of 1 entry, such as dev/null",
        "extended attributes security.capability: of 1 entry, such as ping",
        "set-user-ID and set-group-ID bits, without subordinate IDs: of 2 entries, such as su",
    )
    tree = tmp_path / "tree"
    assert (tree / "su").stat().st_mode & 0o7777 == 0o755
    assert (tree / "mine").stat().st_uid == os.geteuid()
    assert os.getxattr(tree / "ping", "user.note") == b"kept"
    assert list((tree / "dev").iterdir()) == []


def test_names_of_all_formats(tmp_path: Path) -> None:
    long = "/".join(["d" * 60] * 5) + "/file"
    layer = Layer(
        entry(long, b"gnu"),
        header(b"posix", FILE, 1, prefix=b"a/b"),
        padded(b"p"),
        pax({"path": "ü/".encode() + b"n" * 200, "mtime": b"1234567890.123456789"}),
        entry("short", b"pax"),
        entry(b"latin-\xe9", b"bytes"),
        pax({"path": b"tab\tnew\nline\xff"}),
        entry("x", b"odd"),
        # GNU uses the field of the prefix for something else.
        header(b"gnu", FILE, 1, magic=b"ustar  \0", prefix=b"12345"),
        padded(b"g"),
        header(b"v7", b"\0", 1, magic=b"\0" * 8),
        padded(b"7"),
        header(b"old-directory/", b"\0", 0, magic=b"\0" * 8),
        pax({"comment": b"global"}, b"g"),
        symlink("far", "t/" * 400),
    )
    unpacked(tmp_path / "tree", layer)
    tree = tmp_path / "tree"
    assert (tree / long).read_bytes() == b"gnu"
    assert (tree / "a/b/posix").read_bytes() == b"p"
    assert (tree / "ü" / ("n" * 200)).read_bytes() == b"pax"
    assert (tree / "ü" / ("n" * 200)).stat().st_mtime_ns == 1234567890123456789
    assert (tree / "gnu").read_bytes() == b"g"
    assert (tree / "v7").read_bytes() == b"7"
    assert (tree / "old-directory").is_dir()
    assert str((tree / "far").readlink()) == ("t/" * 400)[:-1]
    names = {os.fsencode(path.name) for path in tree.iterdir()}
    assert {b"latin-\xe9", b"tab\tnew\nline\xff"} <= names


def test_numbers_that_octal_digits_do_not_hold(tmp_path: Path) -> None:
    binary = b"\x80" + (5_000_000_000).to_bytes(11, "big")
    before = b"\xff" + (-86400).to_bytes(11, "big", signed=True)
    layer = Layer(
        entry("future", b"x", fields={136: binary}),
        entry("past", b"x", fields={136: before}),
        entry("spaces", b"x", fields={124: b"         1 \0", 100: b" 644 \0 "}),
    )
    unpacked(tmp_path / "tree", layer)
    assert (tmp_path / "tree/future").stat().st_mtime == 5_000_000_000
    assert (tmp_path / "tree/past").stat().st_mtime == -86400
    assert (tmp_path / "tree/spaces").read_bytes() == b"x"


def sparse_layer(kind: str) -> Layer:
    """Return a layer with 3 MiB of which 1 KiB in the middle and the last byte are stored."""
    parts = [(1 << 20, 1024), ((3 << 20) - 1, 1)]
    content = b"m" * 1024 + b"e"
    size = str(3 << 20).encode()
    if kind == "gnu":
        fields = {
            386 + 24 * number: octal(start, 12) + octal(length, 12)
            for number, (start, length) in enumerate(parts)
        }
        fields[483] = octal(3 << 20, 12)
        first = header(b"s", b"S", len(content), magic=b"ustar  \0", fields=fields)
        return Layer(first, padded(content))
    numbers = [number for part in parts for number in part]
    if kind == "0.1":
        text = ",".join(map(str, numbers)).encode()
        named = {"GNU.sparse.map": text, "GNU.sparse.size": size, "GNU.sparse.name": b"s"}
        return Layer(pax(named), entry("GNUSparseFile.1/s", content))
    text = padded("".join(f"{number}\n" for number in [len(parts), *numbers]).encode())
    named = {
        "GNU.sparse.major": b"1", "GNU.sparse.minor": b"0", "GNU.sparse.name": b"s",
        "GNU.sparse.realsize": size,
    }  # fmt: skip
    return Layer(pax(named), entry("GNUSparseFile.1/s", text + content))


@pytest.mark.parametrize("kind", ["gnu", "0.1", "1.0"])
def test_sparse_files_keep_their_holes(tmp_path: Path, kind: str) -> None:
    found = unpacked(tmp_path / "tree", sparse_layer(kind))
    content = (tmp_path / "tree/s").read_bytes()
    assert len(content) == found.size == 3 << 20
    assert content.strip(b"\0") == b"m" * 1024 + bytes((2 << 20) - 1025) + b"e"
    assert (tmp_path / "tree/s").stat().st_blocks < 200


def test_the_archives_of_gnu_tar_and_python(tmp_path: Path) -> None:
    """The same as GNU tar unpacks, of a tree with all that it stores."""
    source = tmp_path / "source"
    (source / "deep" / ("x" * 120) / ("y" * 120)).mkdir(parents=True)
    (source / "deep" / ("x" * 120) / ("y" * 120) / "file").write_bytes(os.urandom(100_000))
    (source / "link").symlink_to("deep/" + "z" * 150)
    os.link(source / "deep" / ("x" * 120) / ("y" * 120) / "file", source / "hard")
    with (source / "sparse").open("wb") as file:
        for at in range(0, 40 << 16, 1 << 16):
            file.seek(at)
            file.write(b"data")
    short = ["--exclude=deep", "--exclude=link", "--exclude=hard"]
    for name, options in {"gnu": ["--sparse"], "pax": ["--sparse"], "ustar": short}.items():
        archive = subprocess.run(
            ["tar", f"--format={name}", *options, "-C", source, "-cf", "-", "."],
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        unpacked(tmp_path / name, Layer(archive, end=b""))
        extra = short if name == "ustar" else []
        compare = ["diff", "-r", "--no-dereference", *extra, str(source), str(tmp_path / name)]
        subprocess.run(compare, check=True)
        made, given = (tmp_path / name / "sparse").stat(), (source / "sparse").stat()
        assert int(made.st_mtime) == int(given.st_mtime)
    for python in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        buffer = BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=python) as written:
            written.add(source, ".")
        unpacked(tmp_path / f"python{python}", Layer(buffer.getvalue(), end=b""))
        subprocess.run(
            ["diff", "-r", "--no-dereference", source, tmp_path / f"python{python}"], check=True
        )


def zstandard(data: bytes) -> bytes:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from backports import zstd
    compressed: bytes = zstd.compress(data)
    return compressed


def test_compressions(tmp_path: Path) -> None:
    plain = Layer(entry("a", os.urandom(300_000)), entry("b", b"x" * 5_000_000)).archive
    half = len(plain) // 2
    blobs = {
        "gzip": gzip.compress(plain),
        "members": gzip.compress(plain[:half]) + gzip.compress(b"") + gzip.compress(plain[half:]),
        "padded": gzip.compress(plain) + bytes(70_000),
        "zstd": zstandard(plain),
        "frames": zstandard(plain[:half])
        + b"\x50\x2a\x4d\x18\x04\0\0\0skip"
        + zstandard(plain[half:]),
        "plain": plain,
    }
    for name, blob in blobs.items():
        unpacked(tmp_path / name, Layer(plain, end=b"", blob=blob))
        assert (tmp_path / name / "b").read_bytes() == b"x" * 5_000_000, name


def test_an_empty_layer_and_one_without_an_end(tmp_path: Path) -> None:
    unpacked(tmp_path / "empty", Layer())
    unpacked(tmp_path / "nothing", Layer(end=b""))
    unpacked(tmp_path / "endless", Layer(entry("a", b"1"), end=b""))
    unpacked(tmp_path / "padded", Layer(entry("a", b"1"), end=END * 20))
    assert listing(tmp_path / "endless") == listing(tmp_path / "padded") == {"a": "1"}


def test_directories_of_any_mode_are_filled(tmp_path: Path) -> None:
    layer = Layer(
        entry("sealed", b"", DIRECTORY, mode=0),
        entry("sealed/below", b"", DIRECTORY, mode=0o111),
        entry("sealed/below/file", b"x", mode=0),
    )
    unpacked(tmp_path / "tree", layer)
    assert (tmp_path / "tree/sealed").stat().st_mode & 0o7777 == 0
    (tmp_path / "tree/sealed").chmod(0o700)
    assert (tmp_path / "tree/sealed/below").stat().st_mode & 0o7777 == 0o111
