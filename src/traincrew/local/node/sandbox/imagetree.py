"""The files of a container image as a container's root."""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import syscalls
from .tree import Tree

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINKS = {
    "fd": "/proc/self/fd",
    "ptmx": "pts/ptmx",
    "stderr": "/proc/self/fd/2",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
}
"""Links in `/dev`, as runtimes make them (OCI runtime specification, "Default Filesystems")."""


class ImageTree(Tree):
    """The layers of an image as one directory, writable by copy on write.

    Nothing of the machine is in it. Its names and links are a stranger's, so nothing but the
    overlay is mounted before it is this process's root, where no link leads out of it.

    Args:
        root: See `Tree`.
        layers: See `Tree`.
        image: Directories of the image's layers in the format of overlayfs, lowest first.
        settings: See `Tree`.
    """

    def __init__(self, root: str, layers: str, *, image: Sequence[str], **settings: Any) -> None:
        super().__init__(root, layers, **settings)
        self._image = image

    def fill(self) -> None:
        """Mount the overlay on the root."""
        os.mkdir(self.layers, 0o755)
        self.mount_layers(self._image, self.layers, self.root)
        self.writable = [("layers/upper", "/")]
        self.overlays += 1

    def _kernel_file_systems(self) -> None:
        for name in ("dev", "proc", "sys"):
            _make_directory(f"/{name}")
        syscalls.mount("traincrew", "/dev", "tmpfs", syscalls.MS_NOSUID, "mode=755,size=65536k")
        super()._kernel_file_systems()

    def _devices(self) -> None:
        super()._devices()
        for name, to in _LINKS.items():
            os.symlink(to, f"/dev/{name}")
        for name in ("mqueue", "shm"):
            os.makedirs(f"/dev/{name}", exist_ok=True)
        flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
        with suppress(OSError):  # a kernel without message queues
            syscalls.mount("mqueue", "/dev/mqueue", "mqueue", flags)

    def _omits(self, entry: os.DirEntry[str]) -> bool:
        return entry.is_symlink() or entry.name in _LINKS or super()._omits(entry)

    def _source(self, directory: str) -> str:
        return directory

    @property
    def _has_all_devices(self) -> bool:
        return self.privileged


def _make_directory(path: str) -> None:
    """Make a directory of it, whatever the image has there."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            return
        os.unlink(path)
    os.mkdir(path, 0o755)
