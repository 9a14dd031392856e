"""A compressed layer -> the bytes of its tar archive, hashed on the way.

A thread reads, hashes and decompresses; the caller writes files meanwhile. Both hashes and all
decompressors leave the interpreter to others while they work.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

from traincrew.local.images.errors import ImageContentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traincrew.local.images.oci.layers.limits import Limits

__all__ = ["Decompression", "decompressed"]

_READ = 64 * 1024
"""Bytes that are decompressed at once. Of gzip members, the rest is copied for each."""
_PIECE = 1024 * 1024
_WAITING = 8
"""Pieces that are decompressed before the caller wants them: 8 MiB."""
_END_SECONDS = 2.0
_WINDOW_LOG = 27
"""Of zstd: 128 MiB of memory, the most that ``zstd`` itself accepts without being asked to."""

_LONGEST_MAGIC = 6
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_OTHERS = {
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip",
}


class _Decompressor(Protocol):
    eof: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def decompressed(file: BinaryIO, read: Callable[[bytes], None]) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, in pieces of up to 1 MiB.

    What it is compressed by is seen from its first bytes, as containerd does: media types lie.

    Args:
        file: gzip (of any number of members), zstd (of frames), or neither.
        read: is given the compressed bytes.

    Raises:
        ImageContentError: It is cut or damaged.
        OSError: It cannot be read.
    """
    first = _read(file, read)
    while len(first) < _LONGEST_MAGIC and (more := _read(file, read)):
        first += more  # pipes give what they have
    for magic, name in _OTHERS.items():
        if first.startswith(magic):
            raise ImageContentError(f"a layer is compressed by {name}; it must be gzip or zstd")
    if first.startswith(_GZIP):
        yield from _decompress(file, read, first, _gzip, "gzip")
    elif first.startswith(_ZSTD) or _is_skippable(first):
        yield from _decompress(file, read, first, _zstd, "zstd")
    else:
        while first:
            yield first
            first = file.read(_PIECE)
            read(first)


def _decompress(
    file: BinaryIO,
    read: Callable[[bytes], None],
    data: bytes,
    make: Callable[[], tuple[_Decompressor, type[Exception]]],
    name: str,
) -> Iterator[bytes]:
    decompressor, error = make()
    try:
        while data:
            while True:
                piece = decompressor.decompress(data, _PIECE)
                if piece:
                    yield piece
                data = _rest(decompressor)
                if decompressor.eof or (not data and len(piece) < _PIECE):
                    break
            if decompressor.eof:
                data = decompressor.unused_data
                if len(data) < 4:
                    data += _read(file, read)
                if name == "gzip":
                    data = _without_padding(data, file, read)
                if not data:
                    return
                decompressor, _ = make()
                continue
            data = _read(file, read)
    except error as problem:
        raise ImageContentError(f"a layer is damaged: {name}: {problem}") from None
    raise ImageContentError(f"a layer is cut: its {name} data end in the middle")


def _rest(decompressor: Any) -> bytes:
    """Return the input that was not used because the output was full."""
    # Those of zstd keep it themselves.
    rest: bytes = getattr(decompressor, "unconsumed_tail", b"")
    return rest


def _without_padding(data: bytes, file: BinaryIO, read: Callable[[bytes], None]) -> bytes:
    """Skip the zeros that may follow a member of gzip."""
    while data and not data.strip(b"\0"):
        data = _read(file, read)
    return data.lstrip(b"\0")


def _read(file: BinaryIO, read: Callable[[bytes], None]) -> bytes:
    data = file.read(_READ)
    read(data)
    return data


def _is_skippable(data: bytes) -> bool:
    return data[1:4] == b"\x2a\x4d\x18" and data[0] & 0xF0 == 0x50


def _gzip() -> tuple[_Decompressor, type[Exception]]:
    from isal import isal_zlib

    return isal_zlib.decompressobj(31), isal_zlib.error  # type: ignore[return-value]


def _zstd() -> tuple[_Decompressor, type[Exception]]:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from backports import zstd

    parameter = zstd.DecompressionParameter.window_log_max
    return zstd.ZstdDecompressor(options={parameter: _WINDOW_LOG}), zstd.ZstdError


class Decompression:
    """The bytes of a layer's archive, and what they turned out to be.

    Attributes:
        packed: bytes of the compressed layer that the archive read so far came from.
    """

    def __init__(self, file: BinaryIO, limits: Limits) -> None:
        self.packed = 0
        self._file = file
        self._limits = limits
        self._pieces: deque[tuple[bytes, int]] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._stopped = False
        self._error: BaseException | None = None
        self._packed_hash = hashlib.sha256()
        self._hash = hashlib.sha256()
        self._read = 0
        self._thread = threading.Thread(target=self._run, name="layer", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop reading."""
        with self._changed:
            self._stopped = True
            self._pieces.clear()
            self._changed.notify_all()
        # It may wait for a pipe that nobody writes to, for ever.
        self._thread.join(_END_SECONDS)

    def piece(self) -> bytes:
        """Return the next bytes of the archive, or none at its end.

        Raises:
            ImageContentError: The layer is cut, damaged, or too large.
            OSError: It cannot be read, or the disk has no room for it.
        """
        with self._changed:
            while not self._pieces and not self._ended:
                self._changed.wait()
            if self._pieces:
                piece, self.packed = self._pieces.popleft()
                self._changed.notify_all()
                return piece
            self.packed = self._read
        if self._error is not None:
            raise self._error
        return b""

    def digests(self) -> tuple[str, int, str]:
        """Return digest and size of the layer, and the digest of its archive, at their end."""
        return (
            "sha256:" + self._packed_hash.hexdigest(),
            self._read,
            "sha256:" + self._hash.hexdigest(),
        )

    def _run(self) -> None:
        try:
            with contextlib.closing(decompressed(self._file, self._count)) as pieces:  # type: ignore[type-var]
                self._collect(pieces)
        except BaseException as error:  # noqa: BLE001 - raised again where the pieces are read
            self._error = error
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _collect(self, pieces: Iterator[bytes]) -> None:
        size = 0
        for piece in pieces:
            size += len(piece)
            self._limits.check_size(size, self._read)
            self._hash.update(piece)
            with self._changed:
                while len(self._pieces) >= _WAITING and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    return
                self._pieces.append((piece, self._read))
                self._changed.notify_all()

    def _count(self, data: bytes) -> None:
        self._read += len(data)
        self._packed_hash.update(data)
