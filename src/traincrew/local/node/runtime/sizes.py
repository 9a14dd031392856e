"""How many bytes containers have written: into their root, their logs, and volumes."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from traincrew.local.node.runtime.instances import Instance

__all__ = ["log_bytes", "root_bytes", "root_files", "size_of"]

_MAX_ENTRIES = 200_000
"""Files of one volume that are counted."""
_BLOCK = 512


def root_bytes(instance: Instance) -> int:
    """Return the bytes that a running container wrote into its root file system.

    0 where that is unknown: without namespaces as well.
    """
    processes = instance.processes()
    if processes is None or processes[1] is None:
        return 0
    return max(root_files(instance, processes[1].pid), 0)


def root_files(instance: Instance, program: int) -> int:
    """Return the bytes that a container wrote into its root file system.

    0 where that is unknown: nothing there was limited at its start.

    Args:
        instance: Of the container.
        program: PID of its program.
    """
    root = instance.root_files()
    if root is None:
        return 0
    path = f"/proc/{program}/root/"
    try:
        if os.stat(path).st_dev != root.device:  # noqa: PTH116  # hot
            return 0  # it has changed its root directory; its end is checked by the shim
        found = os.statvfs(path)
    except OSError:
        return 0
    return (found.f_blocks - found.f_bfree) * found.f_frsize - root.used


def log_bytes(instance: Instance) -> int:
    """Return the bytes of the logs of a container, those of its earlier runs included."""
    total = 0
    for log in instance.directory.parent.glob("*/log*"):
        with contextlib.suppress(OSError):  # rotated, or removed with its run
            total += log.stat().st_size
    return total


def size_of(directory: Path, limit: int) -> int:
    """Return the bytes that the files in a directory occupy; somewhat more than `limit` suffices.

    What cannot be read does not count. Links are not followed, and hard links count once.
    """
    total, entries = 0, 0
    linked: set[int] = set()
    waiting = [os.fspath(directory)]
    while waiting and total <= limit:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    entries += 1
                    if entries > _MAX_ENTRIES:
                        return total
                    status = entry.stat(follow_symlinks=False)
                    if status.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
                        if status.st_ino in linked:
                            continue
                        linked.add(status.st_ino)
                    total += status.st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue
    return total
