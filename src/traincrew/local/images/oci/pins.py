"""Layers that a pull counts on before an image has them: `prune` leaves them alone.

A process that found that a layer is there, or has unpacked it, lists it in a file, whose lock it
holds until it ends. `prune` reads the files of those that live. While it does, nobody finds that
a layer is there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from typing import TYPE_CHECKING

from traincrew.local.filelocks import is_named, try_lock
from traincrew.local.images.oci.cleanup import PINS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["Pins", "pinned"]


class Pins:
    """The pins of this process; the caller holds the lock ``content``, shared."""

    def __init__(self, partial: Path) -> None:
        self._partial = partial
        self._ids: set[str] = set()
        self._file: int | None = None
        self._lock = threading.Lock()

    def __del__(self) -> None:
        """Give up the pins with the store that they are of."""
        if self._file is not None:
            os.close(self._file)

    def add(self, diff_id: str) -> None:
        """Pin a layer.

        Raises:
            OSError: The file cannot be written.
        """
        with self._lock:
            if diff_id not in self._ids:
                self._write(self._ids | {diff_id})
                self._ids.add(diff_id)

    def remove(self, diff_ids: Iterable[str]) -> None:
        """Give up pins: an image has the layers.

        Raises:
            OSError: The file cannot be written.
        """
        with self._lock:
            left = self._ids - set(diff_ids)
            if left != self._ids:
                self._write(left)
                self._ids = left

    def _write(self, ids: set[str]) -> None:
        while self._file is None:
            path = self._partial / f"{secrets.token_hex(8)}{PINS}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(path, flags, 0o600)
            # Another process may have taken it for one of a killed process, and removed it.
            if try_lock(descriptor) and is_named(path, descriptor):
                self._file = descriptor
            else:
                os.close(descriptor)
        content = "".join(f"{one}\n" for one in sorted(ids)).encode()
        os.pwrite(self._file, content, 0)
        os.ftruncate(self._file, len(content))


def pinned(partial: Path) -> set[str]:
    """Return the pins of all living processes; the caller holds the lock ``content``."""
    ids: set[str] = set()
    for path in partial.glob(f"*{PINS}"):
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            if not try_lock(file.fileno(), shared=True):
                ids.update(file.read().decode("ascii", "replace").split())
    return ids
