"""Linux system calls that Python has no function for, by ctypes.

Calling them directly instead of running `unshare` and `mount` keeps a container's start at a few
milliseconds. Every function raises `OSError` with the failed call and its target in the message.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_NODIRATIME = 0x800
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_RELATIME = 0x200000
_ST_RELATIME = 0x1000

MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
_PR_SET_KEEPCAPS = 8
PR_SET_NAME = 15
_PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_PR_CAP_AMBIENT_CLEAR_ALL = 4

_CAP_DAC_READ_SEARCH = 2
_CAPABILITY_VERSION_3 = 0x20080522

_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_MOUNT_ATTR_RDONLY = 0x1
_MOUNT_ATTR_NODEV = 0x4
# The same on all architectures, as all calls since Linux 5.1.
_SYS_MOUNT_SETATTR = 442
_SYS_PIVOT_ROOT = {
    "x86_64": 155,
    "aarch64": 41,
    "riscv64": 41,
    "loongarch64": 41,
    "ppc64le": 203,
    "s390x": 217,
    "armv7l": 218,
    "i686": 217,
}

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _text(value: str | None) -> bytes | None:
    return None if value is None else os.fsencode(value)


def unshare(flags: int) -> None:
    """Move this process into new namespaces of the given kinds."""
    _check(_libc.unshare(ctypes.c_int(flags)), f"unshare({flags:#x})")


def setns(descriptor: int, kind: int) -> None:
    """Move this process into the namespace that `descriptor` (of a `/proc/PID/ns` file) names."""
    _check(_libc.setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), f"setns({kind:#x})")


def mount(
    source: str | None,
    target: str,
    kind: str | None = None,
    flags: int = 0,
    data: str | None = None,
) -> None:
    """Mount a file system, or change a mount."""
    result = _libc.mount(
        _text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(data)
    )
    _check(result, f"mount {kind or 'bind'} {source or ''} on {target}")


def bind(
    source: str,
    target: str,
    *,
    recursive: bool = True,
    read_only: bool = False,
    devices: bool = True,
) -> None:
    """Bind-mount `source` on `target`, by default with the mounts below it.

    Where it cannot be made read-only as demanded, nothing is mounted. Only of a read-only one can
    the devices be made unusable.
    """
    mount(source, target, None, MS_BIND | (MS_REC if recursive else 0))
    if read_only:
        try:
            make_read_only(target, recursive=recursive, devices=devices)
        except OSError:
            unmount(target)
            raise


def make_read_only(target: str, *, recursive: bool, devices: bool = True) -> None:
    """Make a mount read-only, and those below it; devices in it can be opened or not."""
    wanted = _MOUNT_ATTR_RDONLY | (0 if devices else _MOUNT_ATTR_NODEV)
    attributes = _MountAttributes(attr_set=wanted)
    result = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        ctypes.c_int(_AT_FDCWD),
        _text(target),
        ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    if result < 0:
        # Before Linux 5.12 each mount by itself.
        top = os.path.realpath(target)
        below = [point for point in mount_points() if point.startswith(top.rstrip("/") + "/")]
        for point in (target, *(below if recursive else ())):
            # In a user namespace a remount must repeat the locked flags of the mount.
            flags = MS_REMOUNT | MS_BIND | MS_RDONLY | _locked_flags(point)
            flags |= 0 if devices else MS_NODEV
            mount(None, point, None, flags)


def _locked_flags(target: str) -> int:
    # statvfs and mount agree on the numbers of all these flags but "relatime".
    shown = os.statvfs(target).f_flag
    same = shown & (MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME)
    return same | (MS_RELATIME if shown & _ST_RELATIME else 0)


def mount_points() -> list[str]:
    """Return all mount points of this namespace, outermost first."""
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


def unmount(target: str) -> None:
    """Detach a mount and everything below it."""
    _check(_libc.umount2(_text(target), ctypes.c_int(MNT_DETACH)), f"umount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    """Make `new_root` the root directory and mount the old one on `put_old`."""
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"pivot_root: unknown on {os.uname().machine}")
    result = _libc.syscall(ctypes.c_long(number), _text(new_root), _text(put_old))
    _check(result, f"pivot_root {new_root}")


def set_host_name(name: str) -> None:
    """Set the host name of this process's UTS namespace."""
    encoded = name.encode()
    _check(_libc.sethostname(encoded, ctypes.c_size_t(len(encoded))), f"sethostname {name}")


def process_control(option: int, argument: int | bytes) -> None:
    """Call prctl(2) with one argument."""
    value = argument if isinstance(argument, bytes) else ctypes.c_ulong(argument)
    _check(_libc.prctl(ctypes.c_int(option), value, 0, 0, 0), f"prctl({option})")


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilitySet(ctypes.Structure):
    """32 of the capabilities."""

    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def limit_capabilities(kept: list[int]) -> None:
    """Take all other capabilities from the programs that this process executes.

    This process still has them. A program gets what is in the bounding set, and what is
    inheritable or ambient, if it is root or its file says so; the latter two become empty. Only
    those of the kernel are dropped, so a newer one that has no name here is dropped as well.
    """
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        last = int(file.read())
    for number in range(last + 1):
        if number not in kept:
            process_control(_PR_CAPBSET_DROP, number)
    clear = ctypes.c_ulong(_PR_CAP_AMBIENT_CLEAR_ALL)
    _check(_libc.prctl(_PR_CAP_AMBIENT, clear, 0, 0, 0), "prctl(PR_CAP_AMBIENT)")
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    sets = (_CapabilitySet * 2)()
    _check(_libc.capget(ctypes.byref(header), ctypes.byref(sets)), "capget")
    for each in sets:
        each.inheritable = 0
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(sets)), "capset")


def set_user_keeping_read_access(uid: int) -> None:
    """Call setuid(2) as root, keeping the capability to read files and search directories.

    The files of an image are readable for every user. Here they are this machine's, and those of
    the user who runs the cluster, root, are often not readable for others.
    """
    process_control(_PR_SET_KEEPCAPS, 1)
    os.setuid(uid)
    bit = 1 << _CAP_DAC_READ_SEARCH
    header = _CapabilityHeader(_CAPABILITY_VERSION_3, 0)
    # Two words of 32 capabilities each; all others are dropped.
    sets = (_CapabilitySet * 2)(_CapabilitySet(bit, bit, bit))
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(sets)), "capset")
    capability = ctypes.c_ulong(_CAP_DAC_READ_SEARCH)
    raise_it = ctypes.c_ulong(_PR_CAP_AMBIENT_RAISE)
    _check(_libc.prctl(_PR_CAP_AMBIENT, raise_it, capability, 0, 0), "prctl(PR_CAP_AMBIENT)")


def supports_overlay() -> bool:
    """Return whether the kernel supports the overlay file system."""
    try:
        with open("/proc/filesystems", encoding="ascii") as file:
            return any(line.split()[-1:] == ["overlay"] for line in file)
    except OSError:
        return False
