"""The cluster's names, pods' resolv.conf, and the DNS server."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import TYPE_CHECKING, Any

import dns.message
import dns.query
import dns.rcode
import msgspec
import pytest

from traincrew.engine.objects import AnyObject
from traincrew.local.node.network import dns_server
from traincrew.local.node.network.dns_server import DnsServer
from traincrew.local.node.network.messages import MalformedError, Record, RecordType, read_answers
from traincrew.local.node.network.resolvconf import Resolver, pod_resolver
from traincrew.local.node.network.zone import ClusterNames, Zone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SUFFIX = "default.svc.cluster.local"
MACHINE = Resolver(("10.0.0.1", "10.0.0.2"), ("office.example",), ("timeout:1", "rotate"))


def an_object(name: str, labels: dict[str, str] | None = None, **body: Any) -> AnyObject:
    metadata = {"name": name, "namespace": "default", "labels": labels or {}}
    return msgspec.convert({"metadata": metadata, **body}, AnyObject)


def a_zone() -> Zone:
    services = [
        an_object(
            "web",
            spec={"clusterIP": "127.64.0.9", "ports": [{"name": "http", "port": 80}]},
        ),
        an_object("job", spec={"clusterIP": "None"}),
        an_object("nobody", spec={"clusterIP": "None"}),
        an_object("elsewhere", spec={"type": "ExternalName", "externalName": "example.org"}),
        an_object("inside", spec={"type": "ExternalName", "externalName": f"web.{SUFFIX}"}),
        an_object("number", spec={"type": "ExternalName", "externalName": "192.0.2.1"}),
        an_object("pending", spec={"type": "ClusterIP"}),
    ]
    slices = [
        an_object(
            "job-1",
            {"kubernetes.io/service-name": "job"},
            ports=[{"name": "ssh", "port": 2222, "protocol": "TCP"}, {"port": 1}],
            endpoints=[
                {"addresses": ["127.42.0.1"], "hostname": "job-worker-0"},
                {"addresses": ["127.42.0.3"]},
                {
                    "addresses": ["127.42.0.4"],
                    "hostname": "job-worker-1",
                    "conditions": {"ready": False},
                },
                # Ready while it terminates: `publishNotReadyAddresses`.
                {
                    "addresses": ["127.42.0.5"],
                    "hostname": "job-worker-2",
                    "conditions": {"ready": True, "serving": False, "terminating": True},
                },
            ],
        ),
        an_object(
            "web-1",
            {"kubernetes.io/service-name": "web"},
            ports=[{"name": "http", "port": 8080, "protocol": "TCP"}],
            endpoints=[{"addresses": ["127.42.0.6"], "hostname": "backend"}],
        ),
        an_object(
            "left-1",  # of a Service that is gone
            {"kubernetes.io/service-name": "left"},
            ports=[],
            endpoints=[{"addresses": ["127.42.0.7"], "hostname": "pod"}],
        ),
    ]
    return Zone(services, slices)


@pytest.mark.parametrize(
    ("name", "addresses"),
    [
        (f"web.{SUFFIX}", ["127.64.0.9"]),
        (f"job.{SUFFIX}", ["127.42.0.1", "127.42.0.3", "127.42.0.5"]),
        (f"job-worker-2.job.{SUFFIX}", ["127.42.0.5"]),
        (f"job-worker-0.job.{SUFFIX}", ["127.42.0.1"]),
        (f"127-42-0-3.job.{SUFFIX}", ["127.42.0.3"]),
        ("127-42-0-2.default.pod.cluster.local", ["127.42.0.2"]),
    ],
)
def test_addresses(name: str, addresses: list[str]) -> None:
    found = a_zone().find(name, RecordType.A)
    assert list(found.records) == [Record.address(address) for address in addresses]


@pytest.mark.parametrize(
    "name",
    [
        f"nobody.{SUFFIX}",  # a headless Service without a ready pod
        f"number.{SUFFIX}",  # an alias is of a name
        f"pending.{SUFFIX}",
        f"job-worker-0.{SUFFIX}",  # a pod's bare name
        f"job-worker-1.job.{SUFFIX}",  # not ready
        f"backend.web.{SUFFIX}",  # its Service is not headless
        f"pod.left.{SUFFIX}",
        f"other.{SUFFIX}",
        "web.other.svc.cluster.local",
        "x-y-z.default.pod.cluster.local",
        "cluster.local.default.pod.cluster.local",
    ],
)
def test_names_that_do_not_exist(name: str) -> None:
    assert not a_zone().find(name, RecordType.A).exists


@pytest.mark.parametrize("name", ["cluster.local", "svc.cluster.local", f"web.{SUFFIX}"])
def test_existing_names_have_no_ipv6_address(name: str) -> None:
    # An empty answer, not NXDOMAIN, which would also deny the IPv4 address.
    found = a_zone().find(name, RecordType.AAAA)
    assert (found.exists, found.records) == (True, ())


def test_ports() -> None:
    zone = a_zone()
    web = zone.find(f"_http._tcp.web.{SUFFIX}", RecordType.SRV).records
    assert web == (Record.service(80, f"web.{SUFFIX}"),)
    ssh = zone.find(f"_ssh._tcp.job.{SUFFIX}", RecordType.SRV).records
    assert ssh == (
        Record.service(2222, f"job-worker-0.job.{SUFFIX}"),
        Record.service(2222, f"127-42-0-3.job.{SUFFIX}"),
        Record.service(2222, f"job-worker-2.job.{SUFFIX}"),
    )


def test_reverse_lookup() -> None:
    zone = a_zone()
    pod = zone.find("1.0.42.127.in-addr.arpa", RecordType.PTR).records
    assert pod == (Record.pointer(f"job-worker-0.job.{SUFFIX}"),)
    unnamed = zone.find("3.0.42.127.in-addr.arpa", RecordType.PTR).records
    assert unnamed == (Record.pointer(f"127-42-0-3.job.{SUFFIX}"),)
    assert not zone.find("4.0.42.127.in-addr.arpa", RecordType.PTR).exists
    service = zone.find("9.0.64.127.in-addr.arpa", RecordType.PTR).records
    assert service == (Record.pointer(f"web.{SUFFIX}"),)


def test_external_names_are_aliases() -> None:
    for kind in (RecordType.A, RecordType.AAAA):
        found = a_zone().find(f"elsewhere.{SUFFIX}", kind)
        assert found == (True, (Record.alias("example.org"),), "example.org")
    alias = a_zone().find(f"elsewhere.{SUFFIX}", RecordType.CNAME)
    assert alias == (True, (Record.alias("example.org"),), "")


def test_the_version_of_the_specification() -> None:
    found = a_zone().find("dns-version.cluster.local", RecordType.TXT)
    assert found.records == (Record.text("1.1.0"),)


def test_names_with_addresses() -> None:
    """What a hosts file gets where the server cannot be reached."""
    assert a_zone().addresses() == {
        f"web.{SUFFIX}": ("127.64.0.9",),
        f"job.{SUFFIX}": ("127.42.0.1", "127.42.0.3", "127.42.0.5"),
        f"job-worker-0.job.{SUFFIX}": ("127.42.0.1",),
        f"127-42-0-3.job.{SUFFIX}": ("127.42.0.3",),
        f"job-worker-2.job.{SUFFIX}": ("127.42.0.5",),
    }


def test_the_zone_is_authoritative_for_cluster_names_only() -> None:
    assert Zone.is_authority_for("cluster.local")
    assert Zone.is_authority_for("1.0.42.127.in-addr.arpa")
    for other in ("example.org", "mycluster.local", "8.8.8.8.in-addr.arpa", "localhost", ""):
        assert not Zone.is_authority_for(other)


def test_names_follow_changes() -> None:
    services: list[AnyObject] = []
    names = ClusterNames(lambda: services, list)
    name = f"s.{SUFFIX}"
    assert not names.zone().find(name, RecordType.A).exists
    services.append(an_object("s", spec={"clusterIP": "127.64.0.1"}))
    names.changed()
    assert names.zone().find(name, RecordType.A).exists


# -- resolv.conf ----------------------------------------------------------------------------------


def test_resolv_conf_is_parsed_by_the_manual() -> None:
    text = """
    # a comment
    domain old.example
    search office.example lab.example ; and another
    nameserver 10.0.0.1
    nameserver 10.0.0.1
    nameserver fe80::1
    options timeout:1
    options rotate
    nonsense
    nameserver
    """
    assert Resolver.parse(text) == Resolver(
        ("10.0.0.1", "fe80::1"), ("office.example", "lab.example"), ("timeout:1", "rotate")
    )


def test_a_pod_queries_the_cluster_first() -> None:
    resolver = pod_resolver({}, "team", "127.42.255.53", MACHINE)
    assert resolver is not None
    assert resolver.text() == (
        "search team.svc.cluster.local svc.cluster.local cluster.local office.example\n"
        "nameserver 127.42.255.53\n"
        "options ndots:5\n"
    )


@pytest.mark.parametrize(
    ("spec", "server"),
    [
        ({"dnsPolicy": "Default"}, "127.42.255.53"),
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, "127.42.255.53"),
        ({"dnsPolicy": "ClusterFirst"}, ""),
    ],
)
def test_the_machines_file_is_used_where_the_cluster_is_not_queried(
    spec: dict[str, Any], server: str
) -> None:
    assert pod_resolver(spec, "team", server, MACHINE) is None


def test_cluster_first_with_host_net() -> None:
    spec = {"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True}
    resolver = pod_resolver(spec, "team", "127.42.255.53", MACHINE)
    assert resolver is not None
    assert resolver.servers == ("127.42.255.53",)


CONFIG = {
    "nameservers": ["1.2.3.4"],
    "searches": ["own.example"],
    "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
}


def test_a_pods_own_servers_and_options() -> None:
    alone = pod_resolver({"dnsPolicy": "None", "dnsConfig": CONFIG}, "team", "", MACHINE)
    assert alone == Resolver(("1.2.3.4",), ("own.example",), ("ndots:2", "edns0"))

    added = pod_resolver({"dnsConfig": CONFIG}, "team", "127.42.255.53", MACHINE)
    assert added is not None
    assert added.servers == ("127.42.255.53", "1.2.3.4")
    assert added.domains[-1] == "own.example"
    assert added.options == ("ndots:2", "edns0")


def test_limits_of_resolvers_are_kept() -> None:
    config = {
        "nameservers": [f"1.1.1.{n}" for n in range(3)],
        "searches": [f"{'x' * 60}.{n}" for n in range(100)],
    }
    resolver = pod_resolver({"dnsConfig": config}, "team", "127.42.255.53", MACHINE)
    assert resolver is not None
    assert len(resolver.servers) == 3
    assert len(resolver.domains) <= 32
    assert len(" ".join(resolver.domains)) <= 2048


# -- the server -----------------------------------------------------------------------------------


class Machine(asyncio.DatagramProtocol):
    """A DNS server of the machine that knows one name, or returns a fixed answer."""

    def __init__(self, answer: bytes | None = None) -> None:
        self.answer = answer
        self.transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, addr: Any) -> None:
        query = dns.message.from_wire(data)
        response = dns.message.make_response(query)
        name = query.question[0].name
        response.answer.append(dns.rrset.from_text(name, 60, "IN", "A", "192.0.2.1"))
        self.transport.sendto(self.answer or response.to_wire(), addr)


@pytest.fixture
async def upstream(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machine]:
    loop = asyncio.get_running_loop()
    machine = Machine()
    transport, _ = await loop.create_datagram_endpoint(lambda: machine, ("127.0.0.1", 0))
    monkeypatch.setattr(dns_server, "DNS_PORT", transport.get_extra_info("sockname")[1])
    monkeypatch.setattr(dns_server, "_FORWARD_SECONDS", 0.2)
    yield machine
    transport.close()


@pytest.fixture
async def server(upstream: Machine) -> AsyncIterator[DnsServer]:
    zone = a_zone()
    server = DnsServer("127.0.0.1", lambda: zone, lambda: ["127.0.0.1"])
    await server.start(0)
    yield server
    await server.close()


async def ask(server: DnsServer, name: str, kind: str = "A", *, tcp: bool = False) -> Any:
    query = dns.message.make_query(name, kind)
    method = dns.query.tcp if tcp else dns.query.udp
    return await asyncio.to_thread(method, query, server.address, port=server.port, timeout=20)


@pytest.mark.parametrize("tcp", [False, True])
async def test_cluster_names_are_answered(server: DnsServer, tcp: bool) -> None:
    answer = await ask(server, f"web.{SUFFIX}", tcp=tcp)
    assert answer.answer[0][0].address == "127.64.0.9"
    unknown = await ask(server, f"other.{SUFFIX}", tcp=tcp)
    assert unknown.rcode() == dns.rcode.NXDOMAIN


async def test_other_names_are_forwarded(server: DnsServer) -> None:
    answer = await ask(server, "example.org")
    assert answer.answer[0][0].address == "192.0.2.1"


@pytest.mark.usefixtures("upstream")
async def test_a_machine_without_servers_knows_no_other_names() -> None:
    zone = a_zone()
    server = DnsServer("127.0.0.1", lambda: zone, list)
    await server.start(0)
    try:
        answer = await ask(server, "example.org")
    finally:
        await server.close()
    assert answer.rcode() == dns.rcode.SERVFAIL


@pytest.mark.parametrize("tcp", [False, True])
async def test_an_alias_is_answered_with_what_it_is_an_alias_of(
    server: DnsServer, tcp: bool
) -> None:
    answer = await ask(server, f"elsewhere.{SUFFIX}", tcp=tcp)
    alias, address = answer.answer
    assert str(alias) == f"elsewhere.{SUFFIX}. 5 IN CNAME example.org."
    assert str(address) == "example.org. 5 IN A 192.0.2.1"
    inside = await ask(server, f"inside.{SUFFIX}", tcp=tcp)
    assert [str(each) for each in inside.answer] == [
        f"inside.{SUFFIX}. 5 IN CNAME web.{SUFFIX}.",
        f"web.{SUFFIX}. 5 IN A 127.64.0.9",
    ]


async def test_an_alias_of_an_unknown_name(server: DnsServer, upstream: Machine) -> None:
    upstream.answer = b"\0" * 12
    answer = await ask(server, f"elsewhere.{SUFFIX}")
    assert answer.rcode() == dns.rcode.SERVFAIL


async def test_an_early_query_waits_until_the_names_are_known() -> None:
    asked, synced = asyncio.Event(), asyncio.Event()
    zone = Zone([], [])

    async def wait() -> None:
        asked.set()
        await synced.wait()

    server = DnsServer("127.0.0.1", lambda: zone, list, wait)
    await server.start(0)
    try:
        early = asyncio.create_task(ask(server, f"web.{SUFFIX}"))
        await asked.wait()
        zone = a_zone()
        synced.set()
        assert (await early).answer[0][0].address == "127.64.0.9"
    finally:
        await server.close()


async def test_a_query_is_not_denied_while_names_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dns_server, "_SYNC_SECONDS", 0.01)
    server = DnsServer("127.0.0.1", a_zone, list, asyncio.Event().wait)  # type: ignore[arg-type]
    await server.start(0)
    try:
        assert (await ask(server, f"web.{SUFFIX}")).rcode() == dns.rcode.SERVFAIL
    finally:
        await server.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0" * 11,
        struct.pack("!6H", 1, 0x8180, 0, 1, 0, 0) + b"\xc0\x0c" + b"\0" * 10,  # points at itself
        struct.pack("!6H", 1, 0x8180, 1, 0, 0, 0) + b"\1a\xc0\x0c",  # round in circles
        struct.pack("!6H", 1, 0x8180, 0, 9, 0, 0) + b"\0" + struct.pack("!2HIH", 1, 1, 0, 4),
        struct.pack("!6H", 1, 0x8180, 1, 0, 0, 0) + b"\1\xff\0\0\1\0\1",
    ],
)
def test_broken_answers_of_other_servers(answer: bytes) -> None:
    with pytest.raises(MalformedError):
        read_answers(answer)


async def test_an_answer_to_another_query_is_ignored(server: DnsServer, upstream: Machine) -> None:
    other = dns.message.make_query("evil.example", "A")
    upstream.answer = dns.message.make_response(other).to_wire()
    answer = await ask(server, "example.org")
    assert answer.rcode() == dns.rcode.SERVFAIL


async def test_a_server_that_is_silent_is_left_out_for_a_while(
    upstream: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def silent(server: str, message: bytes) -> bytes:
        asked.append(server)
        raise TimeoutError

    monkeypatch.setattr(dns_server, "_ask_by_datagram", silent)
    server = DnsServer("127.0.0.1", a_zone, lambda: ["127.0.0.1"])
    await server.start(0)
    try:
        for _ in range(4):
            assert (await ask(server, "worker-1")).rcode() == dns.rcode.SERVFAIL
        assert len(asked) == 2
        monkeypatch.undo()
        monkeypatch.setattr(dns_server, "DNS_PORT", upstream.port)
        monkeypatch.setattr(dns_server, "_LEFT_OUT_SECONDS", 0.0)
        answer = await ask(server, "example.org")
        assert answer.answer[0][0].address == "192.0.2.1"
    finally:
        await server.close()


async def test_invalid_messages_are_ignored(server: DnsServer) -> None:
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as garbage:
        garbage.setblocking(False)
        garbage.connect((server.address, server.port))
        for length in (0, 1, 12, 500):
            await loop.sock_sendall(garbage, os.urandom(length))
    reader, writer = await asyncio.open_connection(server.address, server.port)
    writer.write(struct.pack("!H", 5) + b"12345")
    assert await reader.read() == b""
    writer.close()

    assert (await ask(server, f"web.{SUFFIX}")).rcode() == dns.rcode.NOERROR


async def test_a_taken_port_is_replaced_by_the_next() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = DnsServer("127.0.0.1", a_zone, list)
        await server.start(taken.getsockname()[1], 0)
        assert server.port not in {0, taken.getsockname()[1]}
        assert server.redirects() == {"127.0.0.1:53": server.port}
        await server.close()
        with pytest.raises(OSError, match="in use"):
            await server.start(taken.getsockname()[1])
