"""The root file system of a container: the machine's own files, privately writable, plus mounts.

Every top-level directory of the machine appears through an overlay whose upper layer is a tmpfs of
this mount namespace: the program may write wherever it has the permission, and what it wrote is
gone with it, as in a container made from an image. `/tmp`, `/run` and `/proc` are fresh, `/sys` is
read-only, `/dev` has the machine's devices. Volumes are bound in at their exact paths, created
where they are missing.

`build` runs in the first process of the container's namespaces, as root there.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Any

from . import syscalls

_FRESH = ("dev", "proc", "run", "sys", "tmp")
_CONSOLES = ("tty", "vcs", "console")
_OLD = "/.old"
_MAXIMUM_NESTED = 64
# Kinds of mounts that are entries of a directory, rather than mounted.
_ENTRIES = ("file", "symlink", "copy")
_CHUNK = 262144


def build(specification: dict[str, Any]) -> bool:
    """Replace this mount namespace's root by the container's.

    Args:
        specification: `base` (an existing directory that serves as mount point), `overlay` and
            `user_namespace` (booleans), `mounts` (see `_Mounts`), `read_only`.

    Returns:
        Whether directories of the machine could be made privately writable.

    Raises:
        OSError: A mount was refused; the message names it.
    """
    syscalls.mount("none", "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    base = specification["base"]
    syscalls.mount("traincrew", base, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    root = f"{base}/root"
    os.mkdir(root, 0o755)
    syscalls.bind(root, root, recursive=False)
    tree = _Tree(
        root,
        f"{base}/layers",
        overlay=specification["overlay"],
        user_namespace=specification["user_namespace"],
    )
    tree.fill()
    resolver = os.path.realpath("/etc/resolv.conf")

    os.mkdir(root + _OLD)
    syscalls.pivot_root(root, root + _OLD)
    os.chdir("/")
    tree.root = ""
    tree.layers = _OLD + tree.layers
    mounts = list(specification["mounts"])
    if resolver.startswith("/run/") and os.path.exists(_OLD + resolver):
        mounts.append({"kind": "bind", "source": resolver, "target": resolver, "read_only": True})
    attach = _Mounts(tree, mounts)
    attach.make_targets()
    if specification.get("read_only"):
        for path in ("/", *tree.mirrored):
            syscalls.make_read_only(path, recursive=False)
    attach.mount_all()
    # What stays mounted below keeps the layers alive; their path disappears with the old root.
    syscalls.unmount(_OLD)
    with suppress(OSError):
        os.rmdir(_OLD)
    return tree.overlays > 0


class _Tree:
    """The mirror of the machine's directories below `root`."""

    def __init__(self, root: str, layers: str, *, overlay: bool, user_namespace: bool) -> None:
        self.root = root
        self.layers = layers
        self.overlay = overlay
        self.user_namespace = user_namespace
        self.mirrored: list[str] = []
        """Mount points of the mirror, as seen in the container."""
        self._mount_points = _mount_points()
        self.overlays = 0
        self._made = 0

    def fill(self) -> None:
        """Everything that does not come from the pod."""
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
            syscalls.bind("/sys", f"{self.root}/sys", read_only=True)
        try:
            flags = syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC
            syscalls.mount("proc", f"{self.root}/proc", "proc", flags)
        except OSError:
            # A machine whose own /proc is partly covered (a container) allows no fresh one.
            syscalls.bind("/proc", f"{self.root}/proc")

    def _devices(self) -> None:
        """The machine's devices in a directory of the container's own.

        Disks and consoles are left out: no container is given those.
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
                elif entry.is_dir():
                    os.mkdir(target)
                    syscalls.bind(entry.path, target)
                elif entry.name == "tty" or not (
                    entry.name.startswith(_CONSOLES) or stat.S_ISBLK(entry.stat().st_mode)
                ):
                    os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
                    syscalls.bind(entry.path, target)

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
            syscalls.bind(source, target, read_only=True)

    def _directory(self, source: str, target: str) -> None:
        """Make `source` appear at the existing directory `target`, privately writable.

        It may be anybody's (a kubelet's volume, say) and go away meanwhile: `target` is empty then.
        """
        with suppress(FileNotFoundError):
            self._mirror(source, target)

    def _mirror(self, source: str, target: str) -> None:
        nested = self._nested(source)
        if self.overlay and len(nested) <= _MAXIMUM_NESTED and self.lay_over(source, target):
            for point in nested:
                above = target + point[len(source) :]
                if os.path.isdir(point):
                    self._directory(point, above)
                else:
                    with suppress(OSError):
                        syscalls.bind(point, above, read_only=True)
        elif self.overlay and 0 < len(nested) <= _MAXIMUM_NESTED:
            # A user namespace may not uncover what is mounted below, so it refuses an overlay.
            with suppress(PermissionError):
                for entry in os.scandir(source):
                    self._entry(entry)
        else:
            with suppress(OSError):
                syscalls.bind(source, target, read_only=True)
                self.mirrored.append(source)

    def _nested(self, source: str) -> list[str]:
        """The outermost mount points below a directory."""
        found: list[str] = []
        for point in self._mount_points:
            if point.startswith(source + "/") and not any(
                point.startswith(outer + "/") for outer in found
            ):
                found.append(point)
        return found

    def lay_over(self, source: str, target: str) -> bool:
        """Mount an overlay of `source` on `target`; False if the kernel refuses."""
        self._made += 1
        layer = f"{self.layers}/{self._made}"
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
            syscalls.mount("overlay", target, "overlay", 0, data)
        except OSError:
            return False
        self.mirrored.append(target[len(self.root) :])
        self.overlays += 1
        return True

    def make_writable(self, directory: str) -> None:
        """Let entries be created in a directory of the container that does not allow it.

        Only for the container's final tree (after `pivot_root`). An overlay keeps what is there;
        where that is refused a tmpfs takes its place, with every entry bound into it.
        """
        if self.overlay and self.lay_over(_OLD + directory, directory):
            return
        aside = f"{self.layers}/aside-{self._made}"
        self._made += 1
        os.mkdir(aside)
        syscalls.bind(directory, aside)
        syscalls.mount("traincrew", directory, "tmpfs", 0, "mode=755")
        self.mirrored.append(directory)
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


class _Mounts:
    """What the pod wants at certain paths. Each mount is a dictionary with `kind` and `target`.

    - `bind`: `source` (a path of the machine), `read_only`
    - `overlay`: `source`; a directory, privately writable
    - `tmpfs`: `size` in bytes, or 0
    - `symlink`: `to`
    - `file`: `content`
    - `copy`: `source`; a file, privately writable, which may be moved away, too
    - `directory`: nothing is mounted, the directory only has to exist
    """

    def __init__(self, tree: _Tree, mounts: list[dict[str, Any]]) -> None:
        self.tree = tree
        # Outer paths first, so that a mount inside a volume is not covered by it.
        self.mounts = sorted(mounts, key=lambda mount: mount["target"].count("/"))
        # What is in another mount may belong to others, who must not find a copy in it.
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
            self._make_target(mount)

    def _inside_another(self, mount: dict[str, Any]) -> bool:
        return any(
            mount["target"].startswith(other["target"].rstrip("/") + "/")
            for other in self.mounts
            if other["kind"] in {"bind", "overlay", "tmpfs"}
        )

    def _make_target(self, mount: dict[str, Any]) -> str:
        """Create a mount's target; returns the path without symbolic links."""
        target: str = mount["target"]
        kind = mount["kind"]
        if kind in _ENTRIES:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _remove(target)
            if kind == "symlink":
                os.symlink(mount["to"], target)
            elif kind == "copy":
                _copy(_OLD + mount["source"], target)
            else:
                with open(target, "w", encoding="utf-8") as file:
                    file.write(mount["content"])
            return target
        path = os.path.realpath(target)
        if os.path.exists(path):
            return path
        if kind == "bind" and not os.path.isdir(_OLD + mount["source"]):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
        else:
            os.makedirs(path, exist_ok=True)
        return path

    def mount_all(self) -> None:
        """Mount everything, outermost first."""
        for mount in self.mounts:
            kind = mount["kind"]
            if kind in _ENTRIES or kind == "directory":
                if self._inside_another(mount):
                    self._make_target(mount)
                continue
            target = self._make_target(mount)
            source = _OLD + mount.get("source", "")
            if kind == "tmpfs":
                size = f",size={mount['size']}" if mount.get("size") else ""
                syscalls.mount("traincrew", target, "tmpfs", 0, f"mode=1777{size}")
            elif kind == "overlay":
                if not (self.tree.overlay and self.tree.lay_over(source, target)):
                    syscalls.bind(source, target, read_only=True)
            else:
                syscalls.bind(source, target, read_only=mount.get("read_only", False))


def _copy(source: str, target: str) -> None:
    """Copy a file with its mode and, where that is allowed, its owner."""
    with open(source, "rb") as original, open(target, "wb") as file:
        found = os.fstat(original.fileno())
        while data := original.read(_CHUNK):
            file.write(data)
        with suppress(OSError):
            os.fchown(file.fileno(), found.st_uid, found.st_gid)
        os.fchmod(file.fileno(), found.st_mode & 0o777)


def _mount_points() -> list[str]:
    """All mount points of this namespace, outermost first."""
    points = set()
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            points.add(os.fsdecode(_unescape(line.split(b" ")[4])))
    return sorted(points)


def _unescape(field: bytes) -> bytes:
    """Undo the kernel's octal escapes of blank, tab, newline and backslash."""
    if b"\\" not in field:
        return field
    for code, character in ((b"040", b" "), (b"011", b"\t"), (b"012", b"\n"), (b"134", b"\\")):
        field = field.replace(b"\\" + code, character)
    return field


def _escaped(path: str) -> str:
    for special in ("\\", ":", ","):
        path = path.replace(special, "\\" + special)
    return path


def _remove(path: str) -> None:
    """Remove a file, and before that what is mounted on it."""
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
