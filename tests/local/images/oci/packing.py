"""A writer of tar archives and images that writes what it is given, also what no builder does."""

import contextlib
import fcntl
import gzip
import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from traincrew.local.images.oci.layers import Limits, Owners, Unpacked, read_records, unpack
from traincrew.local.images.oci.layers.records import Record
from traincrew.local.images.oci.model import Descriptor, StoredImage
from traincrew.local.images.oci.store import ContainerImages

BLOCK = 512
END = bytes(2 * BLOCK)
FILE, HARD, SYMLINK, CHARACTERS, BLOCKS, DIRECTORY, FIFO = (str(n).encode() for n in range(7))


def octal(number: int, width: int) -> bytes:
    return b"%0*o\0" % (width - 1, number)


def header(
    name: bytes,
    kind: bytes = FILE,
    size: int = 0,
    *,
    mode: int = 0o644,
    uid: int = 0,
    gid: int = 0,
    mtime: int = 1_700_000_000,
    link: bytes = b"",
    magic: bytes = b"ustar\x0000",
    prefix: bytes = b"",
    fields: dict[int, bytes] | None = None,
) -> bytes:
    """Return one block; `fields` are bytes at offsets, whatever belongs there."""
    block = bytearray(BLOCK)
    for offset, value in (
        (0, name), (100, octal(mode, 8)), (108, octal(uid, 8)), (116, octal(gid, 8)),
        (124, octal(size, 12)), (136, octal(mtime, 12)), (148, b" " * 8), (156, kind),
        (157, link), (257, magic), (345, prefix), *(fields or {}).items(),
    ):  # fmt: skip
        block[offset : offset + len(value)] = value
    assert len(block) == BLOCK
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK)


def entry(name: str | bytes, content: bytes = b"", kind: bytes = FILE, **options: Any) -> bytes:
    """Return the header and the content of an entry; long names in GNU's format."""
    name = os.fsencode(name)
    link = os.fsencode(options.pop("link", b""))
    start = b""
    if len(name) > 100:
        start += header(b"././@LongLink", b"L", len(name) + 1) + padded(name + b"\0")
    if len(link) > 100:
        start += header(b"././@LongLink", b"K", len(link) + 1) + padded(link + b"\0")
    size = options.pop("size", len(content))
    return start + header(name[:100], kind, size, link=link[:100], **options) + padded(content)


def directory(name: str, mode: int = 0o755, **options: Any) -> bytes:
    return entry(name, b"", DIRECTORY, mode=mode, **options)


def symlink(name: str, target: str | bytes) -> bytes:
    return entry(name, b"", SYMLINK, link=target, mode=0o777)


def hard_link(name: str, target: str) -> bytes:
    return entry(name, b"", HARD, link=target)


def pax(records: dict[str, bytes], kind: bytes = b"x") -> bytes:
    """Return the entry with the records of the next one."""
    data = b""
    for key, value in records.items():
        rest = b" " + key.encode() + b"=" + value + b"\n"
        length = len(rest)
        while length != len(rest) + len(str(length)):
            length = len(rest) + len(str(length))
        data += str(length).encode() + rest
    return header(b"PaxHeaders/x", kind, len(data)) + padded(data)


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Layer:
    """A layer: its archive, and the blob that a registry has of it."""

    def __init__(self, *entries: bytes, blob: bytes | None = None, end: bytes = END) -> None:
        self.archive = b"".join(entries) + end
        self.blob = gzip.compress(self.archive, 1, mtime=0) if blob is None else blob
        self.diff_id = digest(self.archive)

    @property
    def descriptor(self) -> Descriptor:
        kind = "application/vnd.oci.image.layer.v1.tar+gzip"
        return Descriptor(kind, digest(self.blob), len(self.blob))


def config_of(*layers: Layer, **fields: Any) -> bytes:
    document = {
        "os": "linux",
        "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
        "config": {"Cmd": ["true"]},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
    }
    return json.dumps({**document, **fields}).encode()


def manifest_of(config: bytes, *layers: Layer) -> bytes:
    def descriptor(kind: str, data: bytes) -> dict[str, Any]:
        return {"mediaType": kind, "digest": digest(data), "size": len(data)}

    image = "application/vnd.oci.image."
    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": image + "manifest.v1+json",
            "config": descriptor(image + "config.v1+json", config),
            "layers": [descriptor(each.descriptor.media_type, each.blob) for each in layers],
        }
    ).encode()


def unpacked(
    place: Path,
    layer: Layer,
    *,
    owners: Owners = "single",
    descriptor: Descriptor | None = None,
    diff_id: str = "",
    limits: Limits | None = None,
) -> Unpacked:
    """Unpack a layer into the new directory `place`; its records are in `place`.records."""
    place.mkdir()
    blob = place.with_name(place.name + ".blob")
    blob.write_bytes(layer.blob)
    root = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with blob.open("rb") as file, records_of(place).open("wb") as records:
            return unpack(
                file,
                descriptor or layer.descriptor,
                diff_id or layer.diff_id,
                root,
                records,
                owners=owners,
                progress=lambda _: None,
                limits=limits,
            )
    finally:
        os.close(root)


def records_of(place: Path) -> Path:
    return place.with_name(place.name + ".records")


def records(place: Path) -> list[Record]:
    with records_of(place).open("rb") as file:
        return list(read_records(file))


def listing(place: Path) -> dict[str, str]:
    """Return what is below a directory: by path, its type and what is special about it."""
    found = {}
    for path in sorted(place.rglob("*")):
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            what = f"-> {path.readlink()}"
        elif stat.S_ISDIR(status.st_mode):
            what = "directory"
            if "user.overlay.opaque" in os.listxattr(path):
                what = "opaque directory"
        elif stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            what = "whiteout"
        elif stat.S_ISFIFO(status.st_mode):
            what = "FIFO"
        elif stat.S_ISREG(status.st_mode):
            what = path.read_bytes()[:40].decode(errors="replace")
        else:
            what = "other"
        found[str(path.relative_to(place))] = what
    return found


def stored(
    images: ContainerImages, *layers: Layer, names: tuple[str, ...] = (), **fields: Any
) -> StoredImage:
    """Store an image as a pull does."""
    config = config_of(*layers, **fields)
    manifest = manifest_of(config, *layers)
    for layer in layers:
        with images.lock(layer.descriptor.digest):
            if not images.has_layer(layer.diff_id):
                blob = images.partial(layer.descriptor.digest)
                blob.write_bytes(layer.blob)
                images.add_layer(blob, layer.descriptor, layer.diff_id, lambda _: None)
    return images.add_image(names, manifest, config, digest(manifest))


def left_in(images: ContainerImages) -> list[str]:
    """Return what is below the directory that is empty when nobody works."""
    partial = images.directory / "partial"
    return [path.name for path in partial.glob("*") if path.suffix != ".pins"]


@contextlib.contextmanager
def in_use(images: ContainerImages, image: StoredImage) -> Iterator[None]:
    """Hold the lock of an image, as the shim of a container does."""
    descriptor = os.open(images.place(image), os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
