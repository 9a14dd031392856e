"""WATCH: every change, once, in order; and all ways in which a watch starts and ends."""

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from local.apiserver.support import (
    AUTHORIZATION,
    DEADLINE,
    DEFINITIONS,
    MAPS,
    WIDGETS,
    Api,
    config_map,
    definition,
    running_server,
    widget,
)
from traincrew.local.apiserver.reads import watch as watch_module


async def version(api: Api, path: str = MAPS) -> str:
    return str((await api.get(path)).ok()["metadata"]["resourceVersion"])


async def test_changes_arrive_in_order(api: Api) -> None:
    async with api.watch(MAPS, resourceVersion=await version(api)) as watching:
        (await api.post(MAPS, config_map("a"))).ok(201)
        patched = (await api.patch(f"{MAPS}/a", {"data": {"key": "new"}})).ok()
        (await api.delete(f"{MAPS}/a")).ok()
        events = [await watching.next() for _ in range(3)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert events[1]["object"] == patched
    assert events[2]["object"]["data"] == {"key": "new"}
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert revisions == sorted(set(revisions))


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}])
async def test_a_watch_without_a_revision_starts_with_current_objects(
    api: Api, query: dict[str, Any]
) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    (await api.post(MAPS, config_map("b"))).ok(201)
    async with api.watch(MAPS, **query) as watching:
        assert await watching.names(2) == [("ADDED", "a"), ("ADDED", "b")]
        (await api.post(MAPS, config_map("c"))).ok(201)
        assert await watching.names(1) == [("ADDED", "c")]


async def test_a_watch_resumes_where_another_stopped(api: Api) -> None:
    (await api.post(MAPS, config_map("before"))).ok(201)
    since = await version(api)
    (await api.post(MAPS, config_map("a"))).ok(201)
    (await api.delete(f"{MAPS}/before")).ok()
    async with api.watch(MAPS, resourceVersion=since) as watching:
        assert await watching.names(2) == [("ADDED", "a"), ("DELETED", "before")]
        (await api.post(MAPS, config_map("b"))).ok(201)
        assert await watching.names(1) == [("ADDED", "b")]


async def test_objects_enter_and_leave_a_selection(api: Api) -> None:
    async with api.watch(MAPS, labelSelector="in=yes") as watching:
        (await api.post(MAPS, config_map("a"))).ok(201)
        (await api.patch(f"{MAPS}/a", {"metadata": {"labels": {"in": "yes"}}})).ok()
        (await api.patch(f"{MAPS}/a", {"data": {"key": "1"}})).ok()
        left = (await api.patch(f"{MAPS}/a", {"metadata": {"labels": {"in": "no"}}})).ok()
        (await api.patch(f"{MAPS}/a", {"data": {"key": "2"}})).ok()
        (await api.delete(f"{MAPS}/a")).ok()
        (await api.post(MAPS, config_map("b", labels={"in": "yes"}))).ok(201)
        events = [await watching.next() for _ in range(4)]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
    ]
    # The last selected state of the object, with the revision of the change.
    assert events[2]["object"]["metadata"]["labels"] == {"in": "yes"}
    assert events[2]["object"]["metadata"]["resourceVersion"] == left["metadata"]["resourceVersion"]


async def test_namespaces_and_names_narrow_a_watch(api: Api) -> None:
    (await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})).ok(201)
    everywhere = "/api/v1/configmaps"
    async with (
        api.watch(MAPS, fieldSelector="metadata.name=b") as named,
        api.watch(f"{MAPS}/b") as single,
        api.watch(everywhere) as every,
    ):
        (await api.post(MAPS, config_map("a"))).ok(201)
        (await api.post("/api/v1/namespaces/other/configmaps", config_map("b"))).ok(201)
        (await api.post(MAPS, config_map("b"))).ok(201)
        assert await named.names(1) == [("ADDED", "b")]
        assert (await single.next())["object"]["metadata"]["namespace"] == "default"
        assert (await every.names(4))[1:] == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "b")]


async def test_a_watch_list_sends_a_bookmark_after_the_initial_events(api: Api) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    query: dict[str, Any] = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch(MAPS, **query) as watching:
        assert await watching.names(1) == [("ADDED", "a")]
        bookmark = await watching.next()
        assert bookmark == {
            "type": "BOOKMARK",
            "object": {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {
                    "resourceVersion": await version(api),
                    "annotations": {"k8s.io/initial-events-end": "true"},
                },
            },
        }
        (await api.post(MAPS, config_map("b"))).ok(201)
        assert await watching.names(1) == [("ADDED", "b")]
    query["sendInitialEvents"] = "false"
    async with api.watch(MAPS, **query) as watching:
        (await api.post(MAPS, config_map("c"))).ok(201)
        assert await watching.names(1) == [("ADDED", "c")]


async def test_a_watch_list_at_a_future_revision_times_out(api: Api) -> None:
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "resourceVersion": "99999",
    }
    (await api.get(MAPS, watch="true", **query)).refused(504, "Timeout")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            {"sendInitialEvents": "true"},
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
            "sendInitialEvents requires allowWatchBookmarks to be set to true",
        ),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
)
async def test_contradictory_options_are_rejected(
    api: Api, query: dict[str, str], text: str
) -> None:
    answer = await api.get(MAPS, watch="true", **query)
    assert text in answer.refused(422, "Invalid")["message"]


@pytest.mark.parametrize(
    "query",
    [
        {"resourceVersion": "x"},
        {"labelSelector": "=="},
        {"fieldSelector": "data.a=b"},
        {"timeoutSeconds": "soon"},
    ],
)
async def test_invalid_options_are_rejected(api: Api, query: dict[str, str]) -> None:
    (await api.get(MAPS, watch="true", **query)).refused(400, "BadRequest")


async def test_an_expired_revision_is_reported_in_the_stream() -> None:
    async with running_server(history=5) as api:
        for number in range(10):
            (await api.post(MAPS, config_map(f"map-{number}"))).ok(201)
        for since in ("2", "99999"):
            async with api.watch(MAPS, resourceVersion=since) as watching:
                event = await watching.next()
                assert event["type"] == "ERROR"
                status = event["object"]
                assert (status["code"], status["reason"]) == (410, "Expired")
                assert "resource version: " in status["message"]
                assert await watching.next_or_end() is None


async def test_a_watch_ends_after_its_timeout(api: Api) -> None:
    started = time.monotonic()
    async with api.watch(MAPS, timeoutSeconds="1") as watching:
        assert await watching.next_or_end() is None
    assert 0.8 < time.monotonic() - started < DEADLINE


async def test_bookmarks_are_sent_periodically(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "BOOKMARK_INTERVAL", 0.05)
    async with (
        api.watch(MAPS, allowWatchBookmarks="true") as watching,
        api.watch(MAPS) as without,
    ):
        await watching.next()
        (await api.post("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})).ok(201)
        wanted = await version(api)
        while True:
            event = await watching.next()
            assert event["type"] == "BOOKMARK"
            if event["object"]["metadata"]["resourceVersion"] == wanted:
                break
        (await api.post(MAPS, config_map("a"))).ok(201)
        assert await without.names(1) == [("ADDED", "a")]


async def test_tables_define_their_columns_once(api: Api) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with api.watch(MAPS, headers=table) as watching, api.watch(MAPS, headers=table) as second:
        (await api.post(MAPS, config_map("b"))).ok(201)
        for each in (watching, second):
            first, later = await each.next(), await each.next()
            assert first["object"]["kind"] == "Table"
            assert first["object"]["columnDefinitions"][0]["name"] == "Name"
            assert later["object"]["columnDefinitions"] is None
            assert later["object"]["rows"][0]["cells"][0] == "b"
            assert later["object"]["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_metadata_only(api: Api) -> None:
    partial = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
    }
    async with api.watch(MAPS, headers=partial, **query) as watching:
        assert (await watching.next())["object"]["kind"] == "PartialObjectMetadata"
        (await api.post(MAPS, config_map("a"))).ok(201)
        event = await watching.next()
        assert set(event["object"]) == {"kind", "apiVersion", "metadata"}


async def test_watches_of_custom_objects_end_with_their_definition(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    async with api.watch(WIDGETS) as watching:
        assert await watching.names(1) == [("ADDED", "a")]
        (await api.delete(f"{DEFINITIONS}/widgets.example.com")).ok()
        assert await watching.names(1) == [("DELETED", "a")]
        assert await watching.next_or_end() is None


async def test_a_disconnected_client_is_removed(api: Api) -> None:
    hub = api.server._hub
    async with api.watch(MAPS):
        assert len(hub) == 1
    async with asyncio.timeout(DEADLINE):
        while len(hub):
            await asyncio.sleep(0.01)


async def test_a_client_that_does_not_keep_up_is_disconnected(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "BACKLOG_BYTES", 256 * 1024)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port, limit=1024)
    writer.write(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTHORIZATION}\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    async with api.watch(MAPS) as fast:
        big = "x" * 200_000
        for number in range(200):
            if len(api.server._hub) == 1:
                break
            (await api.post(MAPS, config_map(f"map-{number}", {"key": big}))).ok(201)
            assert await fast.names(1) == [("ADDED", f"map-{number}")]
        else:
            pytest.fail("the slow client is still served")
    writer.close()


async def test_changes_during_the_initial_events_are_not_lost(api: Api) -> None:
    for number in range(300):
        (await api.post(MAPS, config_map(f"map-{number:03}", {"key": "x" * 3000}))).ok(201)
    reader, writer = await asyncio.open_connection("127.0.0.1", api.server.port, limit=1024)
    writer.write(f"GET {MAPS}?watch=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTHORIZATION}\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")  # and nothing more for now: the server has to wait
    for number in range(300, 310):
        (await api.post(MAPS, config_map(f"map-{number:03}"))).ok(201)
    received = b""
    async with asyncio.timeout(DEADLINE):
        while b'"map-309"' not in received:
            received += await reader.read(65536)
    writer.close()
    added = received.count(b'{"type":"ADDED"')
    assert added == 310


async def test_stop_does_not_wait_for_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As long as it takes for this to show.
    monkeypatch.setattr("traincrew.local.apiserver.http.server._SHUTDOWN_SECONDS", 60.0)
    async with (
        running_server(tmp_path / "state.db") as api,
        api.watch(MAPS) as one,
        api.watch("/api/v1/pods") as two,
    ):
        started = time.monotonic()
        await api.server.stop()
        assert time.monotonic() - started < 30
        for watching in (one, two):
            with contextlib.suppress(OSError):  # the connection may also just be gone
                assert await watching.next_or_end() is None


async def test_old_watches_expire_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with running_server(path) as api:
        (await api.post(MAPS, config_map("a"))).ok(201)
        first = await version(api)
        (await api.post(MAPS, config_map("b"))).ok(201)
        last = await version(api)
    async with running_server(path) as api:
        async with api.watch(MAPS, resourceVersion=first) as watching:
            assert (await watching.next())["object"]["code"] == 410
        async with api.watch(MAPS, resourceVersion=last) as watching:
            (await api.post(MAPS, config_map("c"))).ok(201)
            assert await watching.names(1) == [("ADDED", "c")]


async def test_a_watch_with_a_file_gets_only_committed_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_server(tmp_path / "state.db") as api:
        file: Any = api.storage._file
        order: list[str] = []
        write = file.write

        def slow(*arguments: Any) -> None:
            write(*arguments)
            order.append("committed")

        # What the server has written at its start is committed with this one.
        (await api.post(MAPS, config_map("first"))).ok(201)
        last = await version(api)
        monkeypatch.setattr(file, "write", slow)
        async with api.watch(MAPS, resourceVersion=last) as watching:
            (await api.post(MAPS, config_map("a"))).ok(201)
            order.append("answered")
            await watching.next()
        assert order[:2] == ["committed", "answered"]
