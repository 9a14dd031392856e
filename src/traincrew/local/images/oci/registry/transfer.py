"""Fetching one blob into a file, at whose end a pull that was cut off goes on."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from traincrew.engine.backoff import Backoff
from traincrew.local.images.errors import ImageContentError
from traincrew.local.images.oci.registry.authorization import refusal
from traincrew.local.images.oci.registry.client import retried
from traincrew.local.images.oci.registry.failures import RegistryError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from pathlib import Path
    from typing import BinaryIO

    from traincrew.local.images.oci.model import Descriptor
    from traincrew.local.images.oci.registry.client import Repository
    from traincrew.local.images.oci.registry.connection import Answer, Connection

__all__ = ["fetch"]

_WRITE_BYTES = 1 << 20
"""Bytes of one write; so many are lost when this process is killed."""
_ADVANCE = 1 << 20
"""Bytes that an attempt must bring, or else it counts as one that failed."""
_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(\d{1,18}|\*)")


async def fetch(
    connection: Connection,
    repository: Repository,
    descriptor: Descriptor,
    path: Path,
    *,
    report: Callable[[int], None],
    threads: Executor,
) -> None:
    """Fetch the bytes of a blob that a file does not have yet. Nothing checks their digest here.

    Args:
        connection: Its `Patience` says how often to try.
        repository: Where the blob is.
        descriptor: Of the blob.
        path: The file; what is in it counts as the beginning of the blob.
        report: Is given the number of bytes in the file, after every change.
        threads: Write.

    Raises:
        RegistryError: It cannot be had.
        ImageContentError: The registry has more or fewer bytes than the manifest says.
        OSError: The file cannot be written.
    """
    patience = connection.patience
    delays = Backoff(patience.base, patience.cap)
    with path.open("ab") as file:
        download = _Download(repository, descriptor, file, report, threads)

        async def attempt() -> None:
            before = download.size
            try:
                await download.go_on()
            except RegistryError:
                if download.size - before >= _ADVANCE:
                    delays.reset()
                raise

        await retried(attempt, connection, backoff=delays)


class _Download:
    def __init__(
        self,
        repository: Repository,
        descriptor: Descriptor,
        file: BinaryIO,
        report: Callable[[int], None],
        threads: Executor,
    ) -> None:
        self._repository = repository
        self._blob = descriptor
        self._file = file
        self._report = report
        self._threads = threads
        self.size = file.tell()

    async def go_on(self) -> None:
        if self.size > self._blob.size:
            self._restart()
        self._report(self.size)
        if self.size == self._blob.size:
            return
        async with self._repository.blob(self._blob, self.size) as answer:
            if answer.status == 416 and self.size:
                self._restart()
                raise RegistryError("unreachable", f"{answer.host} cannot go on with a blob")
            if answer.status == 206 and self.size:
                self._check_range(answer)
            elif answer.status == 200:
                self._restart()
            else:
                raise await refusal(answer, "the registry")
            self._check_length(answer)
            await self._write_all(answer)
        if self.size < self._blob.size:
            raise RegistryError(
                "unreachable",
                f"{answer.host} ended a blob after {self.size} of {self._blob.size} bytes",
            )

    async def _write_all(self, answer: Answer) -> None:
        loop = asyncio.get_running_loop()
        parts: list[bytes] = []
        pending = 0
        writing: asyncio.Future[int] | None = None
        try:
            async for chunk in answer.chunks():
                parts.append(chunk)
                pending += len(chunk)
                if self.size + pending > self._blob.size:
                    parts.clear()
                    raise self._wrong_size(answer, "more than")
                if pending >= _WRITE_BYTES:
                    if writing is not None:
                        await writing
                    # The next bytes arrive while these are written.
                    writing = loop.run_in_executor(self._threads, self._file.write, b"".join(parts))
                    self.size += pending
                    parts, pending = [], 0
                    self._report(self.size)
        except ImageContentError:
            if writing is not None:
                await asyncio.wait([writing])
            self._restart()
            raise
        finally:
            if writing is not None:
                await asyncio.wait([writing])
                writing.result()
            self._file.write(b"".join(parts))
            self._file.flush()
            self.size = self._file.tell()
            self._report(self.size)

    def _restart(self) -> None:
        self._file.truncate(0)
        self._file.seek(0)
        self.size = 0

    def _check_range(self, answer: Answer) -> None:
        match = _RANGE.fullmatch(answer.headers.get("content-range", "").strip())
        if match is None or int(match[1]) != self.size:
            self._restart()
            raise RegistryError("unreachable", f"{answer.host} sent another part of a blob")
        if match[2] != "*" and int(match[2]) != self._blob.size:
            raise self._wrong_size(answer, match[2])

    def _check_length(self, answer: Answer) -> None:
        length = answer.headers.get("content-length", "")
        if length.isdecimal() and int(length) != self._blob.size - self.size:
            raise self._wrong_size(answer, str(self.size + int(length)))

    def _wrong_size(self, answer: Answer, found: str) -> ImageContentError:
        expected = f"{self._blob.size} " if found == "more than" else ""
        said = "" if expected else f", and its manifest says {self._blob.size}"
        return ImageContentError(
            f"{answer.host} has {found} {expected}bytes of the blob {self._blob.digest}{said}"
        )
