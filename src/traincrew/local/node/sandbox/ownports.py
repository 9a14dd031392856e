"""Ports that belong to a pod although all pods share the machine's network.

Two pods that listen on all addresses, or on localhost, would be in each other's way. So bind(2)
and connect(2) of a container's processes are shown to its shim first (a seccomp filter with user
notification), which writes the pod's own address over the wildcard and over localhost, and lets
the call go on. Nothing else of a program is touched, and connections elsewhere pay some 50 us.

It is a convenience, not a boundary: a program that wants to can get around it.
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

# Architecture -> its audit number (linux/audit.h), and those of seccomp, bind and connect.
_CALLS = {
    "x86_64": (0xC000003E, 317, 49, 42),
    "aarch64": (0xC00000B7, 277, 200, 203),
}
# Numbered alike everywhere.
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

_WILDCARD_OR_LOCAL = (b"\0\0\0\0", b"\x7f\0\0\1")
_MAPPED = b"\0" * 10 + b"\xff\xff"
_IPV6_V6ONLY = 26

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
    """A descriptor of /proc as this process sees it now, for `Doorman`."""
    return os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def install() -> int:
    """Show bind and connect of this process, and of all it starts, to whoever has the result.

    Needs the right to administer the process's user namespace.

    Returns:
        A descriptor for `Doorman`.

    Raises:
        OSError: The kernel or the architecture does not have this.
    """
    calls = _CALLS.get(os.uname().machine)
    if calls is None:
        raise OSError(errno.ENOSYS, f"seccomp: unknown on {os.uname().machine}")
    architecture, seccomp, bind, connect = calls
    instructions = (_Instruction * 7)(
        _Instruction(_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        _Instruction(_JUMP_IF_EQUAL, 0, 3, architecture),
        _Instruction(_LOAD, 0, 0, _OFFSET_NUMBER),
        _Instruction(_JUMP_IF_EQUAL, 2, 0, bind),
        _Instruction(_JUMP_IF_EQUAL, 1, 0, connect),
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
    """In the program: install the filter and send its descriptor through a channel.

    Where that is not possible the program goes on without: its ports are the machine's.
    """
    with channel:
        try:
            descriptor = install()
        except OSError:
            return
        socket.send_fds(channel, [b"1"], [descriptor])
        os.close(descriptor)


class Doorman:
    """Answers for the programs of one container.

    Args:
        channel: Where `hand_over` sends the descriptor; closed here.
        specification: `address` of the pod, and its `ports`; None for all.
        processes: A descriptor of the machine's /proc.
    """

    def __init__(
        self, channel: socket.socket, specification: dict[str, Any], processes: int
    ) -> None:
        with channel:
            _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        self.descriptor = descriptors[0] if descriptors else -1
        """To be watched for reading; -1 when there is nothing to watch (any more)."""
        self._address: str = specification["address"]
        ports = specification["ports"]
        self._ports = None if ports is None else frozenset(ports)
        self._processes = processes
        self._bind = _CALLS[os.uname().machine][2] if self.descriptor >= 0 else -1

    def answer(self) -> None:
        """Let one waiting call go on."""
        buffer = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(self.descriptor, _NOTIF_RECV, buffer)
        except OSError:
            # The caller was killed meanwhile, or nobody is left.
            poll = select.poll()
            poll.register(self.descriptor, select.POLLIN)
            if any(event & select.POLLHUP for _, event in poll.poll(0)):
                self.close()
            return
        number, thread, _, call, _, _, *arguments = _NOTIFICATION.unpack(buffer)
        with suppress(OSError):
            self._correct(number, thread, call == self._bind, arguments)
        with suppress(OSError):
            fcntl.ioctl(self.descriptor, _NOTIF_SEND, _RESPONSE.pack(number, 0, 0, _CONTINUE))

    def close(self) -> None:
        """Answer no more."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _correct(self, number: int, thread: int, binding: bool, arguments: list[int]) -> None:
        """Write another address into the caller's memory, if it has to be another one."""
        descriptor, place, length = arguments[:3]
        flags = os.O_RDWR | os.O_CLOEXEC
        memory = os.open(f"{thread}/mem", flags, dir_fd=self._processes)
        try:
            name = os.pread(memory, min(length, 28), place)
            # The number of a thread that has ended may be another's by now.
            fcntl.ioctl(self.descriptor, _NOTIF_ID_VALID, struct.pack("=Q", number))
            change = self._change(name, thread, descriptor, binding)
            if change is not None:
                offset, data = change
                os.pwrite(memory, data, place + offset)
        finally:
            os.close(memory)

    def _change(
        self, name: bytes, thread: int, descriptor: int, binding: bool
    ) -> tuple[int, bytes] | None:
        """What to write where in a socket address; None to leave it."""
        if len(name) < 8:
            return None
        (family,) = struct.unpack_from("=H", name)
        (port,) = struct.unpack_from("!H", name, 2)
        if port == 0 or (self._ports is not None and port not in self._ports):
            return None
        own = socket.inet_aton(self._address)
        if family == socket.AF_INET and name[4:8] in _WILDCARD_OR_LOCAL:
            change = (4, own)
        elif family == socket.AF_INET6 and _is_wildcard_or_local(name[8:24]):
            if binding and self._is_ipv6_only(thread, descriptor):
                return None
            change = (8, _MAPPED + own)
        else:
            return None
        return change if binding or self._is_taken(port) else None

    def _is_taken(self, port: int) -> bool:
        """Whether something of the pod listens there: localhost is the machine's otherwise."""
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as probe:
                try:
                    probe.bind((self._address, port))
                except OSError as error:
                    if error.errno == errno.EADDRINUSE:
                        return True
        return False

    def _is_ipv6_only(self, thread: int, descriptor: int) -> bool:
        """Whether a socket of the caller cannot have an address of IPv4."""
        process = self._process_of(thread)
        handle = _libc.syscall(ctypes.c_long(_SYS_PIDFD_OPEN), ctypes.c_int(process), 0)
        if handle < 0:
            return True
        try:
            copy = _libc.syscall(
                ctypes.c_long(_SYS_PIDFD_GETFD), ctypes.c_int(handle), ctypes.c_int(descriptor), 0
            )
        finally:
            os.close(handle)
        if copy < 0:
            return True
        with socket.socket(fileno=copy) as found:
            return bool(found.getsockopt(socket.IPPROTO_IPV6, _IPV6_V6ONLY))

    def _process_of(self, thread: int) -> int:
        status = os.open(f"{thread}/status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._processes)
        with open(status, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("Tgid:"):
                    return int(line.split()[1])
        raise OSError(errno.ESRCH, "the caller has ended")


def _is_wildcard_or_local(address: bytes) -> bool:
    if address.startswith(_MAPPED):
        return address[12:] in _WILDCARD_OR_LOCAL
    return address in {bytes(16), bytes(15) + b"\1"}
