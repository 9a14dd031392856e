"""The sockets of a cluster that runs, with its page: each is in the list of security.md."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from local.node.support import CAPABILITIES
from test_ports import TOGETHER, listed
from traincrew.cli.cluster.embedded import Embedded
from traincrew.cli.cluster.options import Options
from traincrew.cli.page.server import PageServer
from traincrew.engine.resources import PODS, SERVICES
from traincrew.engine.serving.accepting import listening
from traincrew.local.node.network import addresses

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE = 60.0


class Socket(NamedTuple):
    address: str
    port: int
    kind: str


def descendants(root: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
    found = {root}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def inodes(processes: set[int]) -> set[str]:
    found = set()
    for process in processes:
        with suppress(OSError):
            for descriptor in Path(f"/proc/{process}/fd").iterdir():
                with suppress(OSError):
                    found.add(str(descriptor.readlink()).removeprefix("socket:[").rstrip("]"))
    return found


def sockets() -> Iterator[Socket]:
    """The sockets on which this process and those below it can be reached."""
    own = inodes(descendants(os.getpid()))
    for kind, state in (("tcp", "0A"), ("udp", "07")):
        for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == state and fields[9] in own:
                address, _, port = fields[1].partition(":")
                packed = bytes.fromhex(address)[::-1]
                yield Socket(socket.inet_ntoa(packed), int(port, 16), kind)
    for table in ("tcp6", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in own and fields[3] in {"0A", "07"}:
                yield Socket(fields[1], 0, table)
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[3], 16) & 0x10000 and fields[6] in own:  # it accepts connections
            yield Socket(fields[7] if len(fields) > 7 else "", 0, "unix")


@pytest.mark.skipif(not CAPABILITIES.namespaces, reason=f"no namespaces: {CAPABILITIES.reason}")
async def test_every_open_port_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINCREW_HOME", str(tmp_path))
    before = set(sockets())
    embedded = Embedded(Options(directory=str(tmp_path)))
    await embedded.start()
    serving = asyncio.create_task(embedded.run())
    page = PageServer(embedded.cluster.client, "a cluster")
    try:
        await page.start()
        client = embedded.cluster.client
        spec = {"ports": [{"port": 8080}], "type": "NodePort", "selector": {"app": "a"}}
        await client.create(
            SERVICES,
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec},
            "default",
        )
        container = {"name": "a", "image": "python:3.11", "stdin": True, "command": ["cat"]}
        await client.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a"},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
            },
            "default",
        )
        async with asyncio.timeout(DEADLINE):
            while not set(listening().values()) >= TOGETHER or not any(
                each.kind == "unix" for each in set(sockets()) - before
            ):
                assert not serving.done()
                await asyncio.sleep(0.05)
        known, rows = listening(), listed()
        assert set(known.values()) <= rows.keys()
        for each in set(sockets()) - before:
            if each in known:
                continue
            other = "attach" if each.kind == "unix" else "network"
            assert other in rows
            if each.kind == "unix":
                assert each.address.endswith("/attach"), each
            else:
                assert each.address.startswith("127.")
                assert each.port == addresses._CLAIM_PORT, each
    finally:
        await page.stop()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await embedded.stop()
    assert not listening()
