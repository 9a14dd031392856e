"""Programs in pods that query a DNS server themselves resolve the cluster's names."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from local.node.support import World, node_world
from traincrew.engine.resources import SERVICES
from traincrew.local.images import Environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

LOOK_UP = """
package main

import (
\t"context"
\t"fmt"
\t"net"
\t"os"
)

func main() {
\tresolver := &net.Resolver{PreferGo: true}
\taddresses, err := resolver.LookupHost(context.Background(), os.Args[1])
\tif err != nil {
\t\tfmt.Println(err)
\t\tos.Exit(1)
\t}
\tfmt.Println(addresses[0])
}
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with node_world(tmp_path / "node") as world:
        yield world


async def look_up(world: World, command: str) -> tuple[str, str]:
    """Return the output of a program in a pod for a Service's name, and the Service's address."""
    service = await world.create(
        SERVICES, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    )
    known = "getent -s hosts:dns hosts web.default.svc.cluster.local >/dev/null"
    text = await world.result(f"until {known}; do sleep 0.05; done; {command}")
    return text, service["spec"]["clusterIP"]


@pytest.mark.skipif(shutil.which("busybox") is None, reason="no busybox")
async def test_nslookup(world: World) -> None:
    text, address = await look_up(world, "busybox nslookup web.default.svc.cluster.local")
    assert f"Address: {address}" in text


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go")
async def test_the_go_resolver(world: World, tmp_path: Path) -> None:
    source = tmp_path / "lookup.go"
    source.write_text(LOOK_UP)
    # Without cgo the resolver is Go's own, not the C library's.
    build = await asyncio.create_subprocess_exec(
        *("go", "build", "-o", str(tmp_path / "lookup"), str(source)),
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-trimpath"},
        cwd=tmp_path,
    )
    assert await build.wait() == 0
    world.images.environment = Environment("go", files={"/lookup": tmp_path / "lookup"})
    text, address = await look_up(world, "rm -f /etc/hosts; touch /etc/hosts; /lookup web")
    assert text.strip() == address
