"""WATCH over websockets, as fabric8 and other clients open it: a text frame for each event."""

import asyncio
from typing import Any

import aiohttp
import pytest

from local.apiserver.support import DEADLINE, MAPS, Api, config_map
from traincrew.local.apiserver.http.faults import Fault


async def connect(api: Api, path: str = MAPS, **query: str) -> aiohttp.ClientWebSocketResponse:
    own = {"Origin": f"http://127.0.0.1:{api.server.port}"}
    parameters = {"watch": "true", **query}
    url = api.server.url + path
    return await api.session.ws_connect(url, params=parameters, headers=own, protocols=["x"])


async def event(socket: aiohttp.ClientWebSocketResponse) -> tuple[str, dict[str, Any]]:
    async with asyncio.timeout(DEADLINE):
        found = await socket.receive_json()
    return found["type"], found["object"]


async def closed(socket: aiohttp.ClientWebSocketResponse) -> int | None:
    """Return the code with which the server closes the websocket."""
    async with asyncio.timeout(DEADLINE):
        message = await socket.receive()
    assert message.type in {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED}, message
    return socket.close_code


async def test_each_event_is_a_text_frame(api: Api) -> None:
    (await api.post(MAPS, config_map("first"))).ok(201)
    async with await connect(api) as socket:
        kind, found = await event(socket)
        assert (kind, found["metadata"]["name"], found["kind"]) == ("ADDED", "first", "ConfigMap")
        await asyncio.gather(*(api.post(MAPS, config_map(f"m{i}")) for i in range(20)))
        names = [(await event(socket))[1]["metadata"]["name"] for _ in range(20)]
        assert sorted(names) == sorted(f"m{i}" for i in range(20))
        assert socket.protocol == "x"


@pytest.mark.parametrize("size", [1, 110, 70_000, 600_000])
async def test_frames_of_every_size(api: Api, size: int) -> None:
    async with await connect(api) as socket:
        for number in range(4):
            created = await api.post(MAPS, config_map(f"m{number}", {"key": "ä" * (size // 2)}))
            expected = created.ok(201)
            assert await event(socket) == ("ADDED", expected)


async def test_a_client_that_reads_slowly_gets_all_events(api: Api) -> None:
    async with await connect(api) as socket:
        for number in range(12):
            (await api.post(MAPS, config_map(f"m{number}", {"key": "x" * 900_000}))).ok(201)
        names = [(await event(socket))[1]["metadata"]["name"] for _ in range(12)]
    assert names == [f"m{number}" for number in range(12)]


async def test_the_watch_ends_with_the_websocket(api: Api) -> None:
    hub = api.server._hub
    before = len(hub)
    socket = await connect(api)
    (await api.post(MAPS, config_map("a"))).ok(201)
    await event(socket)
    assert len(hub) == before + 1
    await socket.send_str("what clients send is dropped")
    await socket.close()
    async with asyncio.timeout(DEADLINE):
        while len(hub) > before:
            await asyncio.sleep(0.01)


async def test_the_server_closes_the_websocket_when_the_watch_ends(api: Api) -> None:
    async with await connect(api, timeoutSeconds="1") as socket:
        assert await closed(socket) == aiohttp.WSCloseCode.OK


async def test_errors_before_and_in_the_watch(api: Api) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await connect(api, resourceVersion="x")
    assert refused.value.status == 400
    async with await connect(api, resourceVersion="999999") as socket:
        kind, status = await event(socket)
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        await closed(socket)


async def test_a_fault_cuts_the_websocket(api: Api) -> None:
    api.server.faults = lambda method, path, agent: Fault(cut_after_bytes=10)
    async with await connect(api) as socket:
        api.server.faults = None
        (await api.post(MAPS, config_map("a"))).ok(201)
        await closed(socket)
        assert socket.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE
