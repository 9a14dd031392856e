"""Host ports, pods with `hostNetwork`, and programs of the machine that have a pod's port."""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from local.node.support import CAPABILITIES, World, node_world, shell
from local.node.test_service_proxy import free_port
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import ENDPOINT_SLICES, SERVICES
from traincrew.local import sockets
from traincrew.local.node.machine.loopback import can_use, is_taken
from traincrew.local.node.machine.specs import NodeSpec
from traincrew.local.node.network.addresses import PodAddresses
from traincrew.local.node.network.hostports import HostPorts, PodPorts, taken_ports
from traincrew.local.node.network.serviceproxy import Backend, Listener, Served

if TYPE_CHECKING:
    from pathlib import Path

needs_own_ports = pytest.mark.skipif(
    not CAPABILITIES.namespaces or not CAPABILITIES.own_ports,
    reason=f"no ports of their own: {CAPABILITIES.reason or CAPABILITIES.why_no_own_ports}",
)

# Answers with its own address, as any program does that listens on all addresses.
SERVER = """exec python3 -c '
import socket
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("0.0.0.0", {port}))
server.listen()
print("listening", flush=True)
while True:
    with server.accept()[0] as connection:
        connection.sendall(connection.getsockname()[0].encode())
'"""


def on_host(port: int, **more: Any) -> dict[str, Any]:
    server = shell("server", SERVER.format(port=port), **more)
    return {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [server]}


async def answer(address: str, port: int) -> str:
    reader, writer = await asyncio.open_connection(address, port)
    try:
        return (await reader.read()).decode()
    finally:
        writer.close()


async def answered(world: World, address: str, port: int) -> str:
    async def reached() -> str:
        try:
            return await answer(address, port)
        except OSError:
            return ""

    return str(await world.until(reached, f"an answer of {address}:{port}"))


@needs_own_ports
async def test_a_pod_of_the_hosts_network_has_the_port_of_its_service(tmp_path: Path) -> None:
    """The Service's own listener must not keep the pod from listening."""
    port = free_port()
    async with node_world(tmp_path / "node") as world:
        service = await world.create(
            SERVICES, {"metadata": {"name": "ps"}, "spec": {"ports": [{"port": port}]}}
        )
        virtual = service["spec"]["clusterIP"]

        async def listens() -> bool:
            return is_taken(virtual, port)

        await world.until(listens, "the Service is served")
        declared = [{"containerPort": port}]
        await world.pod(on_host(port, ports=declared))
        address = (await world.ready())["podIP"]
        assert await world.output() == "listening\n"
        slices = {
            "metadata": {"name": "ps-1", "labels": {"kubernetes.io/service-name": "ps"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [address]}],
            "ports": [{"name": "", "port": port, "protocol": "TCP"}],
        }
        await world.create(ENDPOINT_SLICES, slices)

        async def served() -> bool:
            try:
                return bool(await answer(virtual, port) == address)
            except OSError:
                return False

        await world.until(served, "the Service answers")
        # Programs of the machine find it where they would look for it.
        assert await answered(world, "127.0.0.1", port) == address


@needs_own_ports
async def test_pods_of_different_nodes_have_one_port_each(tmp_path: Path) -> None:
    port = free_port()
    nodes = (NodeSpec(name="a"), NodeSpec(name="b"))
    async with node_world(tmp_path / "node", nodes=nodes) as world:
        addresses = set()
        for name in ("a", "b"):
            await world.pod({**on_host(port), "nodeName": name}, name)
            addresses.add((await world.ready(name))["podIP"])

            async def listening(pod: str = name) -> str:
                return await world.logs(pod)

            assert await world.until(listening, "listening") == "listening\n"
        assert len(addresses) == 2
        for address in addresses:
            assert await answered(world, address, port) == address


@needs_own_ports
async def test_pods_of_one_node_share_its_ports(tmp_path: Path) -> None:
    port = free_port()
    async with node_world(tmp_path / "node") as world:
        await world.pod(on_host(port), "first")
        first = (await world.ready("first"))["podIP"]
        await answered(world, first, port)
        text = "hostname; python3 -c 'import socket; socket.create_server((\"0.0.0.0\", {}))' 2>&1"
        second = {
            "hostNetwork": True,
            "restartPolicy": "Never",
            "containers": [shell("main", text.format(port) + "; true")],
        }
        name, *_, error = (await world.result(second, "second")).splitlines()
        assert name == "local"  # the node's
        assert "Address already in use" in error
        assert (await world.status("second"))["podIP"] == first


@needs_own_ports
async def test_a_host_port_is_served_on_localhost(tmp_path: Path) -> None:
    port = free_port()
    async with node_world(tmp_path / "node") as world:
        ports = [{"containerPort": 18555, "hostPort": port}]
        server = shell("server", SERVER.format(port=18555), ports=ports)
        await world.pod({"terminationGracePeriodSeconds": 0, "containers": [server]})
        address = (await world.ready())["podIP"]
        assert await answered(world, "127.0.0.1", port) == address


@needs_own_ports
async def test_a_program_of_the_machine_that_has_the_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as other:
        port = other.getsockname()[1]
        async with node_world(tmp_path / "node") as world:
            # Neither pod declares it: a Service sends it there, as an MxJob's does.
            spec = {"selector": {"role": "scheduler"}, "ports": [{"port": port}]}
            await world.create(SERVICES, {"metadata": {"name": "ps"}, "spec": spec})

            async def known() -> bool:
                return bool(world.node._informers.services.store.list())

            await world.until(known, "the Service is known")
            pod = {"containers": [shell("main", "sleep 600")]}
            await world.pod(pod, labels={"role": "scheduler"})
            event = await world.event("HostPortConflict")
    assert event["involvedObject"]["name"] == "p"
    assert event["message"].startswith(f"port {port} is taken on this machine by ")
    assert f"(process {os.getpid()} of user {getpass.getuser()})" in event["message"]


# -- rules ----------------------------------------------------------------------------------------


def pod_ports(*ports: dict[str, Any], **spec: Any) -> PodPorts:
    containers = [{"name": "main", "ports": list(ports)}]
    return PodPorts.of("ns", "p", {"containers": containers, **spec}, "127.42.0.1")


def test_host_ports_of_a_pod() -> None:
    sidecar = {
        "name": "s",
        "restartPolicy": "Always",
        "ports": [{"containerPort": 1, "hostPort": 2}],
    }
    init = {"name": "i", "ports": [{"containerPort": 3, "hostPort": 4}]}
    found = pod_ports(
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 81, "hostPort": 8081, "hostIP": "127.0.0.9"},
        {"containerPort": 82},
        {"containerPort": 83, "hostPort": 8083, "protocol": "UDP"},
        {"containerPort": 84, "hostPort": 8084, "hostIP": "192.0.2.1"},
        initContainers=[init, sidecar],
    )
    known = HostPorts()
    known.add("1", found)
    served = {where: what.backends for where, what in known.listeners().items()}
    assert served == {
        Listener("127.0.0.1", 2): (Backend("127.42.0.1", 1),),
        Listener("127.0.0.1", 8080): (Backend("127.42.0.1", 80),),
        Listener("127.0.0.9", 8081): (Backend("127.42.0.1", 81),),
    }
    known.remove("1")
    assert known.listeners() == {}


def test_a_program_that_takes_the_port_itself_is_not_in_its_own_way() -> None:
    """Without ports of its own a pod listens on all addresses of the machine."""
    ports = HostPorts()
    ports.own = False
    same = {"containerPort": 80, "hostPort": 80}
    ports.add("1", pod_ports(same, {"containerPort": 81, "hostPort": 8081}))
    ports.add("2", pod_ports({"containerPort": 90, "hostPort": 90}, hostNetwork=True))
    backend = Backend("127.42.0.1", 81)
    assert ports.listeners() == {
        Listener("127.0.0.1", 8081): Served((backend,), "ns", "p", kind="Pod")
    }
    # No Service may listen there either.
    assert ports.reserved() == {90}
    ports.own = True
    assert ports.reserved() == frozenset()


def a_service(selector: dict[str, str] | None, *ports: dict[str, Any]) -> AnyObject:
    body = {"metadata": {"name": "s"}, "spec": {"selector": selector, "ports": list(ports)}}
    return msgspec.convert(body, AnyObject)


def test_the_ports_of_a_pod_that_others_have() -> None:
    spec = {"containers": [{"name": "main", "ports": [{"containerPort": 1}]}]}
    services = [
        a_service(
            {"a": "b"}, {"port": 2}, {"port": 9, "targetPort": 3}, {"port": 9, "targetPort": "x"}
        ),
        a_service({"a": "b"}, {"port": 4, "protocol": "UDP"}),
        a_service({"a": "c"}, {"port": 5}),
        a_service(None, {"port": 6}),
    ]
    asked: list[int] = []

    def holder(port: int) -> str:
        asked.append(port)
        return "nc" if port in {1, 3} else ""

    found = list(taken_ports(spec, {"a": "b", "c": "d"}, services, holder))
    assert asked == [1, 2, 3]
    assert found == [(1, "nc"), (3, "nc")]


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::", "::1"])
def test_who_listens_on_a_port(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        everywhere, here = sockets.holder_of(port), sockets.holder_of(port, "127.0.0.1")
    described = f"(process {os.getpid()} of user {getpass.getuser()})"
    assert (described in everywhere) == (address in {"0.0.0.0", "::"})
    assert (described in here) == (address != "::1")
    assert sockets.holder_of(port, "127.0.0.1") == ""


def test_a_program_whose_descriptors_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = f"{int.from_bytes(bytes([127, 0, 0, 1]), sys.byteorder):08X}"
    line = f"0: {word}:2383 00000000:0000 0A 0:0 0:0 0 4123456789 0 77 1\n"
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text("header\n" + line)
    (tmp_path / "12").mkdir()
    monkeypatch.setattr(sockets, "_PROC", tmp_path)
    assert sockets.holder_of(0x2383, "127.0.0.1") == "a program of user 4123456789"
    assert sockets.holder_of(0x2383) == ""


def test_a_program_that_closes_descriptors_meanwhile_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "net").mkdir()
    line = "0: 00000000:2383 00000000:0000 0A 0:0 0:0 0 0 0 77 1\n"
    (tmp_path / "net/tcp").write_text("header\n" + line)
    (tmp_path / "12/fd").mkdir(parents=True)
    (tmp_path / "12/comm").write_text("nginx\n")
    # What cannot be read any more is in front of the socket and behind it.
    for name in ("0", "1", "3", "4"):
        (tmp_path / "12/fd" / name).touch()
    (tmp_path / "12/fd/2").symlink_to("socket:[77]")
    monkeypatch.setattr(sockets, "_PROC", tmp_path)
    assert sockets.holder_of(0x2383) == "nginx (process 12 of user root)"


@pytest.mark.skipif(not can_use("127.42.0.1"), reason="pods have no addresses here")
def test_pods_of_the_hosts_network_have_the_address_of_their_node(tmp_path: Path) -> None:
    addresses = PodAddresses(tmp_path)
    addresses.open()
    try:
        first = addresses.allocate("1", node="a")
        assert addresses.allocate("2", node="a") == first
        assert addresses.allocate("3", node="b") != first
        assert addresses.allocate("4") != first
        addresses.release("1")
        assert addresses.allocate("5", node="a") == first
        addresses.release("2")
        addresses.release("5")
        assert addresses.allocate("6", wanted=first) == first  # free again
    finally:
        addresses.close()
