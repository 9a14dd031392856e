"""The mounts of a pod in a container: volumes, files of the image, files of the node."""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import errno
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import syscalls

if TYPE_CHECKING:
    from .tree import Tree

# Kinds of mounts that are entries of a directory, rather than mounted.
_ENTRIES = ("file", "symlink", "copy")
_CHUNK = 262144


class PodMounts:
    """The mounts of a pod. Each is a dictionary with `kind` and `target`.

    - `bind`: `source` (a path of the machine), `read_only`
    - `overlay`: `source`; a directory, writable by copy on write
    - `image`: `layers` of an image, read-only; `source`: a part of it, which may be a file
      (`is_file`)
    - `tmpfs`: `size` in bytes, or 0
    - `symlink`: `to`
    - `file`: `content`
    - `copy`: `source`; a file that can be written and moved without affecting the source
    - `directory`: nothing is mounted, the directory is only created
    - `volume`: a directory of the image that can be written although the root is read-only
    - `hidden`: a directory becomes empty, a file like `/dev/null`
    """

    def __init__(self, tree: Tree, mounts: list[dict[str, Any]]) -> None:
        self.tree = tree
        # Outer paths first, so that a mount inside a volume is not covered by it.
        self.mounts = sorted(mounts, key=lambda mount: mount["target"].count("/"))
        # Another mount may belong to others, so no copy may be created in it.
        self.mounts = [
            {**mount, "kind": "bind", "read_only": True}
            if mount["kind"] == "copy" and self._inside_another(mount)
            else mount
            for mount in self.mounts
        ]

    def make_targets(self) -> None:
        """Create the mount points that are not inside another mount."""
        own = [mount for mount in self.mounts if not self._inside_another(mount)]
        blocked = set()
        for mount in own:
            if mount["kind"] == "hidden":
                continue
            if mount["kind"] in _ENTRIES:
                # The entry itself is replaced, whatever it points to.
                needed = _deepest_existing(os.path.realpath(os.path.dirname(mount["target"])))
            elif os.path.exists(path := os.path.realpath(mount["target"])):
                continue
            else:
                needed = _deepest_existing(os.path.dirname(path))
            if not os.access(needed, os.W_OK):
                blocked.add(needed)
        for directory in sorted(blocked, key=lambda path: path.count("/")):
            if not os.access(directory, os.W_OK):
                self.tree.make_writable(directory)
        for mount in own:
            if mount["kind"] != "hidden":
                self._make_target(mount)

    def _inside_another(self, mount: dict[str, Any]) -> bool:
        return any(
            mount["target"].startswith(other["target"].rstrip("/") + "/")
            for other in self.mounts
            if other["kind"] in {"bind", "image", "overlay", "tmpfs", "hidden"}
        )

    def _make_target(self, mount: dict[str, Any]) -> str:
        """Create a mount's target; return its path without symbolic links."""
        target: str = mount["target"]
        kind = mount["kind"]
        if kind in _ENTRIES:
            # Links of an image may name directories that are not there yet.
            directory = os.path.realpath(os.path.dirname(target))
            os.makedirs(directory, exist_ok=True)
            target = os.path.join(directory, os.path.basename(target))
            _remove(target)
            if kind == "symlink":
                os.symlink(mount["to"], target)
            elif kind == "copy":
                _copy(self.tree.machine + mount["source"], target)
            else:
                with open(target, "w", encoding="utf-8") as file:
                    file.write(mount["content"])
            return target
        path = os.path.realpath(target)
        if os.path.exists(path):
            return path
        if mount.get("is_file") or (
            kind == "bind" and not os.path.isdir(self.tree.machine + mount["source"])
        ):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        else:
            os.makedirs(path, exist_ok=True)
        return path

    def mount_all(self) -> None:
        """Mount everything, outermost first."""
        for mount in self.mounts:
            kind = mount["kind"]
            if kind == "hidden":
                _hide(mount["target"])
                continue
            if kind in _ENTRIES or kind == "directory":
                if self._inside_another(mount):
                    self._make_target(mount)
                continue
            target = self._make_target(mount)
            source = self.tree.machine + mount.get("source", "")
            if kind == "volume":
                # An overlay of what is there; on a kernel that refuses it, it stays read-only.
                self.tree.mount_overlay(target, target)
            elif kind == "image":
                self.tree.mount_image(mount["layers"], mount.get("source", ""), target)
            elif kind == "tmpfs":
                size = f",size={mount['size']}" if mount.get("size") else ""
                syscalls.mount("traincrew", target, "tmpfs", 0, f"mode=1777{size}")
            elif kind == "overlay":
                if not (self.tree.overlay and self.tree.mount_overlay(source, target)):
                    syscalls.bind(source, target, read_only=True)
            else:
                syscalls.bind(source, target, read_only=mount.get("read_only", False))


def _hide(path: str) -> None:
    """Mount something empty on a path, also if there is nothing yet."""
    if not os.path.lexists(path):
        with suppress(OSError):  # nothing can be created there
            os.makedirs(path, 0o755)
    if os.path.isdir(path):
        # Enough for mount points of what a container needs from there, and for nothing else.
        syscalls.mount("traincrew", path, "tmpfs", 0, "mode=755,size=1m")
    elif os.path.exists(path):
        syscalls.bind("/dev/null", path, read_only=True)


def _copy(source: str, target: str) -> None:
    """Copy a file with its mode and, where permitted, its owner."""
    with open(source, "rb") as original, open(target, "wb") as file:
        found = os.fstat(original.fileno())
        while data := original.read(_CHUNK):
            file.write(data)
        with suppress(OSError):
            os.fchown(file.fileno(), found.st_uid, found.st_gid)
        os.fchmod(file.fileno(), found.st_mode & 0o777)


def _remove(path: str) -> None:
    """Remove a file, and unmount it before if it is a mount point."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        syscalls.unmount(path)
        os.unlink(path)


def _deepest_existing(path: str) -> str:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path
