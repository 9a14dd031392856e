"""Commands and ports by SPDY: what kubectl falls back to, and what older ones always use."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from suites.kubectl.conftest import Kubectl, Served

from traincrew.local.apiserver.http.node_backend import ExecStreams, LogOptions, StreamRefusedError

DEADLINE = 120.0
SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
POD = """
apiVersion: v1
kind: Pod
metadata: {name: worker, labels: {app: worker}}
spec:
  nodeName: here
  containers: [{name: main, image: "busybox:1", stdin: true, tty: true}]
"""
ROLE = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: launcher}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: launcher}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [pods/exec], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: launcher}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: launcher}
subjects: [{kind: ServiceAccount, name: launcher, namespace: default}]
"""


class Node:
    """A node with a few commands, and a pod that sends back what a port gets."""

    def __init__(self) -> None:
        self.echoing: set[asyncio.Task[None]] = set()

    def logs(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        raise StreamRefusedError("no log")

    async def exec(
        self, pod: dict[str, Any], container: str, command: list[str], streams: ExecStreams
    ) -> int:
        match command[0]:
            case "cat":
                while data := await streams.read_stdin():
                    await streams.write_stdout(data)
            case "false":
                await streams.write_stderr(b"it went wrong\n")
                return 3
            case "size":
                while size := await streams.resized():
                    await streams.write_stdout(b"<%dx%d>" % size)
                    if size[0] == 100:
                        break
            case _:
                await streams.write_stdout(f"{container} of {pod['metadata']['name']}\n".encode())
        return 0

    async def attach(self, pod: dict[str, Any], container: str, streams: ExecStreams) -> None:
        await streams.write_stdout(b"attached\n")
        while streams.stdin and (data := await streams.read_stdin()):
            await streams.write_stdout(data)

    async def connect(
        self, pod: dict[str, Any], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if port != 8080:
            raise StreamRefusedError("connection refused")
        ours, theirs = socket.socketpair()
        self.echoing.add(asyncio.create_task(_echo(*await asyncio.open_connection(sock=theirs))))
        return await asyncio.open_connection(sock=ours)

    async def usage(self) -> None:
        return None


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.fixture(params=[{}, SPDY], ids=["websockets", "spdy"])
def worker(request: pytest.FixtureRequest, served: Served, kubectl: Kubectl) -> Kubectl:
    """A kubectl with a pod, and with either framing."""
    kubectl.environment |= request.param
    served.server.node = Node()
    kubectl("create", "-f", "-", stdin=POD)
    status = {"status": {"phase": "Running", "containerStatuses": []}}
    kubectl(
        "patch", "pod", "worker", "--subresource=status", "--type=merge", "-p", json.dumps(status)
    )
    return kubectl


def test_commands(worker: Kubectl) -> None:
    assert worker("exec", "worker", "--", "id").out == "main of worker\n"
    big = "0123456789abcde\n" * 100_000
    assert worker("exec", "-i", "worker", "--", "cat", stdin=big).out == big
    failed = worker("exec", "worker", "--", "false", code=3)
    assert "it went wrong" in failed.err
    assert "command terminated with exit code 3" in failed.err


def test_a_role_that_may_only_create(worker: Kubectl) -> None:
    """As training-operator makes it: a websocket would need `get`, so kubectl falls back."""
    worker("create", "-f", "-", stdin=ROLE)
    token = "--token=" + worker("create", "token", "launcher").out.strip()
    sent = worker(token, "exec", "-i", "worker", "--", "cat", stdin="hello\n")
    assert sent.out == "hello\n"
    refused = worker(token, "attach", "worker", code=1)
    assert 'cannot create resource "pods/attach"' in refused.err


def test_attaching(worker: Kubectl) -> None:
    attached = worker("attach", "-i", "worker", stdin="hello\n")
    assert attached.out == "attached\nhello\n"


def test_a_terminal_has_a_size(worker: Kubectl) -> None:
    with _terminal(worker, "exec", "-it", "worker", "--", "size") as (
        terminal,
        process,
    ):
        _read_until(terminal, "<80x24>")
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        process.send_signal(signal.SIGWINCH)
        _read_until(terminal, "<100x30>")


@contextlib.contextmanager
def _terminal(kubectl: Kubectl, *command: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run a command of kubectl in a terminal of 80 columns and 24 rows; it has to succeed."""
    terminal, inner = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [kubectl.binary, *command],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env=kubectl.environment | {"TERM": "xterm"},
    )
    os.close(inner)
    try:
        yield terminal, process
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def _read_until(terminal: int, text: str) -> None:
    received, end = "", time.monotonic() + DEADLINE
    while text not in received:
        ready, _, _ = select.select([terminal], [], [], max(0.0, end - time.monotonic()))
        assert ready, f"no {text} in {received!r}"
        received += os.read(terminal, 4096).decode()


def test_ports(worker: Kubectl) -> None:
    process = worker.start("port-forward", "pod/worker", ":8080")
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        port = re.match(r"Forwarding from 127\.0\.0\.1:(\d+) -> 8080", line)
        assert port is not None, line
        for number in range(3):
            with socket.create_connection(("127.0.0.1", int(port[1])), DEADLINE) as connection:
                connection.sendall(b"ping %d" % number)
                assert connection.recv(100) == b"ping %d" % number
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
