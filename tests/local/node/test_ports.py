"""Ports of pods' own, although all pods share the machine's network."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from local.node.support import CAPABILITIES
from traincrew.local.node.machine.loopback import can_use
from traincrew.local.node.runtime.commands import run_command
from traincrew.local.node.runtime.forkserver import ForkServer
from traincrew.local.node.runtime.instances import Instance, Launch
from traincrew.local.node.runtime.processes import ContainerProcess, OwnPorts, RootFilesystem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = [
    pytest.mark.skipif(not CAPABILITIES.namespaces, reason=f"no namespaces: {CAPABILITIES.reason}"),
    pytest.mark.skipif(not can_use("127.42.0.1"), reason="pods have no addresses here"),
]
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
PORT = 18431
# Two pods' addresses, which concurrent tests do not share.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
ONE, TWO = f"127.42.{250 - _WORKER}.1", f"127.42.{250 - _WORKER}.2"
# A virtual environment may be in a temporary directory, and pods have their own.
PYTHON = os.path.realpath(sys.executable)

# Answers every connection with where it was accepted; a line when it listens.
SERVER = """
import socket, sys
family, address = (socket.AF_INET6, "::") if sys.argv[2] == "6" else (socket.AF_INET, sys.argv[2])
server = socket.socket(family)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if family == socket.AF_INET6:
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
server.bind((address, int(sys.argv[1])))
server.listen()
print("listening on", *server.getsockname()[:2], flush=True)
while True:
    with server.accept()[0] as connection:
        connection.sendall(connection.getsockname()[0].removeprefix("::ffff:").encode())
"""
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[2], int(sys.argv[1])), 5) as connection:
    print(connection.recv(100).decode())
"""


class Pods:
    """Containers without a cluster, each as in a pod of its own."""

    def __init__(self, directory: Path, server: ForkServer) -> None:
        self.directory, self.server = directory, server
        self.running: list[Instance] = []
        (directory / "root").mkdir()

    async def start(
        self,
        address: str,
        ports: list[int] | None,
        *arguments: str,
        program: str = SERVER,
        redirects: dict[str, int] | None = None,
    ) -> Instance:
        instance = Instance(self.directory / "containers" / str(len(self.running)))
        own = OwnPorts(address, ports, redirects=redirects or {})
        in_user = CAPABILITIES.user_namespace
        user: dict[str, Any] = {"uid": os.getuid(), "gid": os.getgid()} if in_user else {}
        instance.create(
            Launch(environment=ENVIRONMENT, user_namespace=in_user, own_ports=own, **user)
        )
        await self.server.run(
            ContainerProcess(
                directory=str(instance.directory),
                command=[PYTHON, "-c", program, *arguments],
                environment=ENVIRONMENT,
                user_namespace=in_user,
                rootfs=RootFilesystem(
                    str(self.directory / "root"), CAPABILITIES.overlay, in_user, []
                ),
                own_ports=own,
                **user,
            )
        )
        self.running.append(instance)
        async with asyncio.timeout(20):
            while b"listening" not in instance.log.read_bytes():
                assert instance.exit() is None, instance.log.read_text()
                await asyncio.sleep(0.02)
        return instance

    async def ask(self, instance: Instance, port: int, address: str, program: str = CLIENT) -> str:
        """Return the answer that a client inside a container gets."""
        command = [PYTHON, "-c", program, str(port), address]
        result = await run_command(self.server, instance, command)
        return result.output.strip()

    async def leave(self, instance: Instance, port: int, address: str) -> None:
        """Run a command that ends at once, and leaves a server in the container."""
        script = '"$@" < /dev/null > /dev/null 2>&1 &'
        command = ["/bin/sh", "-c", script, "sh", PYTHON, "-c", SERVER, str(port), address]
        result = await run_command(self.server, instance, command)
        assert result.exit_code == 0


@pytest.fixture
async def pods(tmp_path: Path) -> AsyncIterator[Pods]:
    server = ForkServer(tmp_path, together=True)
    pods = Pods(tmp_path, server)
    try:
        yield pods
    finally:
        for instance in pods.running:
            instance.kill()
            await instance.wait()
        server.close()


@pytest.mark.parametrize("address", ["0.0.0.0", "6", "127.0.0.1"])
async def test_pods_listen_on_the_same_port(pods: Pods, address: str) -> None:
    one = await pods.start(ONE, [PORT], str(PORT), address)
    two = await pods.start(TWO, [PORT], str(PORT), address)

    # Each is reached at its address, and by itself at localhost.
    assert await pods.ask(one, PORT, TWO) == TWO
    assert await pods.ask(one, PORT, "127.0.0.1") == ONE
    assert await pods.ask(two, PORT, "localhost") == TWO


# Listens on IPv4 and IPv6 with separate sockets, as sshd and asyncio do; then prints a line.
BOTH = """
import socket, sys, time
port = int(sys.argv[1])
four, six = socket.socket(), socket.socket(socket.AF_INET6)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
for each, address in ((four, "0.0.0.0"), (six, "::")):
    each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    each.bind((address, port))
    each.listen()
print("listening", flush=True)
time.sleep(600)
"""
# Answers datagrams; the client does not connect, so the address is in each of its calls.
DATAGRAMS = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("0.0.0.0", int(sys.argv[1])))
print("listening", flush=True)
while True:
    data, client = server.recvfrom(100)
    server.sendto(server.getsockname()[0].encode(), client)
"""
DATAGRAM = """
import socket, sys
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(10)
client.sendto(b"who?", (sys.argv[2], int(sys.argv[1])))
print(client.recv(100).decode())
"""


async def test_ipv6_only_sockets_do_not_collide(pods: Pods) -> None:
    # Both start, which is what counts: starting waits for the line.
    await pods.start(ONE, None, str(PORT), program=BOTH)
    await pods.start(TWO, None, str(PORT), program=BOTH)


async def test_datagrams_stay_in_their_pod(pods: Pods) -> None:
    one = await pods.start(ONE, None, str(PORT), program=DATAGRAMS)
    two = await pods.start(TWO, None, str(PORT), program=DATAGRAMS)

    assert await pods.ask(one, PORT, "127.0.0.1", DATAGRAM) == ONE
    assert await pods.ask(two, PORT, "127.0.0.1", DATAGRAM) == TWO
    assert await pods.ask(one, PORT, TWO, DATAGRAM) == TWO


# Asks by which address others reach it, over IPv4 and a dual-stack socket.
OWN_ADDRESS = """
import socket, sys
for family, prefix in ((socket.AF_INET, ""), (socket.AF_INET6, "::ffff:")):
    with socket.socket(family, socket.SOCK_DGRAM) as asked:
        asked.connect((prefix + sys.argv[2], int(sys.argv[1])))
        print(asked.getsockname()[0].removeprefix("::ffff:"))
"""


async def test_a_connected_datagram_socket_has_the_address_of_its_pod(pods: Pods) -> None:
    one = await pods.start(ONE, None, str(PORT), "0.0.0.0")

    assert (await pods.ask(one, PORT, TWO, OWN_ADDRESS)).split() == [ONE, ONE]
    # The machine's own servers see what they would see without a cluster.
    assert (await pods.ask(one, PORT + 1, "127.0.0.53", OWN_ADDRESS)).split() == ["127.0.0.1"] * 2


async def test_connections_are_redirected(pods: Pods) -> None:
    with socket.create_server(("127.42.255.53", 0)) as server:
        redirects = {"127.42.255.53:53": server.getsockname()[1]}
        pod = await pods.start(ONE, None, str(PORT), "0.0.0.0", redirects=redirects)
        asking = asyncio.create_task(pods.ask(pod, 53, "127.42.255.53"))
        connection, _ = await asyncio.to_thread(server.accept)
        with connection:
            connection.sendall(b"hello")
        assert await asking == "hello"


async def test_other_ports_are_the_machines(pods: Pods) -> None:
    pod = await pods.start(ONE, [PORT], str(PORT + 1), "0.0.0.0")

    with socket.create_connection(("127.0.0.1", PORT + 1), 5) as connection:
        assert connection.recv(100) == b"127.0.0.1"
    assert await pods.ask(pod, PORT + 1, "127.0.0.1") == "127.0.0.1"


async def test_a_server_of_the_machine_is_reached_at_localhost(pods: Pods) -> None:
    pod = await pods.start(ONE, None, str(PORT), "0.0.0.0")
    with socket.create_server(("127.0.0.1", 0)) as server:
        asking = asyncio.create_task(pods.ask(pod, server.getsockname()[1], "127.0.0.1"))
        connection, _ = await asyncio.to_thread(server.accept)
        with connection:
            connection.sendall(b"hello")
        assert await asking == "hello"


async def test_what_a_command_has_left_running_has_the_ports_of_its_pod(pods: Pods) -> None:
    """As daemons that are started by `kubectl exec`."""
    one = await pods.start(ONE, None, str(PORT), "0.0.0.0")
    two = await pods.start(TWO, None, str(PORT), "0.0.0.0")
    await pods.leave(one, PORT + 1, "0.0.0.0")
    await pods.leave(two, PORT + 1, "0.0.0.0")

    for instance, address in ((one, ONE), (two, TWO)):
        async with asyncio.timeout(30):
            while await pods.ask(instance, PORT + 1, "127.0.0.1") != address:
                await asyncio.sleep(0.05)


# Prints the addresses of the interfaces, by the call that Open MPI makes.
INTERFACES = """
import array, fcntl, socket, struct
buffer = array.array("B", bytes(40 * 64))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
    request = struct.pack("iL", len(buffer), buffer.buffer_info()[0])
    length = struct.unpack("iL", fcntl.ioctl(asked, 0x8912, request))[0]
    for start in range(0, length, 40):
        name = bytes(buffer[start : start + 16])
        same = fcntl.ioctl(asked, 0x8915, name + bytes(24))
        assert same[20:24] == bytes(buffer[start + 20 : start + 24])
        up = struct.unpack_from("=H", fcntl.ioctl(asked, 0x8913, name + bytes(24)), 16)[0] & 1
        print(name.split(b"\\0")[0].decode(), socket.inet_ntoa(same[20:24]), up)
try:
    fcntl.ioctl(0, 0x8912, bytearray(16))
except OSError as error:
    print("no socket", error.errno)
"""


@pytest.fixture
def machine() -> list[str]:
    """What the program prints outside of pods."""
    command = [PYTHON, "-c", INTERFACES]
    printed = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60
    )
    return printed.stdout.splitlines()


async def test_a_pods_address_is_among_those_of_the_interfaces(
    pods: Pods, machine: list[str]
) -> None:
    one = await pods.start(ONE, [PORT], str(PORT), "0.0.0.0")
    seen = (await pods.ask(one, PORT, "", INTERFACES)).splitlines()
    others = [line.split()[0] for line in machine if not line.startswith(("lo ", "no socket"))]
    own = [f"{others[0]}:p {ONE} 1"] if others else []
    assert seen == [*machine[:-1], *own, machine[-1]]
