"""The shim: one process per container that starts it, copies its output, and records its end.

It runs in a session of its own and depends on no other process: when the fork server and the node
are gone it continues, and a new node adopts it by the files it writes (see `files`).
"""

# No pathlib in here: it would double the imports of every shim.
# Over 400 lines: one process, from the start of a container to the record of its end.
from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from . import attach, changedfiles, files, ports, program

if TYPE_CHECKING:
    from . import namespaces

_LINUX = sys.platform == "linux"
_DRAIN_SECONDS = 1.0
# For which the record of an end waits for space on a full disk that copies on write.
_RECORD_SECONDS = 60.0
_RECORD_PAUSE_SECONDS = 0.5
_PARTIAL_LINE = 16 * 1024
_LOG_LIMIT = 64 * 1024 * 1024


def run(specification: dict[str, Any], connection: socket.socket) -> None:
    """Run a container to its end.

    Args:
        specification: See `traincrew.local.node.runtime.processes.ContainerProcess`.
        connection: Receives the result of the start as one line of JSON; then it is closed.
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
    failure: dict[str, str] | None
    container: _Container | None = None
    reserved: files.Reserved | None = None
    try:
        files.write_json(f"{directory}/process.json", process)
        for image in specification.get("images") or ():
            _hold(image)
        reserved = files.Reserved(f"{directory}/exit.json")
        log = _Log(f"{directory}/log")
        container = _Container(specification)
        process["program"] = {"pid": container.pid, "start": files.start_time(container.pid)}
        files.write_json(f"{directory}/process.json", process)
        if os.path.exists(f"{directory}/abandoned"):
            failure = {"reason": "Abandoned", "message": "given up before it started"}
        else:
            failure = container.start()
        if container.root is not None:
            process["root"] = container.root
            files.write_json(f"{directory}/process.json", process)
    except OSError as error:
        # With a full disk the node tries again later, as the kubelet does.
        reason = "CreateContainerError" if files.is_full(error) else "ContainerCannotRun"
        failure = {"reason": reason, "message": program.describe(error)}
    if container is not None and failure is None:
        _reply(connection, {"started": process})
        code, signaled = program.exit_code(container.follow(log))
        outcome: dict[str, Any] = {"exitCode": code, "signal": signaled}
        if container.written.exceeds_limit():
            with suppress(OSError):
                open(f"{directory}/{files.OUT_OF_MEMORY}", "wb").close()
        container.written.finish(directory)
        if log.has_lost_output:
            outcome["diskFull"] = True
    else:
        if container is not None:
            container.end()
        outcome = {"exitCode": 128, "signal": 0, **(failure or {})}
    outcome |= {"startedAt": started_at, "finishedAt": files.now()}
    if reserved is not None:
        _record(reserved, outcome)
    if failure is not None:
        _reply(connection, {"failed": failure})


def _hold(image: str) -> None:
    """Keep an image from being removed as long as this process lives.

    Raises:
        OSError: It was removed meanwhile.
    """
    place = os.open(image, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    # Whoever removes it holds the lock for a moment, and then it has another name.
    fcntl.flock(place, fcntl.LOCK_SH)
    if not os.path.samestat(os.fstat(place), os.stat(image)):
        raise FileNotFoundError(2, "the image was removed", image)


def _record(reserved: files.Reserved, outcome: dict[str, Any]) -> None:
    """Record the end, where the disk is full as soon as there is space again."""
    deadline = time.monotonic() + _RECORD_SECONDS
    while True:
        try:
            reserved.write(outcome)
        except FileNotFoundError:
            return  # the directory of an instance that is no longer needed was removed
        except OSError as error:
            if not files.is_full(error) or time.monotonic() > deadline:
                raise
            time.sleep(_RECORD_PAUSE_SECONDS)
        else:
            return


def _reply(connection: socket.socket, message: dict[str, Any]) -> None:
    with suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")
    connection.close()


class _Container:
    """The program, from the fork to its end."""

    def __init__(self, specification: dict[str, Any]) -> None:
        self._isolated = specification["namespaces"]
        terminal = specification.get("tty", False)
        self._streams = _Streams(terminal=terminal, takes_input=specification.get("stdin", False))
        self._attachments = attach.Attachments(
            specification["directory"], once=specification.get("stdin_once", False)
        )
        self._ports = ports.Ports(specification.get("own_ports"))
        self.root: dict[str, int] | None = None
        """The file system of its root; known once it has started."""
        self.written = changedfiles.Written(
            specification.get("report"),
            specification.get("memory_limit", 0),
            measured=specification.get("measured", False),
        )
        start_read, self._start_write = os.pipe()
        self._failure, failure_write = os.pipe()
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._joined: namespaces.JoinedProgram | None = None
        if self._isolated:
            self._joined = _enter_namespaces(specification)
        elif _LINUX:
            from . import syscalls

            # Orphans of the program become children of the shim, which kills them at its end.
            syscalls.process_control(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        if _LINUX and specification.get("together"):
            from . import syscalls

            syscalls.process_control(syscalls.PR_SET_PDEATHSIG, signal.SIGKILL)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                os.close(self._start_write)
                _become_program(
                    specification,
                    self._streams,
                    start_read,
                    self._ports,
                    self.written,
                    joined=self._joined,
                )
            except BaseException as error:  # a forked child has nowhere to raise to
                program.report_failure(failure_write, error)
        os.close(start_read)
        os.close(failure_write)
        self._ports.close_theirs()
        self.written.close_theirs()
        self._streams.close_theirs()

    def start(self) -> dict[str, str] | None:
        """Let the program start; return why it did not, or None."""
        self.root = self.written.receive()
        with suppress(BrokenPipeError):
            os.write(self._start_write, b"1")
        os.close(self._start_write)
        failure = program.read_failure(self._failure)
        if failure is None:
            if self._joined is not None:
                self._joined.receive()
            self._streams.receive()
            if self._streams.input >= 0:
                terminal = self._streams.is_terminal
                self._attachments.feed(self._streams.input, terminal=terminal)
            self._ports.receive()
        return failure

    def end(self) -> None:
        """Kill the process that did not become the program."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def follow(self, log: _Log) -> int:
        """Copy output until the program and its output have ended; return its wait status."""
        status: int | None = None
        deadline = 0.0
        while True:
            wait = None if status is None else max(0.0, deadline - time.monotonic())
            watched = [self._wake, *self._streams.ours, *self._ports.watched()]
            watched += self._attachments.to_read()
            ready, writable, _ = select.select(watched, self._attachments.to_write(), [], wait)
            self._ports.answer(ready)
            self._attachments.handle(ready, writable)
            for descriptor in list(self._streams.ours):
                if descriptor in ready:
                    self._copy(descriptor, log)
            if self._wake in ready:
                os.read(self._wake, 4096)
                if (ended := self._reap()) is not None:
                    status = ended
                    deadline = time.monotonic() + _DRAIN_SECONDS
            if status is not None and (not self._streams.ours or time.monotonic() > deadline):
                self._attachments.close()
                log.close()
                return status

    def _copy(self, descriptor: int, log: _Log) -> None:
        """Write output of the program to its log and to attached clients."""
        stream = self._streams.ours[descriptor]
        data = log.copy(descriptor, stream)
        if data:
            channel = attach.OUTPUT if stream == b"stdout" else attach.ERRORS
            self._attachments.output(channel, data)
        else:
            del self._streams.ours[descriptor]

    def _reap(self) -> int | None:
        """Reap ended children; return the program's wait status if it was among them."""
        found: int | None = None
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == self.pid:
                    found = status
                    self._kill_rest()
        return found

    def _kill_rest(self) -> None:
        """Kill remaining processes of a program without a PID namespace of its own."""
        if not self._isolated:
            _kill_rest(self.pid)
        elif self._joined is not None:
            self._joined.kill_rest()


def _enter_namespaces(specification: dict[str, Any]) -> namespaces.JoinedProgram | None:
    """Enter the namespaces that the program's parent has to be in.

    Returns:
        A `JoinedProgram` if the program joins the PID namespace of another container.
    """
    from . import syscalls

    join = specification.get("join")
    user_namespace = specification["user_namespace"]
    if join is not None:
        from . import namespaces

        namespaces.enter(join, join["kinds"], user_namespace=user_namespace)
        if "pid" in join["kinds"]:
            return namespaces.JoinedProgram()
    elif (id_map := specification.get("id_map")) is not None:
        from . import subordinate

        subordinate.enter(id_map)
    elif user_namespace:
        uid, gid = os.geteuid(), os.getegid()
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        # Root inside, so that mounting is allowed; the program gets its own user back below.
        program.map_user(0, 0, uid, gid)
    syscalls.unshare(syscalls.CLONE_NEWPID)
    return None


def _become_program(
    specification: dict[str, Any],
    streams: _Streams,
    start_read: int,
    own: ports.Ports,
    report: changedfiles.Written,
    *,
    joined: namespaces.JoinedProgram | None,
) -> NoReturn:
    id_map = specification.get("id_map") if specification["namespaces"] else None
    process = -1
    if id_map is not None:
        # The container's own /proc may be the machine's, which has another number for it.
        process = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if specification["namespaces"]:
        from . import rootfs, syscalls

        syscalls.unshare(syscalls.CLONE_NEWNS)
        if joined is not None:
            joined.hand_over()
        if specification.get("join") is None:
            syscalls.unshare(syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC)
            syscalls.set_host_name(specification["hostname"])
        built = report.hand_over if report.is_wanted else None
        rootfs.build(specification["rootfs"], built)
    if not os.read(start_read, 1):
        os._exit(128)
    streams.take()
    own.hand_over()
    if id_map is not None:
        from . import subordinate

        subordinate.nest(id_map, process)
        program.become_user(specification)
    elif specification["namespaces"] and specification["user_namespace"]:
        from . import syscalls

        syscalls.unshare(syscalls.CLONE_NEWUSER)
        program.map_user(specification["uid"], specification["gid"], 0, 0)
        program.limit_capabilities(specification)
    else:
        program.become_user(specification)
    program.run(specification)


def _kill_rest(session: int) -> None:
    """Kill the remaining processes of a program that has no PID namespace."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGKILL)
    while children := _children():
        for child in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def _children() -> list[int]:
    """Return the children of this process, including adopted orphans."""
    try:
        with open("/proc/thread-self/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


class _Streams:
    """The standard streams of the program and the shim's ends of them."""

    def __init__(self, *, terminal: bool, takes_input: bool) -> None:
        self.ours: dict[int, bytes] = {}
        self.is_terminal = terminal
        self.input = -1
        """Descriptor to write the program's input to; -1 if it has none."""
        self._takes_input = takes_input
        self._terminal: tuple[socket.socket, socket.socket] | None = None
        if terminal:
            self._terminal = socket.socketpair()
            return
        out_read, out_write = os.pipe()
        error_read, error_write = os.pipe()
        self.ours = {out_read: b"stdout", error_read: b"stderr"}
        if takes_input:
            in_read, self.input = os.pipe()
        else:
            in_read = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._theirs = (in_read, out_write, error_write)

    def take(self) -> None:
        """Make them the standard streams; called in the program when its root is complete."""
        if self._terminal is None:
            program.take_streams(self._theirs, terminal=False)
            return
        # A terminal belongs to the container's own instance of devpts, so it is opened inside.
        master, slave = program.open_terminal()
        socket.send_fds(self._terminal[1], [b"1"], [master])
        program.take_streams((slave, slave, slave), terminal=True)

    def close_theirs(self) -> None:
        """Close the program's ends; called in the shim after the fork."""
        if self._terminal is not None:
            self._terminal[1].close()
        else:
            for descriptor in self._theirs:
                os.close(descriptor)

    def receive(self) -> None:
        """Receive the terminal; called in the shim when the program is running."""
        if self._terminal is not None:
            _, descriptors, _, _ = socket.recv_fds(self._terminal[0], 1, 1)
            self._terminal[0].close()
            self.ours = dict.fromkeys(descriptors, b"stdout")
            if self._takes_input:
                # A separate descriptor, because reading ends before writing.
                self.input = os.dup(descriptors[0])


class _Log:
    """The container's log in CRI format: time, stream, F(ull) or P(artial), text."""

    def __init__(self, path: str) -> None:
        self.has_lost_output = False
        """Whether output was dropped because the disk was full."""
        self._path = path
        self._file = self._open()
        self._size = 0
        self._rest: dict[bytes, bytes] = {b"stdout": b"", b"stderr": b""}

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.open(self._path, flags, 0o600)

    def copy(self, descriptor: int, stream: bytes) -> bytes:
        """Read available output, log it and return it; return nothing at the end."""
        try:
            data = os.read(descriptor, 262144)
        except OSError:
            data = b""  # reading a terminal fails when its last process has ended
        if not data:
            os.close(descriptor)
            return b""
        *lines, rest = (self._rest[stream] + data).split(b"\n")
        head = f"{files.now()} ".encode() + stream
        output = b"".join([head + b" F " + line + b"\n" for line in lines])
        while len(rest) >= _PARTIAL_LINE:
            output += head + b" P " + rest[:_PARTIAL_LINE] + b"\n"
            rest = rest[_PARTIAL_LINE:]
        self._rest[stream] = rest
        self._write(output)
        return data

    def close(self) -> None:
        """Write last lines without a newline as partial: readers add one to full lines."""
        for stream, rest in self._rest.items():
            if rest:
                self._write(f"{files.now()} ".encode() + stream + b" P " + rest + b"\n")
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        # A full disk must not stop the program, so output that cannot be written is dropped.
        before = self._size
        try:
            while data:
                written = os.write(self._file, data)
                data = data[written:]
                self._size += written
        except OSError as error:
            self.has_lost_output = self.has_lost_output or files.is_full(error)
            # No part of a line, to which the next one would be appended.
            with suppress(OSError):
                os.ftruncate(self._file, before)
                self._size = before
        with suppress(OSError):
            if self._size > _LOG_LIMIT:
                os.rename(self._path, f"{self._path}.1")
                os.close(self._file)
                self._file = self._open()
                self._size = 0
