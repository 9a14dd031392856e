"""A container's root while it is built: what all roots have in common."""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from . import kernelpaths, syscalls

if TYPE_CHECKING:
    from collections.abc import Sequence

_CONSOLES = ("tty", "vcs", "console")
_OWN_DEVICES = ("ptmx", "pts", "shm")
"""Entries of `/dev` that each container has of its own."""


class Tree:
    """The root of a container: overlays with upper layers on one tmpfs, and kernel file systems.

    Args:
        root: Path of the new root; empty once it is this process's root.
        layers: Directory for the upper layers of overlays; created by `fill`.
        overlay: Whether the kernel supports overlays.
        user_namespace: Whether the mounts are made by the root of a user namespace.
        masked: Whether `/proc` and `/sys` are protected: see `kernelpaths`.
        privileged: Whether `/sys` is writable, and `/dev` has every device.
        gpus: Names of NVIDIA's devices that `/dev` has; None for all of them.

    Attributes:
        machine: Path of the machine's root, once the container's is this process's root.
        mirrored: mount points of the tree, as seen in the container.
        writable: directories below the tmpfs, each with its path in the container.
        own_proc: Whether `/proc` shows the container's processes, and not the machine's.
        overlays: how many there are.
    """

    def __init__(
        self,
        root: str,
        layers: str,
        *,
        overlay: bool,
        user_namespace: bool,
        masked: bool = True,
        privileged: bool = False,
        gpus: list[str] | None = None,
    ) -> None:
        self.root = root
        self.layers = layers
        self.machine = ""
        self.overlay = overlay
        self.user_namespace = user_namespace
        self.masked = masked
        self.privileged = privileged
        self.gpus = None if privileged else gpus
        self.mirrored: list[str] = []
        self.writable: list[tuple[str, str]] = []
        self.own_proc = True
        # Devices may be anywhere on the machine: in the root file system of a container, say.
        self._devices_flag = 0 if privileged else syscalls.MS_NODEV
        self.overlays = 0
        self._serial = 0

    def fill(self) -> None:
        """Mount what the container has below its root, while the machine's is this process's."""
        raise NotImplementedError

    def enter(self) -> None:
        """Make it this process's root, with the kernel's file systems, and keep the machine's."""
        # What an image's links point to must not be there, so nobody can know the name before.
        self.machine = f"/.machine-{os.urandom(8).hex()}"
        os.mkdir(self.root + self.machine)
        syscalls.pivot_root(self.root, self.root + self.machine)
        os.chdir("/")
        self.root = ""
        self.layers = self.machine + self.layers
        self._kernel_file_systems()

    def leave(self) -> None:
        """Detach the machine's root: the overlays keep their layers, whose paths are gone."""
        syscalls.unmount(self.machine)
        with suppress(OSError):
            os.rmdir(self.machine)

    def _kernel_file_systems(self) -> None:
        """Mount `/dev`, `/proc` and `/sys`, whose directories are there."""
        self._devices()
        with suppress(OSError):
            syscalls.bind(f"{self.machine}/sys", "/sys", read_only=not self.privileged)
        try:
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
            syscalls.mount("proc", "/proc", "proc", flags)
        except OSError:
            # A machine whose own /proc is partly covered (a container) allows no new one.
            syscalls.bind(f"{self.machine}/proc", "/proc")
            self.own_proc = False
        if self.masked and not self.privileged:
            kernelpaths.protect("", user_namespace=self.user_namespace)

    def _devices(self) -> None:
        """Bind the machine's devices in a directory of the container's own.

        Disks and consoles are omitted, as in any container. Where the container's root is the
        machine's, who may open everything, only those remain that runtimes and device plugins add.
        """
        for entry in os.scandir(f"{self.machine}/dev"):
            if not self._omits(entry):
                with suppress(OSError):
                    self._device(entry, f"/dev/{entry.name}")

    def _device(self, entry: os.DirEntry[str], target: str) -> None:
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.name == "shm":
            os.mkdir(target)
            os.chmod(target, 0o1777)
        elif entry.name == "ptmx":
            os.symlink("pts/ptmx", target)
        elif entry.name == "pts":
            os.mkdir(target)
            syscalls.mount("devpts", target, "devpts", 0, "newinstance,ptmxmode=0666")
        elif entry.is_dir():
            os.mkdir(target)
            syscalls.bind(entry.path, target)
        elif entry.name == "tty" or not (
            entry.name.startswith(_CONSOLES) or stat.S_ISBLK(entry.stat().st_mode)
        ):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            syscalls.bind(entry.path, target)

    def _omits(self, entry: os.DirEntry[str]) -> bool:
        """Return whether the container does not get an entry of `/dev`."""
        name = entry.name
        if entry.is_symlink() or name in _OWN_DEVICES:
            return False
        if self.gpus is not None and name.startswith("nvidia") and name not in self.gpus:
            return True
        return not self._has_all_devices and not kernelpaths.is_usual_device(name)

    @property
    def _has_all_devices(self) -> bool:
        """Whether it has every device that the user who runs the cluster may open."""
        return self.user_namespace or self.privileged

    def _file(self, source: str, target: str) -> None:
        with suppress(OSError):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            self._bind(source, target)

    def _bind(self, source: str, target: str) -> None:
        syscalls.bind(source, target, read_only=True, devices=self.privileged)

    def mount_layers(
        self, layers: Sequence[str], place: str, target: str, *, flags: int = 0
    ) -> None:
        """Mount the layers of an image as one directory, writable by copy on write.

        Args:
            layers: Directories in the format of overlayfs, lowest first.
            place: A directory for the upper layer.
            target: Where to.
            flags: Of the mount, beside those of every overlay.
        """
        os.mkdir(f"{place}/lower")
        lower = list(layers)
        if not lower:
            lower.append(f"{place}/empty")
            os.mkdir(lower[0], 0o755)
        # The kernel takes 4,096 bytes of options: short names, for hundreds of layers.
        for number, layer in enumerate(lower):
            os.symlink(layer, f"{place}/lower/{number}")
        os.chdir(f"{place}/lower")
        for name in ("upper", "work"):
            os.mkdir(f"../{name}")
        # The root of an overlay has the owner and mode of its upper directory.
        shown = os.stat(lower[-1])
        if not self.user_namespace:
            os.chown("../upper", shown.st_uid, shown.st_gid)
        os.chmod("../upper", stat.S_IMODE(shown.st_mode))
        numbers = ":".join(str(number) for number in reversed(range(len(lower))))
        data = f"lowerdir={numbers},upperdir=../upper,workdir=../work"
        if self.user_namespace:
            data += ",userxattr"
        syscalls.mount("overlay", target, "overlay", self._devices_flag | flags, data)
        os.chdir("/")

    def mount_image(self, layers: Sequence[str], below: str, target: str) -> None:
        """Mount an image, or a part of it, so that nothing of it can be written or executed.

        Only for the container's final tree (after `pivot_root`).

        Args:
            layers: Its layers on the machine, lowest first.
            below: The part: a path without links, relative to the image's root; empty for all.
            target: Where to.
        """
        self._serial += 1
        place = f"{self.layers}/{self._serial}"
        os.mkdir(place, 0o755)
        whole = f"{place}/whole"
        os.mkdir(whole)
        lower = [self.machine + layer for layer in layers]
        self.mount_layers(lower, place, whole, flags=syscalls.MS_NOEXEC)
        syscalls.bind(os.path.join(whole, below), target, read_only=True)

    def mount_overlay(self, source: str, target: str) -> bool:
        """Mount an overlay of `source` on `target`; return False if the kernel refuses it."""
        self._serial += 1
        layer = f"{self.layers}/{self._serial}"
        os.mkdir(layer, 0o755)
        upper, work = f"{layer}/upper", f"{layer}/work"
        os.mkdir(upper)
        os.mkdir(work)
        # The root of an overlay has the owner and mode of its upper directory.
        shown = os.stat(source)
        if not self.user_namespace:
            os.chown(upper, shown.st_uid, shown.st_gid)
        os.chmod(upper, stat.S_IMODE(shown.st_mode))
        data = f"lowerdir={escaped(source)},upperdir={escaped(upper)},workdir={escaped(work)}"
        if self.user_namespace:
            data += ",userxattr"
        try:
            syscalls.mount("overlay", target, "overlay", self._devices_flag, data)
        except OSError:
            return False
        self.mirrored.append(target[len(self.root) :])
        self.writable.append((f"layers/{self._serial}/upper", target[len(self.root) :]))
        self.overlays += 1
        return True

    def _source(self, directory: str) -> str:
        """Return where the content of a directory of the container is."""
        return self.machine + directory

    def make_writable(self, directory: str) -> None:
        """Make it possible to create entries in a read-only directory of the container.

        Only for the container's final tree (after `pivot_root`). An overlay keeps the content;
        where it is refused, an empty directory is mounted, with every entry bound into it.
        """
        if self.overlay and self.mount_overlay(self._source(directory), directory):
            return
        self._serial += 1
        aside, upper = f"{self.layers}/aside-{self._serial}", f"{self.layers}/{self._serial}"
        os.mkdir(aside)
        os.mkdir(upper, 0o755)
        syscalls.bind(directory, aside)
        syscalls.bind(upper, directory, recursive=False)
        self.mirrored.append(directory)
        self.writable.append((f"layers/{self._serial}", directory))
        entries: list[os.DirEntry[str]] = []
        with suppress(PermissionError):
            entries = list(os.scandir(aside))
        for entry in entries:
            target = f"{directory}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), target)
            elif entry.is_dir(follow_symlinks=False):
                os.mkdir(target)
                syscalls.bind(entry.path, target)
            else:
                self._file(entry.path, target)
        syscalls.unmount(aside)


def escaped(path: str) -> str:
    """Return a path as it stands in the options of an overlay."""
    for special in ("\\", ":", ","):
        path = path.replace(special, "\\" + special)
    return path
