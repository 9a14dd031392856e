"""The network of pods: names by DNS, and ports of their own where supported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.node.support import CAPABILITIES, World, node_world, shell
from traincrew.engine.resources import ENDPOINT_SLICES, PODS, SERVICES
from traincrew.local.node import node
from traincrew.local.node.machine.capabilities import Capabilities
from traincrew.local.node.machine.loopback import can_use

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from traincrew.local.node import Node

pytestmark = [
    pytest.mark.skipif(not CAPABILITIES.namespaces, reason=f"no namespaces: {CAPABILITIES.reason}"),
    pytest.mark.skipif(not can_use("127.42.0.1"), reason="pods have no addresses here"),
]
# Queries DNS alone, as programs do that ignore hosts files.
LOOK_UP = "getent -s hosts:dns ahostsv4 {} | head -n 1 | cut -d ' ' -f 1"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node") as world:
        yield world


@pytest.fixture(params=["port 53", "another port"])
async def any_world(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    if request.param == "another port":
        # Only root may listen on port 53.
        monkeypatch.setattr(node, "DNS_PORT", 0)
    async with node_world(tmp_path / "node") as world:
        yield world


async def test_services_have_names_in_dns(any_world: World) -> None:
    world = any_world
    service = await world.create(
        SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    )
    address = service["spec"]["clusterIP"]
    names = ("web", "web.default", "web.default.svc.cluster.local")
    # A new Service may not be in the cache yet.
    script = f"until getent -s hosts:dns hosts {names[-1]} >/dev/null; do sleep 0.05; done\n"
    text = await world.result(script + "\n".join(LOOK_UP.format(name) for name in names))
    assert text.split() == [address] * 3


HEADLESS = {"metadata": {"name": "set"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}


async def endpoints(world: World, *entries: dict[str, object]) -> None:
    """Do as the controller of the headless Service `set`, which does not run here."""
    await world.create(SERVICES, HEADLESS)
    document = {
        "metadata": {"name": "set-1", "labels": {"kubernetes.io/service-name": "set"}},
        "addressType": "IPv4",
        "endpoints": list(entries),
        "ports": [],
    }
    await world.create(ENDPOINT_SLICES, document)


# Each name with its address, or `-`.
RESOLVE = """
until getent hosts set >/dev/null; do sleep 0.05; done
for name in {}; do
  address=$(getent ahostsv4 $name | head -n 1 | cut -d ' ' -f 1); echo $name ${{address:--}}
done
"""
NAMES = {
    "single": "-",  # a pod's bare name
    "worker": "-",
    "worker.set": "127.42.9.1",
    "worker.set.default.svc": "127.42.9.1",
    "worker.set.default.svc.cluster.local": "127.42.9.1",
    "starting.set": "-",  # not ready
    "lonely.nowhere": "-",  # a subdomain without a Service
    "lonely.nowhere.default.svc.cluster.local": "-",
    "set.default": "127.42.9.1",
    "set.other": "-",
}


@pytest.mark.parametrize("reaches", ["its server", "its hosts file"])
async def test_pods_resolve_what_the_clusters_dns_knows_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reaches: str
) -> None:
    if reaches == "its hosts file":

        async def without(_: Node) -> None:
            return None

        monkeypatch.setattr(node.Node, "_start_dns", without)
    async with node_world(tmp_path / "node") as world:
        await world.pod({"containers": [shell("main", "sleep 600")]}, "single")
        lonely = {"hostname": "lonely", "subdomain": "nowhere"}
        await world.pod({**lonely, "containers": [shell("main", "sleep 600")]}, "l")
        await world.ready("single")
        await world.ready("l")
        await endpoints(
            world,
            {"addresses": ["127.42.9.1"], "hostname": "worker"},
            {
                "addresses": ["127.42.9.2"],
                "hostname": "starting",
                "conditions": {"ready": False},
            },
        )
        text = await world.result(RESOLVE.format(" ".join(NAMES)))
        assert dict(line.split() for line in text.splitlines()) == NAMES


async def test_a_pod_has_a_fully_qualified_name(world: World) -> None:
    spec = {
        "hostname": "worker",
        "subdomain": "set",
        "setHostnameAsFQDN": True,
        "restartPolicy": "Never",
        "containers": [shell("main", "hostname; getent hosts $(hostname); cat /etc/hosts")],
    }
    name, own, *file = (await world.result(spec)).splitlines()
    address = (await world.status())["podIP"]
    assert name == "worker.set.default.svc.cluster.local"
    assert own.split() == [address, name, "worker"]
    assert file[-1] == f"{address}\t{name}\tworker"


async def test_a_name_that_is_too_long_is_reported(world: World) -> None:
    spec = {
        "hostname": "w" * 40,
        "subdomain": "set",
        "setHostnameAsFQDN": True,
        "containers": [shell("main", "true")],
    }
    await world.pod(spec)
    event = await world.event("FailedCreatePodSandBox")
    assert "70 characters requested" in event["message"]
    assert (await world.status())["phase"] == "Pending"
    await world.client.delete(PODS, "p", "default")
    await world.gone()


async def test_external_names_resolve(world: World) -> None:
    web = await world.create(
        SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    )
    spec = {"type": "ExternalName", "externalName": "web.default.svc.cluster.local"}
    await world.create(SERVICES, {"metadata": {"name": "alias"}, "spec": spec})
    text = await world.result(
        "until getent ahostsv4 alias >/dev/null; do sleep 0.05; done; " + LOOK_UP.format("alias")
    )
    assert text.strip() == web["spec"]["clusterIP"]


async def test_pods_see_the_clusters_domains(world: World) -> None:
    text = await world.result("cat /etc/resolv.conf")
    assert text.startswith("search default.svc.cluster.local svc.cluster.local cluster.local")
    assert "options ndots:5" in text


async def test_pods_may_bring_their_own_resolv_conf(world: World) -> None:
    pod = {
        "restartPolicy": "Never",
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["192.0.2.53"], "searches": ["lab.example"]},
        "containers": [shell("main", "cat /etc/resolv.conf")],
    }
    assert await world.result(pod) == "search lab.example\nnameserver 192.0.2.53\n"


SERVE = """python3 -c '
import socket
server = socket.create_server(("0.0.0.0", 18440))
while True:
    with server.accept()[0] as connection:
        connection.sendall(connection.getsockname()[0].encode())
'"""
ASK = """python3 -c '
import socket, sys, time
while True:
    try:
        with socket.create_connection(("127.0.0.1", 18440)) as connection:
            print(connection.recv(100).decode(), flush=True)
            break
    except ConnectionRefusedError:
        time.sleep(0.05)
'"""


async def test_pods_listen_on_one_port_that_no_manifest_declares(world: World) -> None:
    for name in ("one", "two"):
        spec = {"containers": [shell("server", SERVE), shell("client", f"{ASK}; sleep 600")]}
        await world.pod(spec, name)
    for name in ("one", "two"):

        async def answered(pod: str = name) -> str:
            return await world.logs(pod, "client")

        status = await world.ready(name)
        assert (await world.until(answered)).strip() == status["podIP"]


async def test_ports_that_collide_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def without(_: Node) -> Capabilities:
        reason = "seccomp: Device or resource busy"
        return Capabilities(
            namespaces=True,
            overlay=True,
            addresses=True,
            ports_reason=reason,
            user_namespace=CAPABILITIES.user_namespace,
        )

    monkeypatch.setattr(node.Node, "_capabilities", without)
    async with node_world(tmp_path / "node") as world:
        server = shell("server", "true", ports=[{"containerPort": 8080}])
        await world.pod({"restartPolicy": "Never", "containers": [server]})
        event = await world.event("NotEmulated")
        assert "spec.containers[0].ports" in event["message"]
        assert "seccomp: Device or resource busy" in event["message"]
        assert (await world.phase("Succeeded"))["phase"] == "Succeeded"
