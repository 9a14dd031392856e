"""Ports of a pod's own, although all pods share the machine's network.

Two pods that listen on the wildcard address, or on localhost, would collide. So a seccomp filter
with user notification passes bind(2), connect(2) and sendto(2) with an address to the container's
shim, which replaces the wildcard address and localhost by the pod's address and lets the call
continue. Nothing else changes for a program; connections elsewhere take some 50 us longer.

Pods have no IPv6 address: an IPv6-only socket that binds a port of the wildcard address, or of
localhost, gets a port that the kernel chooses, and so does not collide.

Open MPI is the exception. Each of its processes searches for a free port from the same number on,
and announces it with an address of the machine's interfaces, which all pods share: its ports are
the machine's, except those that a manifest declares.

A datagram socket that connects to an address of a cluster gets the pod's address as its own: it is
how programs ask which address others reach them by (agnhost's `guestbook` does), and the kernel's
answer is 127.0.0.1 for all of 127/8.

Requests for the list of network interfaces are answered, with the pod's address in it, by
`interfaces`.

`redirects` sends connections to an address and port to another port there: a server that may not
listen on a port below 1024 is reached as if it did. A datagram sent without connect(2) is
redirected, too, but its answer comes from the other port.

It is a convenience, not a security boundary: a program can circumvent it.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
from contextlib import suppress
from typing import Any

from .interfaces import REQUESTS, emulated

# Architecture -> its audit number (linux/audit.h), and those of seccomp, bind, connect, sendto and
# ioctl.
_CALLS = {
    "x86_64": (0xC000003E, 317, 49, 42, 44, 16),
    "aarch64": (0xC00000B7, 277, 200, 203, 206, 29),
}
# The same on all architectures.
_SYS_PIDFD_OPEN = 434
_SYS_PIDFD_GETFD = 438
_SECCOMP_SET_MODE_FILTER = 1
_FLAG_NEW_LISTENER = 1 << 3
_RET_ALLOW = 0x7FFF0000
_RET_USER_NOTIF = 0x7FC00000
_NOTIF_RECV = 0xC0502100
_NOTIF_SEND = 0xC0182101
_NOTIF_ID_VALID = 0x40082102
_CONTINUE = 1
# struct seccomp_notif: id, pid, flags, and seccomp_data: nr, arch, instruction, six arguments.
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE = 0, 4
# The two halves of sendto's fifth argument, its address: offsets in struct seccomp_data.
_OFFSETS_ADDRESS = (48, 52)
_OFFSET_REQUEST = 24  # ioctl's second argument

_WILDCARD_OR_LOCAL = (b"\0\0\0\0", b"\x7f\0\0\1")
_LOOPBACK = b"\x7f"
# Of it, no cluster uses what programs of the machine do: 127.0.0.1, 127.0.0.53.
_MACHINE = b"\x7f\0"
_MAPPED = b"\0" * 10 + b"\xff\xff"
_IPV6_V6ONLY = 26
# Mapped by every process that uses Open MPI, versions 2 to 5.
_OPEN_MPI = b"/libopen-pal.so"

_libc = ctypes.CDLL(None, use_errno=True)


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def open_processes() -> int:
    """Open a descriptor of /proc as this process sees it now, for `Supervisor`."""
    return os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def install() -> int:
    """Install the filter for this process and all it starts.

    Needs CAP_SYS_ADMIN in the process's user namespace.

    Returns:
        The descriptor of the notifications, for `Supervisor`.

    Raises:
        OSError: The kernel or the architecture does not support this.
    """
    calls = _CALLS.get(os.uname().machine)
    if calls is None:
        raise OSError(errno.ENOSYS, f"seccomp: unknown on {os.uname().machine}")
    architecture, seccomp, bind, connect, sendto, ioctl = calls
    low, high = _OFFSETS_ADDRESS
    some, count = REQUESTS, len(REQUESTS)
    # Each jump counts the instructions that it skips; the last two allow or notify.
    instructions = (_Instruction * (14 + count))(
        _Instruction(_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        _Instruction(_JUMP_IF_EQUAL, 0, 10 + count, architecture),
        _Instruction(_LOAD, 0, 0, _OFFSET_NUMBER),
        _Instruction(_JUMP_IF_EQUAL, 9 + count, 0, bind),
        _Instruction(_JUMP_IF_EQUAL, 8 + count, 0, connect),
        _Instruction(_JUMP_IF_EQUAL, 5, 0, ioctl),
        _Instruction(_JUMP_IF_EQUAL, 0, 5 + count, sendto),
        # send(2) is sendto without an address: many programs use it for all their data.
        _Instruction(_LOAD, 0, 0, low),
        _Instruction(_JUMP_IF_EQUAL, 0, 4 + count, 0),
        _Instruction(_LOAD, 0, 0, high),
        _Instruction(_JUMP_IF_EQUAL, 1 + count, 2 + count, 0),
        _Instruction(_LOAD, 0, 0, _OFFSET_REQUEST),
        *(_Instruction(_JUMP_IF_EQUAL, count - n, 0, each) for n, each in enumerate(some)),
        _Instruction(_RETURN, 0, 0, _RET_ALLOW),
        _Instruction(_RETURN, 0, 0, _RET_USER_NOTIF),
    )
    program = _Program(len(instructions), instructions)
    descriptor = _libc.syscall(
        ctypes.c_long(seccomp),
        ctypes.c_uint(_SECCOMP_SET_MODE_FILTER),
        ctypes.c_uint(_FLAG_NEW_LISTENER),
        ctypes.byref(program),
    )
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")
    return int(descriptor)


def hand_over(channel: socket.socket) -> None:
    """Install the filter and send its descriptor through a channel; called in the program.

    Where that is not possible the program runs without: its ports are the machine's.
    """
    with channel:
        try:
            descriptor = install()
        except OSError:
            return
        socket.send_fds(channel, [b"1"], [descriptor])
        os.close(descriptor)


class Supervisor:
    """Handles the notifications of one container's programs: see seccomp_unotify(2).

    Args:
        channel: Receives the descriptor from `hand_over`; closed here.
        specification: `address` of the pod, its `ports` (None for all), those `declared` in its
            manifest, and `redirects`: "ADDRESS:PORT" -> port.
        processes: A descriptor of the machine's /proc.
    """

    def __init__(
        self, channel: socket.socket, specification: dict[str, Any], processes: int
    ) -> None:
        with channel:
            _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        self.descriptor = descriptors[0] if descriptors else -1
        """To be watched for reading; -1 if there is no filter or its last process has ended."""
        self._address: str = specification["address"]
        ports = specification["ports"]
        self._ports = None if ports is None else frozenset(ports)
        self._declared = frozenset(specification.get("declared") or ())
        self._redirects = {
            (socket.inet_aton(address), int(port)): int(to)
            for name, to in (specification.get("redirects") or {}).items()
            for address, port in [name.rsplit(":", 1)]
        }
        self._processes = processes
        calls = _CALLS[os.uname().machine] if self.descriptor >= 0 else (-1,) * 6
        self._bind, self._connect, self._sendto, self._ioctl = calls[2:]

    def answer(self) -> None:
        """Handle one notification; let its call continue, unless it is answered."""
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.descriptor, _NOTIF_RECV, buffer)
        except OSError:
            # The caller was killed meanwhile, or no process is left.
            poll = select.poll()
            poll.register(self.descriptor, select.POLLIN)
            if any(event & select.POLLHUP for _, event in poll.poll(0)):
                self.close()
            return
        number, thread, _, call, _, _, *arguments = _NOTIFICATION.unpack(buffer)
        flags = _CONTINUE
        with suppress(OSError):
            if call == self._ioctl:
                if self._show_address(number, thread, arguments):
                    flags = 0
            else:
                self._correct(number, thread, call, arguments)
        with suppress(OSError):
            fcntl.ioctl(self.descriptor, _NOTIF_SEND, _RESPONSE.pack(number, 0, 0, flags))

    def close(self) -> None:
        """Close the descriptor."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _correct(self, number: int, thread: int, call: int, arguments: list[int]) -> None:
        """Replace the address in the caller's memory, if necessary."""
        descriptor = arguments[0]
        place, length = arguments[4:6] if call == self._sendto else arguments[1:3]
        flags = os.O_RDWR | os.O_CLOEXEC
        memory = os.open(f"{thread}/mem", flags, dir_fd=self._processes)
        try:
            name = os.pread(memory, min(length, 28), place)
            # The ID of an ended thread may have been reused meanwhile.
            fcntl.ioctl(self.descriptor, _NOTIF_ID_VALID, struct.pack("=Q", number))
            if call == self._connect and self._ports is None:
                self._set_source(name, thread, descriptor)
            change = self._change(name, thread, descriptor, call == self._bind)
            if change is not None:
                offset, data = change
                os.pwrite(memory, data, place + offset)
        finally:
            os.close(memory)

    def _show_address(self, number: int, thread: int, arguments: list[int]) -> bool:
        """Answer a request for network interfaces; return whether it is answered."""
        descriptor, request, place = arguments[:3]
        copy = self._copy(thread, descriptor)
        if copy < 0:
            return False
        try:
            flags = os.O_RDWR | os.O_CLOEXEC
            memory = os.open(f"{thread}/mem", flags, dir_fd=self._processes)
            try:
                # The ID of an ended thread may have been reused meanwhile.
                fcntl.ioctl(self.descriptor, _NOTIF_ID_VALID, struct.pack("=Q", number))
                address = socket.inet_aton(self._address)
                return emulated(request & 0xFFFFFFFF, copy, memory, place, address)
            finally:
                os.close(memory)
        finally:
            os.close(copy)

    def _change(
        self, name: bytes, thread: int, descriptor: int, binding: bool
    ) -> tuple[int, bytes] | None:
        """Return the offset and bytes to write in a socket address; None to leave it."""
        family, address = _read(name)
        if not address:
            return None
        (port,) = struct.unpack_from("!H", name, 2)
        offset, prefix = (4, b"") if family == socket.AF_INET else (8, _MAPPED)
        if not binding and (to := self._redirects.get((address, port))):
            return 2, struct.pack("!H", to)
        if port == 0 or address not in _WILDCARD_OR_LOCAL:
            return None
        if self._ports is not None and port not in self._ports:
            return None
        if binding and port not in self._declared and self._is_open_mpi(thread):
            return None
        if binding and family == socket.AF_INET6 and self._is_ipv6_only(thread, descriptor):
            return 2, struct.pack("!H", 0)
        if binding or self._is_taken(port):
            return offset, prefix + socket.inet_aton(self._address)
        return None

    def _set_source(self, name: bytes, thread: int, descriptor: int) -> None:
        """Give a datagram socket that connects to an address of a cluster the pod's own."""
        _, address = _read(name)
        if len(address) != 4 or address[:1] != _LOOPBACK or address[:2] == _MACHINE:
            return
        copy = self._copy(thread, descriptor)
        if copy < 0:
            return
        with socket.socket(fileno=copy) as found, suppress(OSError):
            if found.type != socket.SOCK_DGRAM or found.getsockname()[1] != 0:
                return
            prefix = "" if found.family == socket.AF_INET else "::ffff:"
            found.bind((prefix + self._address, 0))

    def _is_open_mpi(self, thread: int) -> bool:
        maps = os.open(f"{thread}/maps", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
        with open(maps, "rb") as file:
            return any(_OPEN_MPI in line for line in file)

    def _is_taken(self, port: int) -> bool:
        """Return whether the pod listens on a port; if not, localhost is the machine's."""
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as probe:
                if kind == socket.SOCK_STREAM:
                    # Still refused where a server listens, but no obstacle to a server that binds
                    # at this moment.
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((self._address, port))
                except OSError as error:
                    if error.errno == errno.EADDRINUSE:
                        return True
        return False

    def _is_ipv6_only(self, thread: int, descriptor: int) -> bool:
        """Return whether a socket of the caller cannot have an IPv4 address."""
        copy = self._copy(thread, descriptor)
        if copy < 0:
            return True
        with socket.socket(fileno=copy) as found:
            return bool(found.getsockopt(socket.IPPROTO_IPV6, _IPV6_V6ONLY))

    def _copy(self, thread: int, descriptor: int) -> int:
        """Return a copy of a descriptor of the caller; -1 if there is none."""
        process = self._process_of(thread)
        handle = _libc.syscall(ctypes.c_long(_SYS_PIDFD_OPEN), ctypes.c_int(process), 0)
        if handle < 0:
            return -1
        try:
            copy = _libc.syscall(
                ctypes.c_long(_SYS_PIDFD_GETFD), ctypes.c_int(handle), ctypes.c_int(descriptor), 0
            )
        finally:
            os.close(handle)
        return int(copy)

    def _process_of(self, thread: int) -> int:
        status = os.open(f"{thread}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
        with open(status, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("Tgid:"):
                    return int(line.split()[1])
        raise OSError(errno.ESRCH, "the caller has ended")


def _read(name: bytes) -> tuple[int, bytes]:
    """Return the family of a socket address, and its IPv4 equivalent; no bytes if it is no IP."""
    if len(name) >= 8:
        (family,) = struct.unpack_from("=H", name)
        if family == socket.AF_INET:
            return family, name[4:8]
        if family == socket.AF_INET6 and len(name) >= 24:
            return family, _as_ipv4(name[8:24])
    return 0, b""


def _as_ipv4(address: bytes) -> bytes:
    """Return the IPv4 equivalent of an IPv6 address for a dual-stack socket, or the address."""
    if address.startswith(_MAPPED):
        return address[12:]
    if address == bytes(16):
        return _WILDCARD_OR_LOCAL[0]
    if address == bytes(15) + b"\1":
        return _WILDCARD_OR_LOCAL[1]
    return address
