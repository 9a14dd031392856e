"""The fork server: a small process that forks one shim per container.

The node is a large process with threads and open connections, which cannot be forked safely or
cheaply. This one can: it imports little and has no state. The node sends it one descriptor per
request over a socket pair; a fork serves the request that it reads there.
"""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

from . import enter, ownports, program, shim

_LINUX = sys.platform == "linux"
_NO_OVERLAY = "overlays are refused: directories of the machine are read-only in pods"


def main(arguments: list[str]) -> int:
    """Run `serve FD [--together]`, `check DIRECTORY` or `mapped COMMAND`: see these functions."""
    if arguments[:1] == ["check"]:
        json.dump(check(arguments[1]), sys.stdout)
        return 0
    if arguments[:1] == ["mapped"]:
        from . import mapped

        return mapped.main(arguments[1])
    connection = socket.socket(fileno=int(arguments[1]))
    serve(connection, together="--together" in arguments)
    return 0


def serve(control: socket.socket, *, together: bool) -> None:
    """Serve requests until the node closes its end.

    Args:
        control: Each byte received on it carries one descriptor: the connection of a request.
        together: Kill all containers when the node is gone, instead of leaving them to be
            adopted.
    """
    if _LINUX:
        # Imported here, once, rather than by each container.
        from . import rootfs, syscalls  # noqa: F401

        syscalls.process_control(syscalls.PR_SET_NAME, b"traincrew-fork\0")
        if together:
            # The processes of a killed shim become children of this one, which waits for them.
            syscalls.process_control(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    os.chdir("/")
    os.umask(0o022)
    gc.collect()
    gc.freeze()
    children: set[int] = set()
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    watched: list[Any] = [control, wake]
    while True:
        ready = select.select(watched, [], [])[0]
        if wake in ready:
            os.read(wake, 4096)
            _reap(children)
        if control not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not data:
            break
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
            if (child := os.fork()) == 0:
                status = 1
                try:
                    for unused in (wake, wake_write):
                        os.close(unused)
                    control.close()
                    status = _serve_one(socket.socket(fileno=descriptor))
                finally:
                    os._exit(status)
            children.add(child)
            os.close(descriptor)
    if together:
        _reap(children)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)


def _reap(children: set[int]) -> None:
    with suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            children.discard(pid)


def _serve_one(connection: socket.socket) -> int:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    request, streams = receive(connection)
    if request["type"] == "run":
        if _LINUX:
            from . import syscalls

            syscalls.process_control(syscalls.PR_SET_NAME, b"traincrew-shim\0")
        shim.run(request, connection)
    elif request["type"] == "exec":
        enter.run(request, connection, streams)
    else:
        connection.sendall(json.dumps(check(request["directory"])).encode() + b"\n")
    return 0


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive one request: four bytes of length, JSON, and the descriptors sent with them."""
    data, streams, _, _ = socket.recv_fds(connection, 65536, 3)
    for descriptor in streams:
        os.set_inheritable(descriptor, False)
    while len(data) < 4 or len(data) < 4 + struct.unpack("!I", data[:4])[0]:
        chunk = connection.recv(1048576)
        if not chunk:
            raise EOFError
        data += chunk
    return json.loads(data[4:]), streams


def check(directory: str) -> dict[str, Any]:
    """Detect the isolation that this machine allows, by creating and discarding a sandbox.

    Args:
        directory: Where a mount point may be created.

    Returns:
        `namespaces`, `user_namespace`, `overlay`, `own_proc` (booleans), `reason`, why not, and
        `ports_reason`, why pods have no ports of their own; empty if they have.
    """
    nothing = dict.fromkeys(("namespaces", "user_namespace", "overlay", "own_proc"), False)
    if not _LINUX:
        reason = f"{sys.platform} has no namespaces"
        return {**nothing, "reason": reason, "ports_reason": reason}
    reason = ""
    for user_namespace in (False, True) if os.geteuid() == 0 else (True,):
        answer = _try(directory, user_namespace=user_namespace)
        if answer["namespaces"]:
            return answer
        reason = reason or answer["reason"]
    return {**nothing, "reason": reason, "ports_reason": reason}


def _try(directory: str, *, user_namespace: bool) -> dict[str, Any]:
    from . import syscalls

    base = f"{directory}/check-{os.getpid()}"
    os.mkdir(base)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _build(base, write, user_namespace=user_namespace, overlay=syscalls.supports_overlay())
        except BaseException as error:  # a forked child has nowhere to raise to
            program.report_failure(write, error)
    os.close(write)
    answer: dict[str, Any] = {"user_namespace": user_namespace, **_outcome(read)}
    os.close(read)
    os.waitpid(child, 0)
    os.rmdir(base)
    answer["ports_reason"] = ""
    if not answer["namespaces"]:
        answer["ports_reason"] = answer["reason"]
    elif refused := _try_own_ports(user_namespace=user_namespace):
        answer["ports_reason"] = refused
    return answer


def _outcome(pipe: int) -> dict[str, Any]:
    """Return the report of `_build`, or its failure."""
    reported = program.read_failure(pipe) or {"message": "the process that tried it was killed"}
    if "message" in reported:
        refused = dict.fromkeys(("namespaces", "overlay", "own_proc"), False)
        return {**refused, "reason": reported["message"]}
    return {"namespaces": True, "reason": "", **reported}


def _try_own_ports(*, user_namespace: bool) -> str:
    """Return why `ownports` cannot be used here; "" if it can."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            from . import syscalls

            if user_namespace:
                uid, gid = os.geteuid(), os.getegid()
                syscalls.unshare(syscalls.CLONE_NEWUSER)
                program.map_user(0, 0, uid, gid)
            ownports.install()
            os._exit(0)
        except BaseException as error:  # a forked child has nowhere to raise to
            program.report_failure(write, error)
    os.close(write)
    failure = program.read_failure(read)
    os.close(read)
    os.waitpid(child, 0)
    return "" if failure is None else failure["message"]


def _build(base: str, write: int, *, user_namespace: bool, overlay: bool) -> None:
    from . import rootfs, syscalls

    uid, gid = os.geteuid(), os.getegid()
    if user_namespace:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        program.map_user(0, 0, uid, gid)
    syscalls.unshare(syscalls.CLONE_NEWPID)
    first = os.fork()
    if first != 0:
        os._exit(os.waitpid(first, 0)[1] and 1)
    syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC)
    wanted = {"base": base, "overlay": overlay, "user_namespace": user_namespace, "mounts": []}
    built = rootfs.build(wanted)
    if user_namespace:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        program.map_user(uid, gid, 0, 0)
    reason = "" if built.overlay else _NO_OVERLAY
    os.write(write, json.dumps({**built._asdict(), "reason": reason}).encode())
    os._exit(0)
