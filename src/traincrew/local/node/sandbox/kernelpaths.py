"""What of the kernel's file systems a container may read and write.

As container runtimes do it: the lists are `maskedPaths` and `readonlyPaths` of containerd's and the
kubelet's default specification, `securityContext.procMount` and `privileged` lift them.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import os
from typing import TYPE_CHECKING

from . import syscalls

if TYPE_CHECKING:
    from collections.abc import Callable

MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
"""What is empty in a container."""

READ_ONLY = (
    "/proc/bus",
    "/proc/fs",
    "/proc/irq",
    "/proc/sys",
    "/proc/sysrq-trigger",
)
"""What no container can write: settings of the whole kernel."""

_DEVICES = frozenset({"full", "null", "random", "tty", "urandom", "zero"})
"""Those that container runtimes create in every container."""
_ACCELERATORS = (
    "accel",
    "davinci",
    "devmm_svm",
    "dri",
    "dxg",
    "gdrdrv",
    "habanalabs",
    "hisi_hdc",
    "infiniband",
    "kfd",
    "knem",
    "mali",
    "neuron",
    "nvgpu",
    "nvhost",
    "nvidia",
    "nvmap",
    "xpmem",
)
"""Beginnings of the names of devices for computing and its networks, which device plugins add."""


def is_usual_device(name: str) -> bool:
    """Return whether an entry of `/dev` may be in any container: it gives no other access."""
    return name in _DEVICES or name.startswith(_ACCELERATORS)


def protect(root: str, *, user_namespace: bool) -> None:
    """Hide and write-protect what concerns the whole kernel.

    Args:
        root: Path of the container's root, in which `/proc` and `/sys` are mounted.
        user_namespace: Whether the mounts are made by the root of a user namespace. The kernel
            itself keeps that one from writing there, so what it refuses is no error.

    Raises:
        OSError: A mount was refused, without a user namespace.
    """
    for path in MASKED:
        _allowing(user_namespace, _mask, root + path)
    for path in READ_ONLY:
        _allowing(user_namespace, _write_protect, root + path)


def _allowing(user_namespace: bool, change: Callable[[str], None], path: str) -> None:
    try:
        change(path)
    except FileNotFoundError:
        return  # not every kernel has it
    except OSError:
        if not user_namespace:
            raise


def _mask(path: str) -> None:
    if os.path.isdir(path):
        syscalls.mount("traincrew", path, "tmpfs", syscalls.MS_RDONLY, "size=4k,mode=755")
    else:
        syscalls.mount("/dev/null", path, None, syscalls.MS_BIND)


def _write_protect(path: str) -> None:
    syscalls.bind(path, path, read_only=True)
