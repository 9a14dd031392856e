"""A filter of system calls as container engines install it, for a process and its children."""

from __future__ import annotations

import ctypes
import platform
import struct
import sys

import pytest

_UNSHARE = {"x86_64": 272, "aarch64": 97}
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD_WORD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL_WITH_EPERM = 0x7FFF0000, 0x00050001

needs_filter = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in _UNSHARE,
    reason="filters of system calls are written for Linux on x86-64 and arm64",
)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def refuse_namespaces() -> None:
    """From now on the kernel refuses this process new namespaces; for `preexec_fn`."""
    instructions = (
        (_LOAD_WORD, 0, 0, 0),  # the number of the system call
        (_JUMP_IF_EQUAL, 0, 1, _UNSHARE[platform.machine()]),
        (_RETURN, 0, 0, _FAIL_WITH_EPERM),
        (_RETURN, 0, 0, _ALLOW),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in instructions))
    program = _Program(len(instructions), ctypes.addressof(code))
    library = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0),
        (_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0),
    ):
        if library.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
