"""The shim: one process per container that starts it, copies its output, and records its end.

It lives in a session of its own and needs nobody: when the fork server and the node are gone it
goes on, and the node finds it again by the files it writes (see `files`).
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from . import files, ports, program

_LINUX = sys.platform == "linux"
_DRAIN_SECONDS = 1.0
_PARTIAL_LINE = 16 * 1024
_LOG_LIMIT = 64 * 1024 * 1024


def run(specification: dict[str, Any], connection: socket.socket) -> None:
    """Run a container to its end.

    Args:
        specification: See `traincrew.local.node.launcher.ContainerProcess`.
        connection: Where the outcome of the start is told, as one line of JSON; then it is closed.
    """
    directory = specification["directory"]
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    started_at = files.now()
    process: dict[str, Any] = {
        "startedAt": started_at,
        "shim": {"pid": os.getpid(), "start": files.start_time(os.getpid())},
    }
    files.write_json(f"{directory}/process.json", process)
    failure: dict[str, str] | None
    container: _Container | None = None
    log = _Log(f"{directory}/log")
    try:
        container = _Container(specification)
        process["program"] = {"pid": container.pid, "start": files.start_time(container.pid)}
        files.write_json(f"{directory}/process.json", process)
        if os.path.exists(f"{directory}/abandoned"):
            failure = {"reason": "Abandoned", "message": "given up before it started"}
        else:
            failure = container.go()
    except OSError as error:
        failure = {"reason": "ContainerCannotRun", "message": program.describe(error)}
    if container is not None and failure is None:
        _reply(connection, {"started": process})
        code, signaled = program.exit_code(container.follow(log))
        outcome: dict[str, Any] = {"exitCode": code, "signal": signaled}
    else:
        if container is not None:
            container.end()
        outcome = {"exitCode": 128, "signal": 0, **(failure or {})}
    outcome |= {"startedAt": started_at, "finishedAt": files.now()}
    # An instance whose directory was removed is one nobody asks about any more.
    with suppress(FileNotFoundError):
        files.write_json(f"{directory}/exit.json", outcome)
    if failure is not None:
        _reply(connection, {"failed": failure})


def _reply(connection: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")
    connection.close()


class _Container:
    """The program, from the fork to its end."""

    def __init__(self, specification: dict[str, Any]) -> None:
        self._isolated = specification["namespaces"]
        self._streams = _Streams(terminal=specification.get("tty", False))
        self._ports = ports.Ports(specification.get("own_ports"))
        go_read, self._go = os.pipe()
        self._failure, failure_write = os.pipe()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        if self._isolated:
            _enter_namespaces(specification)
        elif _LINUX:
            from . import syscalls

            # Orphans of the program come to the shim, which ends them with it.
            syscalls.process_control(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        if _LINUX and specification.get("together"):
            from . import syscalls

            syscalls.process_control(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                os.close(self._go)
                _become_program(specification, self._streams, go_read, self._ports)
            except BaseException as error:  # a forked child has nowhere to raise to
                program.report_failure(failure_write, error)
        os.close(go_read)
        os.close(failure_write)
        self._ports.close_theirs()
        self._streams.close_theirs()

    def go(self) -> dict[str, str] | None:
        """Let the program run; returns why it did not."""
        with suppress(BrokenPipeError):
            os.write(self._go, b"1")
        os.close(self._go)
        failure = program.read_failure(self._failure)
        if failure is None:
            self._streams.receive()
            self._ports.receive()
        return failure

    def end(self) -> None:
        """End what did not become the program."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def follow(self, log: _Log) -> int:
        """Copy output until the program ended and nothing comes any more; its wait status."""
        status: int | None = None
        deadline = 0.0
        while True:
            wait = None if status is None else max(0.0, deadline - time.monotonic())
            watched = [self._wake, *self._streams.ours, *self._ports.watched()]
            ready = select.select(watched, [], [], wait)[0]
            self._ports.answer(ready)
            for descriptor in list(self._streams.ours):
                if descriptor in ready and not log.copy(descriptor, self._streams.ours[descriptor]):
                    del self._streams.ours[descriptor]
            if self._wake in ready:
                os.read(self._wake, 4096)
                if (ended := self._reap()) is not None:
                    status = ended
                    deadline = time.monotonic() + _DRAIN_SECONDS
            if status is not None and (not self._streams.ours or time.monotonic() > deadline):
                log.close()
                return status

    def _reap(self) -> int | None:
        """Collect ended children; the program's wait status if it was among them."""
        found: int | None = None
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.pid:
                    found = status
                    if not self._isolated:
                        _kill_rest(self.pid)
        return found


def _enter_namespaces(specification: dict[str, Any]) -> None:
    from . import syscalls

    uid, gid = os.geteuid(), os.getegid()
    if specification["user_namespace"]:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        # Root in here, so that mounting is allowed; the program gets its own user back below.
        program.map_user(0, 0, uid, gid)
    syscalls.unshare(syscalls.CLONE_NEWPID)


def _become_program(
    specification: dict[str, Any], streams: _Streams, go_read: int, own: ports.Ports
) -> NoReturn:
    if specification["namespaces"]:
        from . import rootfs, syscalls

        syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC)
        syscalls.set_host_name(specification["hostname"])
        rootfs.build(specification["rootfs"])
    if not os.read(go_read, 1):
        os._exit(128)
    streams.take()
    own.hand_over()
    if specification["namespaces"] and specification["user_namespace"]:
        from . import syscalls

        syscalls.unshare(syscalls.CLONE_NEWUSER)
        program.map_user(specification["uid"], specification["gid"], 0, 0)
    else:
        program.become_user(specification)
    program.run(specification)


def _kill_rest(session: int) -> None:
    """End what the program left behind, where no process namespace does it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
    while children := _children():
        for child in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _children() -> list[int]:
    """The children of this process, which include adopted orphans."""
    try:
        with open("/proc/thread-self/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


class _Streams:
    """Where the program writes, and where the shim reads that."""

    def __init__(self, *, terminal: bool) -> None:
        self.ours: dict[int, bytes] = {}
        self._terminal: tuple[socket.socket, socket.socket] | None = None
        if terminal:
            self._terminal = socket.socketpair()
            return
        out_read, out_write = os.pipe()
        error_read, error_write = os.pipe()
        self.ours = {out_read: b"stdout", error_read: b"stderr"}
        empty = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._theirs = (empty, out_write, error_write)

    def take(self) -> None:
        """In the program, when its file system is there: make them its standard streams."""
        if self._terminal is None:
            program.take_streams(self._theirs, terminal=False)
            return
        # A terminal belongs to the container's own instance of devpts, so it is opened there.
        master, slave = program.open_terminal()
        socket.send_fds(self._terminal[1], [b"1"], [master])
        program.take_streams((slave, slave, slave), terminal=True)

    def close_theirs(self) -> None:
        """In the shim, after the fork."""
        if self._terminal is not None:
            self._terminal[1].close()
        else:
            for descriptor in self._theirs:
                os.close(descriptor)

    def receive(self) -> None:
        """In the shim, when the program runs."""
        if self._terminal is not None:
            _, descriptors, _, _ = socket.recv_fds(self._terminal[0], 1, 1)
            self._terminal[0].close()
            self.ours = dict.fromkeys(descriptors, b"stdout")


class _Log:
    """The container's log in the format of the CRI: time, stream, F(ull) or P(artial), text."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = self._open()
        self._size = 0
        self._rest: dict[bytes, bytes] = {b"stdout": b"", b"stderr": b""}

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)

    def copy(self, descriptor: int, stream: bytes) -> bool:
        """Take what is there to read; False at the end."""
        try:
            data = os.read(descriptor, 262144)
        except OSError:
            data = b""  # what a terminal says when the last program left it
        if not data:
            os.close(descriptor)
            return False
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        head = f"{files.now()} ".encode() + stream
        output = b"".join([head + b" F " + line + b"\n" for line in lines])
        while len(rest) >= _PARTIAL_LINE:
            output += head + b" P " + rest[:_PARTIAL_LINE] + b"\n"
            rest = rest[_PARTIAL_LINE:]
        self._rest[stream] = rest
        self._write(output)
        return True

    def close(self) -> None:
        """Write what ended without a newline, which a full line would get back."""
        for stream, rest in self._rest.items():
            if rest:
                self._write(f"{files.now()} ".encode() + stream + b" P " + rest + b"\n")
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        # A full disk must not stop the program, so what cannot be written is dropped.
        with suppress(OSError):
            while data:
                written = os.write(self._file, data)
                data = data[written:]
                self._size += written
            if self._size > _LOG_LIMIT:
                os.rename(self._path, f"{self._path}.1")
                os.close(self._file)
                self._file = self._open()
                self._size = 0
