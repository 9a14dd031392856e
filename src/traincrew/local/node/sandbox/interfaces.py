"""A pod's own address in the list of network interfaces, where it is on none.

Programs find out by that list which of the names that they are given is theirs: Open MPI's
mpirun runs processes on its own host without ssh, which no server answers there. So the list of
``SIOCGIFCONF`` gets one more entry, an alias of an interface of the machine such as ``eth0:p``,
and the calls that ask for the address, the mask and the index of an interface know it; the other
calls know aliases anyway (netdevice(7)). Its index is its own: Open MPI takes what has the same
index for one interface. ``getifaddrs``, which asks by netlink, does not show it.
"""

# No pathlib in here, as in ownports.
from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

__all__ = ["REQUESTS", "emulated"]

_LIST, _ADDRESS, _MASK, _INDEX = 0x8912, 0x8915, 0x891B, 0x8933
REQUESTS = (_LIST, _ADDRESS, _MASK, _INDEX)
"""The requests of ioctl(2) that `emulated` may answer."""

# struct ifconf: bytes and address of a buffer; struct ifreq: a name and a union.
_CONFIGURATION = struct.Struct("=i4xQ")
_ENTRY_BYTES, _NAME_BYTES = 40, 16
_SOCKET_ADDRESS = struct.Struct("=HH4s8x")
_MAX_ENTRIES = 512
_ALIAS = b":p"
_OWN_INDEX = 1 << 20
_HOST_MASK = b"\xff\xff\xff\xff"


def emulated(request: int, descriptor: int, memory: int, place: int, address: bytes) -> bool:
    """Answer a request of a program, in its memory.

    Args:
        request: One of `REQUESTS`.
        descriptor: A copy of the socket that it is made on.
        memory: A descriptor of the program's memory.
        place: Where the argument of the request is.
        address: The pod's address, four bytes.

    Returns:
        Whether it is answered; if not, the kernel has to.

    Raises:
        OSError: The kernel refuses the request, or the memory cannot be read or written.
    """
    entries = _interfaces(descriptor)
    name = _alias(entries, address)
    if not name:
        return False
    if request == _LIST:
        entries += _entry(name, _SOCKET_ADDRESS.pack(socket.AF_INET, 0, address))
        size, buffer = _CONFIGURATION.unpack(os.pread(memory, _CONFIGURATION.size, place))
        if buffer:
            entries = entries[: max(size, 0) // _ENTRY_BYTES * _ENTRY_BYTES]
            os.pwrite(memory, entries, buffer)
        os.pwrite(memory, struct.pack("=i", len(entries)), place)
        return True
    if os.pread(memory, _NAME_BYTES, place).partition(b"\0")[0] != name:
        return False
    if request == _INDEX:
        value = struct.pack("=i", _OWN_INDEX)
    else:
        shown = address if request == _ADDRESS else _HOST_MASK
        value = _SOCKET_ADDRESS.pack(socket.AF_INET, 0, shown)
    os.pwrite(memory, value, place + _NAME_BYTES)
    return True


def _interfaces(descriptor: int) -> bytes:
    """Return the kernel's list."""
    buffer = ctypes.create_string_buffer(_MAX_ENTRIES * _ENTRY_BYTES)
    request = bytearray(_CONFIGURATION.pack(len(buffer), ctypes.addressof(buffer)))
    fcntl.ioctl(descriptor, _LIST, request)
    return buffer.raw[: _CONFIGURATION.unpack(request)[0]]


def _alias(entries: bytes, address: bytes) -> bytes:
    """Return the name of the entry to add; empty if there is the address, or no interface."""
    name = b""
    for start in range(0, len(entries), _ENTRY_BYTES):
        entry = entries[start : start + _ENTRY_BYTES]
        each = entry[:_NAME_BYTES].partition(b"\0")[0]
        if entry[_NAME_BYTES + 4 : _NAME_BYTES + 8] == address:
            return b""
        # A loopback interface does not count as one by which others reach this host.
        if not name and each != b"lo" and b":" not in each:
            name = each + _ALIAS
    return name if len(name) < _NAME_BYTES else b""


def _entry(name: bytes, value: bytes) -> bytes:
    return (name.ljust(_NAME_BYTES, b"\0") + value).ljust(_ENTRY_BYTES, b"\0")
