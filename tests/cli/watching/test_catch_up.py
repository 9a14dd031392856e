"""A summary is shown when every watch is up to date with the API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from traincrew.cli.display.objects import Pod, decode
from traincrew.cli.watching.catch_up import catch_up
from traincrew.engine.cache import Informer
from traincrew.engine.resources import PODS

if TYPE_CHECKING:
    from traincrew.engine.client import Client

DEADLINE = 60.0


class Server:
    """What an API server has, and how often it was asked for it."""

    def __init__(self, *versions: int) -> None:
        self.versions = list(versions)
        self.asked = asyncio.Event()

    async def list(self, _resource: object, _namespace: object, **_: object) -> dict[str, Any]:
        """Everything there is."""
        self.asked.set()
        return {"items": [document(version) for version in self.versions]}


def document(version: int) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": str(version)}
    return {"metadata": metadata}


def pod(version: int) -> Pod:
    return decode(document(version), Pod)


async def behind(server: Server, informer: Informer[Pod]) -> asyncio.Task[None]:
    """Someone who waits for a cache that has not been told everything."""
    task = asyncio.create_task(catch_up(cast("Client", server), [informer]))
    await server.asked.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_it_waits_for_existing_objects() -> None:
    server = Server(5)
    informer = Informer(cast("Client", server), PODS, Pod)
    waiting = await behind(server, informer)
    informer.changed(pod(3), "3")
    server.asked.clear()
    await server.asked.wait()
    assert not waiting.done()
    informer.changed(pod(5), "5")
    await asyncio.wait_for(waiting, DEADLINE)


async def test_it_does_not_wait_for_later_objects() -> None:
    server = Server(5)
    informer = Informer(cast("Client", server), PODS, Pod)
    informer.changed(pod(12), "12")
    await asyncio.wait_for(catch_up(cast("Client", server), [informer]), DEADLINE)


async def test_it_does_not_wait_for_deleted_objects() -> None:
    server = Server(5)
    informer = Informer(cast("Client", server), PODS, Pod)
    informer.changed(pod(3), "3")
    waiting = await behind(server, informer)
    server.versions.clear()
    informer.deleted(pod(6), "6")
    await asyncio.wait_for(waiting, DEADLINE)
