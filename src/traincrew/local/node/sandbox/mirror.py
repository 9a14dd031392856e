"""The machine's files in a container's root, writable by copy on write where possible."""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import os
import stat
from contextlib import suppress

from . import kernelpaths, syscalls

OLD_ROOT = "/.old"
"""Path of the machine's root between `pivot_root` and the end of the setup."""

_FRESH = ("dev", "proc", "run", "sys", "tmp")
_CONSOLES = ("tty", "vcs", "console")
_MAX_NESTED = 64


class Mirror:
    """The machine's directories, mounted below another root.

    Args:
        root: Path of the new root; empty once it is this process's root.
        layers: Directory for the upper layers of overlays; created by `fill`.
        overlay: Whether the kernel supports overlays.
        user_namespace: Whether the mounts are made by the root of a user namespace.
        masked: Whether `/proc` and `/sys` are protected: see `kernelpaths`.
        privileged: Whether `/sys` is writable, and `/dev` has every device.
        gpus: Names of NVIDIA's devices that `/dev` has; None for all of them.

    Attributes:
        own_proc: Whether `/proc` shows the container's processes, and not the machine's.
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
        self.overlay = overlay
        self.user_namespace = user_namespace
        self.masked = masked
        self.privileged = privileged
        self.gpus = None if privileged else gpus
        self.mirrored: list[str] = []
        """Mount points of the mirror, as seen in the container."""
        self.writable = [("root", "/")]
        """Directories below the tmpfs, each with its path in the container."""
        self.own_proc = True
        # Devices may be anywhere on the machine: in the root file system of a container, say.
        self._devices_flag = 0 if privileged else syscalls.MS_NODEV
        self._mount_points = syscalls.mount_points()
        self.overlays = 0
        self._serial = 0

    def fill(self) -> None:
        """Mount everything that does not come from the pod."""
        os.mkdir(self.layers, 0o755)
        for entry in os.scandir("/"):
            if entry.name not in _FRESH:
                self._entry(entry)
        for name, mode in (("tmp", 0o1777), ("run", 0o755), ("run/lock", 0o1777)):
            os.mkdir(f"{self.root}/{name}")
            os.chmod(f"{self.root}/{name}", mode)
        for name in ("dev", "proc", "sys"):
            os.mkdir(f"{self.root}/{name}", 0o755)
        self._devices()
        with suppress(OSError):
            syscalls.bind("/sys", f"{self.root}/sys", read_only=not self.privileged)
        try:
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
            syscalls.mount("proc", f"{self.root}/proc", "proc", flags)
        except OSError:
            # A machine whose own /proc is partly covered (a container) allows no new one.
            syscalls.bind("/proc", f"{self.root}/proc")
            self.own_proc = False
        if self.masked and not self.privileged:
            kernelpaths.protect(self.root, user_namespace=self.user_namespace)

    def _devices(self) -> None:
        """Bind the machine's devices in a directory of the container's own.

        Disks and consoles are omitted, as in any container. Where the container's root is the
        machine's, who may open everything, only those remain that runtimes and device plugins add.
        """
        for entry in os.scandir("/dev"):
            target = self.root + entry.path
            with suppress(OSError):
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
                elif self._omits(entry.name):
                    continue
                elif entry.is_dir():
                    os.mkdir(target)
                    syscalls.bind(entry.path, target)
                elif entry.name == "tty" or not (
                    entry.name.startswith(_CONSOLES) or stat.S_ISBLK(entry.stat().st_mode)
                ):
                    os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
                    syscalls.bind(entry.path, target)

    def _omits(self, name: str) -> bool:
        """Return whether the container does not get an entry of `/dev`."""
        if self.gpus is not None and name.startswith("nvidia") and name not in self.gpus:
            return True
        everything = self.user_namespace or self.privileged
        return not everything and not kernelpaths.is_usual_device(name)

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

    def _file(self, source: str, target: str) -> None:
        with suppress(OSError):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
            self._bind(source, target)

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

    def _bind(self, source: str, target: str) -> None:
        syscalls.bind(source, target, read_only=True, devices=self.privileged)

    def _nested(self, source: str) -> list[str]:
        """Return the outermost mount points below a directory."""
        found: list[str] = []
        for point in self._mount_points:
            if point.startswith(source + "/") and not any(
                point.startswith(outer + "/") for outer in found
            ):
                found.append(point)
        return found

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
        data = f"lowerdir={_escaped(source)},upperdir={_escaped(upper)},workdir={_escaped(work)}"
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

    def make_writable(self, directory: str) -> None:
        """Make it possible to create entries in a read-only directory of the container.

        Only for the container's final tree (after `pivot_root`). An overlay keeps the content;
        where it is refused, an empty directory is mounted, with every entry bound into it.
        """
        if self.overlay and self.mount_overlay(OLD_ROOT + directory, directory):
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


def _escaped(path: str) -> str:
    for special in ("\\", ":", ","):
        path = path.replace(special, "\\" + special)
    return path
