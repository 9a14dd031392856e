"""The Linux capabilities that a container may have. Pure.

Rules: ``securityContext.capabilities`` as containerd's CRI plugin applies it, and its default set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["DEFAULT", "kept_capabilities", "names_of"]

Document = Mapping[str, Any]

# In the order of their numbers; see capabilities(7).
_ALL = """
    CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
    NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO
    SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
    SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG
    WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
_USUAL = """
    AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE NET_RAW SETFCAP SETGID
    SETPCAP SETUID SYS_CHROOT
"""
_NAMES = tuple(_ALL.split())
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}

DEFAULT = frozenset(_USUAL.split())
"""What a container has without `securityContext`.

It is containerd's set without MKNOD: no cgroup keeps a container here from a device that it makes.
"""


def names_of(capabilities: Document, key: str) -> set[str]:
    """Return the names in `add` or `drop`, without the prefix that they may have."""
    return {str(name).upper().removeprefix("CAP_") for name in capabilities.get(key) or ()}


def kept_capabilities(security: Document) -> list[int] | None:
    """Return the numbers of the capabilities that a container may have; None for all.

    Args:
        security: its `securityContext`.
    """
    if security.get("privileged"):
        return None
    capabilities: Document = security.get("capabilities") or {}
    added, dropped = names_of(capabilities, "add"), names_of(capabilities, "drop")
    kept = set(_NAMES if "ALL" in added else DEFAULT)
    if "ALL" in dropped:
        kept = set()
    kept = (kept | added) - dropped
    return sorted(_NUMBERS[name] for name in kept if name in _NUMBERS)
