"""Turning a forked process into the program of a container or of a command in one."""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import codecs
import errno
import fcntl
import json
import os
import signal
import struct
import sys
import termios
import warnings
from contextlib import suppress
from typing import Any, NoReturn

_LINUX = sys.platform == "linux"

# What Python would load later, from files that a container of an image does not have.
_LOADED = (warnings, codecs.lookup("ascii"), codecs.lookup("utf-8"))


class StartError(Exception):
    """The program could not be started; `reason` is the container state's, as in the kubelet."""

    def __init__(self, message: str, reason: str = "StartError") -> None:
        super().__init__(message)
        self.reason = reason


def map_user(inside_uid: int, inside_gid: int, outside_uid: int, outside_gid: int) -> None:
    """Write the maps of the user namespace that this process has just entered.

    They map one user and one group, which needs no privilege if setgroups is denied.
    """
    with suppress(FileNotFoundError):
        _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{inside_uid} {outside_uid} 1")
    _write("/proc/self/gid_map", f"{inside_gid} {outside_gid} 1")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    except PermissionError:
        if not path.endswith("setgroups"):
            raise
    finally:
        os.close(descriptor)


def become_user(specification: dict[str, Any]) -> None:
    """Change to the user and group of the specification, if any (root only).

    Its programs have no capabilities but those of the specification.
    """
    uid, gid = specification.get("uid"), specification.get("gid")
    limit_capabilities(specification)
    groups = specification.get("groups")
    if groups is not None:
        os.setgroups(groups)
    if gid is not None:
        os.setgid(gid)
    if uid is None:
        return
    if _LINUX and uid != 0 and os.geteuid() == 0 and not specification["namespaces"]:
        from . import syscalls

        # In bare mode the files of the image are where only root may be able to reach them.
        syscalls.set_user_keeping_read_access(uid)
    else:
        os.setuid(uid)


def limit_capabilities(specification: dict[str, Any]) -> None:
    """Limit the capabilities of the programs that this process executes, if it is asked for."""
    kept = specification.get("capabilities")
    if kept is not None:
        from . import syscalls

        syscalls.limit_capabilities(kept)


def open_terminal() -> tuple[int, int]:
    """Open a terminal of 80 columns and 24 rows; return its master and slave descriptors."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    return master, slave


def take_streams(streams: tuple[int, int, int], *, terminal: bool) -> None:
    """Make them the descriptors 0, 1 and 2 of a new session."""
    os.setsid()
    if terminal:
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    # Copies above 2 first: a stream may itself be one of the descriptors overwritten.
    copies = [fcntl.fcntl(stream, fcntl.F_DUPFD_CLOEXEC, 3) for stream in streams]
    for number, copy in enumerate(copies):
        os.dup2(copy, number, inheritable=True)


def default_signals() -> None:
    """Reset signal handlers and masks, which would be inherited.

    They were set by Python, by the shim, and by the shell that started the cluster: programs in
    the background ignore some signals.
    """
    for number in signal.valid_signals():
        if signal.getsignal(number) not in {signal.SIG_DFL, None}:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def run(specification: dict[str, Any]) -> NoReturn:
    """Replace this process by the program.

    Raises:
        StartError: It cannot be executed; the message is that of container runtimes.
    """
    directory = specification["working_directory"]
    try:
        os.chdir(directory)
    except OSError as error:
        raise StartError(f"working directory {directory}: {error.strerror}") from error
    if _LINUX:
        from . import syscalls

        if specification.get("no_new_privileges"):
            syscalls.process_control(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        # A container must not outlive its shim, which records its end. (Set after the change of
        # user, which clears this.)
        syscalls.process_control(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
    command: list[str] = specification["command"]
    environment: dict[str, str] = specification["environment"]
    default_signals()
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606  # running programs is the task
    except OSError as error:
        raise StartError(_explain(command[0], error)) from error
    except ValueError as error:
        raise StartError(f'exec: "{command[0]}": {error}') from error


def _explain(name: str, error: OSError) -> str:
    if error.errno == errno.ENOENT and "/" not in name:
        return f'exec: "{name}": executable file not found in $PATH'
    if error.errno == errno.ENOENT:
        return f'exec: "{name}": stat {name}: no such file or directory'
    return f'exec: "{name}": {os.strerror(error.errno or 0).lower()}'


def describe(error: BaseException) -> str:
    """Return a readable message for an error."""
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return str(error) if isinstance(error, StartError) else repr(error)


def report_failure(pipe: int, error: BaseException) -> NoReturn:
    """Report to the parent why the program did not start, and exit."""
    reason = error.reason if isinstance(error, StartError) else "ContainerCannotRun"
    with suppress(OSError):
        os.write(pipe, json.dumps({"reason": reason, "message": describe(error)}).encode())
    os._exit(128)


def read_failure(pipe: int) -> dict[str, str] | None:
    """Wait until the program is running (None) or has reported why it did not start."""
    data = b""
    while chunk := os.read(pipe, 65536):
        data += chunk
    if not data:
        return None
    document: dict[str, str] = json.loads(data)
    return document


def exit_code(status: int) -> tuple[int, int]:
    """Return (exit code, signal) of a wait status; a killed process has the code 128 + signal."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status), os.WTERMSIG(status)
    return os.WEXITSTATUS(status), 0
