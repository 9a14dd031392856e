"""The backlog of slow watchers: shared among them, and limited for each."""

from __future__ import annotations

import asyncio

import pytest

from local.apiserver.support import AUTHORIZATION, DEADLINE, MAPS, Api, config_map
from traincrew.local.apiserver.reads import memory
from traincrew.local.apiserver.reads import watch as watch_module

WATCHERS = 10


async def stalled(api: Api, query: str = "") -> asyncio.StreamWriter:
    """Open a watch and do not read its response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port, limit=1024)
    head = f"GET {MAPS}?watch=1{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTHORIZATION}\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"\r\n\r\n")
    return writer


async def test_slow_watchers_share_their_queued_events(api: Api) -> None:
    since = (await api.get(MAPS)).ok()["metadata"]["resourceVersion"]
    writers = [await stalled(api, f"&resourceVersion={since}") for _ in range(WATCHERS)]
    hub = api.server._hub
    for number in range(80):
        (await api.post(MAPS, config_map(f"map-{number}", {"key": "x" * 200_000}))).ok(201)

    watches = list(hub._resource_of)
    assert len(watches) == WATCHERS
    alone = [watch._connection.waiting() for watch in watches]
    assert max(alone) < 3 * watch_module.BLOCK
    waiting = [line for watch in watches for line in watch._lines]
    assert sum(map(len, waiting)) > WATCHERS * 2_000_000, "they are slow indeed"
    distinct = {id(line): len(line) for line in waiting}
    assert sum(distinct.values()) < 80 * 201_000
    for writer in writers:
        writer.close()


async def test_initial_events_are_encoded_when_they_are_sent(api: Api) -> None:
    for number in range(80):
        (await api.post(MAPS, config_map(f"map-{number}", {"key": "x" * 200_000}))).ok(201)
    writers = [await stalled(api) for _ in range(WATCHERS)]

    watches = list(api.server._hub._resource_of)
    assert max(watch._connection.waiting() for watch in watches) < 3 * watch_module.BLOCK
    assert not any(watch._lines for watch in watches)
    for writer in writers:
        writer.close()


@pytest.mark.parametrize("limit", ["BACKLOG_BYTES", "BACKLOG_EVENTS"])
async def test_a_watcher_that_does_not_read_its_initial_events_is_disconnected(
    api: Api, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    for number in range(60):
        (await api.post(MAPS, config_map(f"map-{number}", {"key": "x" * 200_000}))).ok(201)
    monkeypatch.setattr(watch_module, limit, 10)
    writer = await stalled(api)
    hub = api.server._hub
    async with asyncio.timeout(DEADLINE):
        number = 0
        while len(hub):
            number += 1
            (await api.post(MAPS, config_map(f"more-{number}"))).ok(201)
    writer.close()


async def test_memory_is_returned_after_watchers_have_disconnected(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed = asyncio.Event()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(memory, "DELAY", 0.05)
    monkeypatch.setattr(memory, "_trim", lambda: loop.call_soon_threadsafe(trimmed.set))
    async with api.watch(MAPS):
        assert not trimmed.is_set()
    async with asyncio.timeout(DEADLINE):
        await trimmed.wait()
