"""The machine's files in a container's root, writable by copy on write where possible."""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from . import syscalls
from .tree import Tree

_FRESH = ("dev", "proc", "run", "sys", "tmp")
_MAX_NESTED = 64


class Mirror(Tree):
    """The machine's directories, mounted below another root. Arguments: see `Tree`."""

    def __init__(self, root: str, layers: str, **settings: Any) -> None:
        super().__init__(root, layers, **settings)
        self.writable = [("root", "/")]
        self._mount_points = syscalls.mount_points()

    def fill(self) -> None:
        """Mount the machine's directories."""
        os.mkdir(self.layers, 0o755)
        for entry in os.scandir("/"):
            if entry.name not in _FRESH:
                self._entry(entry)
        for name, mode in (("tmp", 0o1777), ("run", 0o755), ("run/lock", 0o1777)):
            os.mkdir(f"{self.root}/{name}")
            os.chmod(f"{self.root}/{name}", mode)
        for name in ("dev", "proc", "sys"):
            os.mkdir(f"{self.root}/{name}", 0o755)

    def _entry(self, entry: os.DirEntry[str]) -> None:
        """Mirror one directory entry at the same path."""
        target = self.root + entry.path
        if entry.is_symlink():
            with suppress(FileNotFoundError):
                os.symlink(os.readlink(entry.path), target)
        elif entry.is_dir(follow_symlinks=False):
            os.mkdir(target, 0o755)
            self._directory(entry.path, target)
        else:
            self._file(entry.path, target)

    def _directory(self, source: str, target: str) -> None:
        """Mount `source` on the existing directory `target`, writable by copy on write.

        It may belong to others (a kubelet's volume, say) and vanish meanwhile: `target` is then
        empty.
        """
        with suppress(FileNotFoundError):
            self._mirror(source, target)

    def _mirror(self, source: str, target: str) -> None:
        nested = self._nested(source)
        if self.overlay and len(nested) <= _MAX_NESTED and self.mount_overlay(source, target):
            for point in nested:
                above = target + point[len(source) :]
                if os.path.isdir(point):
                    self._directory(point, above)
                else:
                    with suppress(OSError):
                        self._bind(point, above)
        elif self.overlay and 0 < len(nested) <= _MAX_NESTED:
            # In a user namespace, an overlay must not uncover mounts, so the kernel refuses it.
            with suppress(PermissionError):
                for entry in os.scandir(source):
                    self._entry(entry)
        else:
            with suppress(OSError):
                self._bind(source, target)
                self.mirrored.append(source)

    def _nested(self, source: str) -> list[str]:
        """Return the outermost mount points below a directory."""
        found: list[str] = []
        for point in self._mount_points:
            if point.startswith(source + "/") and not any(
                point.startswith(outer + "/") for outer in found
            ):
                found.append(point)
        return found
