"""Commands in a running container, for `kubectl exec`, probes and hooks."""

# No pathlib in here: it would double the imports of every shim.
from __future__ import annotations

import json
import os
import select
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from . import ports, program

if TYPE_CHECKING:
    from collections.abc import Sequence


def run(specification: dict[str, Any], connection: socket.socket, streams: list[int]) -> None:
    """Run a command in the namespaces of a container until it ends.

    It sends one line of JSON with the result of the start and a second one with the exit code. If
    the node closes the connection first, the command is killed.

    Args:
        specification: See `traincrew.local.node.runtime.processes.CommandProcess`.
        connection: To the node.
        streams: Descriptors of the command's input, output and error output; none for a command
            with a terminal, whose master is sent back.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    wake, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    failure_read, failure_write = os.pipe()
    own_user = -1
    master: list[int] = []
    own = ports.Ports(specification.get("own_ports"))
    try:
        if specification["namespaces"]:
            own_user = _enter(specification)
        if specification["tty"]:
            # Opened here, because it belongs to the container's own instance of devpts.
            terminal, slave = program.open_terminal()
            master, streams = [terminal], [slave, slave, slave]
        child = os.fork()
    except OSError as error:
        _send(connection, {"failed": {"reason": "StartError", "message": program.describe(error)}})
        return
    if child == 0:
        try:
            signal.set_wakeup_fd(-1)
            _become_command(specification, streams, own_user, own)
        except BaseException as error:  # a forked child has nowhere to raise to
            program.report_failure(failure_write, error)
    os.close(failure_write)
    own.close_theirs()
    for descriptor in set(streams):
        os.close(descriptor)
    failure = program.read_failure(failure_read)
    if failure is not None:
        os.waitpid(child, 0)
        _send(connection, {"failed": failure})
        return
    _send(connection, {"started": {}}, master)
    for descriptor in master:
        os.close(descriptor)
    own.receive()
    _send(connection, {"exitCode": _wait(child, connection, wake, own)})
    connection.close()
    own.answer_rest()


def _wait(child: int, connection: socket.socket, wake: int, own: ports.Ports) -> int:
    """Wait for the command, or kill it when the node disconnects; return its exit code."""
    watched: list[Any] = [wake, connection]
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return program.exit_code(status)[0]
        ready = select.select([*watched, *own.watched()], [], [])[0]
        own.answer(ready)
        if wake in ready:
            os.read(wake, 4096)
        if connection in ready:
            # The node never writes here: readable means closed.
            watched.remove(connection)
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError, PermissionError):
                    kill(child, signal.SIGKILL)


def _enter(specification: dict[str, Any]) -> int:
    """Enter the container's namespaces; return a descriptor of its user namespace, or -1.

    The PID namespace applies to children only. The program's user namespace must be entered last,
    by the child: inside it there is no capability to enter the others.
    """
    from . import namespaces

    own_user = -1
    if specification["user_namespace"]:
        own_user = namespaces.open_one(specification["program"], "user")
    kinds = ("ipc", "uts", "pid", "mnt")
    namespaces.enter(specification, kinds, user_namespace=specification["user_namespace"])
    return own_user


def _become_command(
    specification: dict[str, Any], streams: list[int], own_user: int, own: ports.Ports
) -> NoReturn:
    standard = (streams[0], streams[1], streams[2])
    program.take_streams(standard, terminal=specification["tty"])
    own.hand_over()
    if own_user >= 0:
        from . import syscalls

        syscalls.setns(own_user, syscalls.CLONE_NEWUSER)
        if specification.get("id_map") is None:
            program.limit_capabilities(specification)
        else:
            program.become_user(specification)
    else:
        program.become_user(specification)
    program.run(specification)


def _send(
    connection: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()
) -> None:
    with suppress(OSError):
        socket.send_fds(connection, [json.dumps(message).encode() + b"\n"], descriptors)
