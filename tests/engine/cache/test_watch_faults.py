"""The content of a cache when the watch fails: the seven faults, and related ones."""

import asyncio
import json
from typing import Any, ClassVar, Self

import pytest

from traincrew.engine.cache import Informer
from traincrew.engine.client import HttpRequest
from traincrew.engine.errors import ForbiddenError
from traincrew.engine.objects import AnyObject
from traincrew.engine.resources import PODS
from traincrew.engine.testing import FakeServer, simulate, until


def pod(name: str, **extra: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", **extra}
    return {"metadata": metadata, "status": {"phase": "Running"}}


class Watcher:
    """An informer under test, with the changes its handlers received."""

    def __init__(self, server: FakeServer, **arguments: Any) -> None:
        self.server = server
        self.informer = Informer(server.client(), PODS, clock=server.clock, **arguments)
        self.seen: list[tuple[str, str]] = []
        self.informer.add_handler(self._note)

    def _note(self, old: AnyObject | None, new: AnyObject | None) -> None:
        if new is None:
            assert old is not None
            self.seen.append(("deleted", old.metadata.name))
        else:
            self.seen.append(("changed" if old else "added", new.metadata.name))

    @property
    def names(self) -> list[str]:
        return sorted(obj.metadata.name for obj in self.informer.store.list())

    @property
    def watches(self) -> list[str]:
        return [r for r in self.server.requests if "watch=true" in r]

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.informer.run())
        await self.informer.wait_synced()
        await until(lambda: self.server.open_watches == 1)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert not self.task.done(), "a reflector ends only by cancellation"
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture(params=[True, False], ids=["streamed-list", "paged-list"])
def server(request: pytest.FixtureRequest) -> FakeServer:
    server = FakeServer(watch_list=request.param)
    for name in ("p1", "p2"):
        server.put(PODS, pod(name))
    return server


def test_resumes_from_the_last_bookmark_after_a_clean_end(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.put(PODS, pod("p3"))
            server.resource_version = 150
            server.send_bookmark()
            server.drop_watches(clean=True)
            lists = len(server.requests)
            await until(lambda: len(server.requests) > lists)

            assert "resourceVersion=150" in watcher.watches[-1]
            assert "allowWatchBookmarks=true" in watcher.watches[-1]
            await until(lambda: server.open_watches == 1)
            server.put(PODS, pod("p4"))
            await until(lambda: watcher.names == ["p1", "p2", "p3", "p4"])
            assert watcher.seen[-2:] == [("added", "p3"), ("added", "p4")]

    simulate(main())


def test_an_expired_event_causes_a_relist_that_reports_deletions(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.drop_watches()
            server.remove(PODS, "p1", "team")
            server.put(PODS, pod("p3"))
            server.compact()
            await until(lambda: watcher.names == ["p2", "p3"])

            assert ("deleted", "p1") in watcher.seen
            assert ("changed", "p2") not in watcher.seen
            assert not watcher.informer.store.by_index("owner", "nobody")

    simulate(main())


def test_an_expired_http_status_causes_a_relist_that_reports_deletions(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.fail("WATCH", status=410, reason="Expired")
            server.drop_watches()
            server.remove(PODS, "p1", "team")
            await until(lambda: watcher.names == ["p2"])

            assert ("deleted", "p1") in watcher.seen

    simulate(main())


def test_a_server_that_always_answers_expired_is_not_flooded(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.fail("WATCH", status=410, reason="Gone", times=10**9)
            server.drop_watches()
            before = len(server.requests)
            await asyncio.sleep(60)

            assert len(server.requests) - before < 40
            assert watcher.names == ["p1", "p2"]

    simulate(main())


def test_survives_reset_then_503_then_refused(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.fail("WATCH", status=503, reason="ServiceUnavailable")
            server.fail("WATCH", error=ConnectionRefusedError("refused"))
            server.drop_watches(partial=b'{"type":"MODIFIED","object":{"metadata":{"na')
            server.put(PODS, pod("p3"))
            await until(lambda: watcher.names == ["p1", "p2", "p3"])

            assert len(watcher.watches) >= 4

    simulate(main())


def test_back_off_grows_while_the_server_is_away_and_starts_over(
    server: FakeServer,
) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            loop = asyncio.get_running_loop()
            server.fail("WATCH", error=ConnectionRefusedError("refused"), times=30)
            server.drop_watches()
            before = loop.time()
            await until(lambda: server.open_watches == 0)
            await until(lambda: server.open_watches == 1, timeout=3600, interval=1)
            assert 300 < loop.time() - before < 1800

            server.put(PODS, pod("p3"))
            await until(lambda: watcher.names == ["p1", "p2", "p3"])
            server.drop_watches()
            before = loop.time()
            await until(lambda: server.open_watches == 0)
            await until(lambda: server.open_watches == 1)
            assert loop.time() - before < 1

    simulate(main())


@pytest.mark.parametrize("odd", ["\x85", "\u2028", "\u2029", "\x0b"])
def test_unicode_line_separators_in_an_annotation(server: FakeServer, odd: str) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.put(PODS, pod("p3", annotations={"note": f"a{odd}b"}))
            server.put(PODS, pod("p4"))
            await until(lambda: watcher.names == ["p1", "p2", "p3", "p4"])

            stored = watcher.informer.store.get("team", "p3")
            assert stored is not None
            assert stored.metadata.annotations["note"] == f"a{odd}b"

    simulate(main())


def test_an_object_larger_than_any_buffer_in_many_pieces(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            big = pod("big", uid="u", resourceVersion="500", annotations={"x": "y" * 1_400_000})
            line = json.dumps({"type": "ADDED", "object": big}).encode() + b"\n"
            for start in range(0, len(line), 65536):
                server.send(line[start : start + 65536])
            server.put(PODS, pod("p3"))
            await until(lambda: watcher.names == ["big", "p1", "p2", "p3"])

            stored = watcher.informer.store.get("team", "big")
            assert stored is not None
            assert len(stored.metadata.annotations["x"]) == 1_400_000

    simulate(main())


def test_the_watch_resumes_after_error_events_other_than_expired(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.put(PODS, pod("p3"))
            server.send_error(500, "InternalError", "etcdserver: leader changed")
            await until(lambda: server.open_watches == 0)
            server.put(PODS, pod("p4"))
            await until(lambda: watcher.names == ["p1", "p2", "p3", "p4"])

            lists = [r for r in server.requests if "watch=true" not in r]
            assert len(lists) <= 1, "the watch resumes; there is no need to list again"

    simulate(main())


def test_the_watch_recovers_from_garbage_in_the_stream(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.send(b"<html>proxy error</html>\n")
            await until(lambda: server.open_watches == 0)
            server.put(PODS, pod("p3"))
            await until(lambda: watcher.names == ["p1", "p2", "p3"])

    simulate(main())


def test_a_silent_connection_is_given_up_after_a_bookmark_interval(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            await until(lambda: len(watcher.watches) >= 3, timeout=600)
            elapsed = asyncio.get_running_loop().time() - 1000

            assert 70 <= elapsed <= 300

    simulate(main())


def test_duplicate_events_are_reported_once(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.duplicate_events = True
            server.put(PODS, pod("p3"))
            server.remove(PODS, "p1", "team")
            await until(lambda: watcher.names == ["p2", "p3"])
            await asyncio.sleep(1)

            assert watcher.seen.count(("added", "p3")) == 1
            assert watcher.seen.count(("deleted", "p1")) == 1

    simulate(main())


def test_an_object_recreated_while_away_is_reported_as_both(
    server: FakeServer,
) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.drop_watches()
            server.remove(PODS, "p1", "team")
            server.put(PODS, pod("p1"))
            server.compact()
            watcher.seen.clear()
            await until(lambda: len(watcher.seen) >= 2)

            assert watcher.seen == [("deleted", "p1"), ("added", "p1")]

    simulate(main())


def test_deletion_of_an_earlier_incarnation_is_ignored(
    server: FakeServer,
) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            gone = pod("p1", uid="another", resourceVersion="7")
            server.send(json.dumps({"type": "DELETED", "object": gone}).encode() + b"\n")
            server.put(PODS, pod("p3"))
            await until(lambda: "p3" in watcher.names)

            assert "p1" in watcher.names

    simulate(main())


def test_a_server_that_ignores_streamed_lists_gets_paged_lists() -> None:
    """Servers before 1.27 ignore the parameter and never send the closing bookmark."""

    class OldServer(FakeServer):
        def _bookmark(self, *, initial: bool) -> bytes:
            return b"\n" if initial else super()._bookmark(initial=False)

    async def main() -> None:
        server = OldServer()
        server.put(PODS, pod("p1"))
        async with Watcher(server) as watcher:
            assert watcher.names == ["p1"]
            assert any("limit=500" in r for r in server.requests)

    simulate(main())


def test_pages_are_followed_and_an_expired_token_restarts_the_list() -> None:
    async def main() -> None:
        server = FakeServer(watch_list=False)
        for number in range(1203):
            server.put(PODS, pod(f"p{number:04}"))
        server.fail("GET", "continue=", status=410, reason="Expired", after=1)
        async with Watcher(server) as watcher:
            assert len(watcher.names) == 1203
            lists = [r for r in server.requests if "watch=true" not in r]
            assert len(lists) == 4
            assert "limit" not in lists[-1]

    simulate(main())


def test_items_of_lists_carry_their_kind(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            stored = watcher.informer.store.get("team", "p1")

            assert stored is not None
            assert (stored.kind, stored.api_version) == ("Pod", "v1")

    simulate(main())


def test_one_undecodable_object_does_not_hide_the_others(
    server: FakeServer, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = pod("bad")
    bad["metadata"]["labels"] = "not a map"
    server.put(PODS, bad)

    async def main() -> None:
        async with Watcher(server) as watcher:
            server.put(PODS, {**bad, "metadata": {**bad["metadata"], "name": "bad2"}})
            server.put(PODS, pod("p3"))
            await until(lambda: watcher.names == ["p1", "p2", "p3"])

    simulate(main())
    assert "team/bad2" in capfd.readouterr().err


def test_null_where_the_view_has_a_value_counts_as_absent(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.put(PODS, {**pod("p3", labels=None, ownerReferences=None), "spec": None})
            await until(lambda: "p3" in watcher.names)

            stored = watcher.informer.store.get("team", "p3")
            assert stored is not None
            assert stored.metadata.labels == {}
            assert stored.spec == {}

    simulate(main())


def test_selectors_namespace_and_metadata_only_reach_the_server() -> None:
    class Recorder(FakeServer):
        accepts: ClassVar[list[str]] = []

        def _receive(self, request: HttpRequest) -> Any:
            self.accepts.append(request.headers["Accept"])
            assert request.headers["Accept-Encoding"] == "identity"
            return super()._receive(request)

    async def main() -> None:
        server = Recorder()
        server.put(PODS, pod("p1", labels={"app": "x"}))
        server.put(PODS, pod("p2"))
        async with Watcher(
            server, namespace="team", label_selector="app=x", metadata_only=True
        ) as watcher:
            assert watcher.names == ["p1"]
            assert "/namespaces/team/pods" in server.requests[0]
            assert "as=PartialObjectMetadata;" in server.accepts[0]

    simulate(main())


def test_a_failing_handler_does_not_stop_the_others(
    server: FakeServer, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(_old: Any, _new: Any) -> None:
        raise ZeroDivisionError

    async def main() -> None:
        async with Watcher(server) as watcher:
            watcher.informer._handlers.insert(0, broken)
            server.put(PODS, pod("p3"))
            await until(lambda: ("added", "p3") in watcher.seen)

    simulate(main())
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_other_tasks_run_during_a_burst(server: FakeServer) -> None:
    async def main() -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with Watcher(server) as watcher:
            line = json.dumps(
                {"type": "ADDED", "object": pod("x", uid="u", resourceVersion="999")}
            ).encode()
            for _ in range(200):
                server.send(line + b"\n")
            counter = asyncio.create_task(count())
            await until(lambda: "x" in watcher.names)
            counter.cancel()

            assert turns >= 100

    simulate(main())


def test_late_handlers_are_called_for_existing_objects(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            late = []

            def note(old: Any, new: Any) -> None:
                late.append((old, new.metadata.name))

            watcher.informer.add_handler(note)

            assert sorted(late) == [(None, "p1"), (None, "p2")]
            assert isinstance(watcher.informer.store.get("team", "p1"), AnyObject)

    simulate(main())


class StreamScript(FakeServer):
    """A server whose streamed lists follow a script, and are normal after its end."""

    def __init__(self, *scripts: list[bytes | Exception | None]) -> None:
        super().__init__()
        self.scripts = list(scripts)

    def _start_watch(self, watch: Any, query: dict[str, str]) -> None:
        if self.scripts and "sendInitialEvents" in query:
            for item in self.scripts.pop(0):
                watch.queue.put_nowait(item)
        else:
            super()._start_watch(watch, query)


def event(kind: str, **obj: Any) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def test_a_truncated_streamed_list_is_not_used() -> None:
    server = StreamScript(
        [event("ADDED", **pod("ghost", uid="g", resourceVersion="9")), None],
        [event("ERROR", code=410, reason="Expired"), None],
        [event("ERROR", code="?"), None],
        [b'{"type":"ERROR","object":"nonsense"}\n', None],
        [ConnectionResetError("reset")],
    )
    server.put(PODS, pod("p1"))

    async def main() -> None:
        async with Watcher(server) as watcher:
            assert watcher.names == ["p1"]
            assert watcher.seen == [("added", "p1")]

    simulate(main())


def test_changes_during_a_streamed_list_are_part_of_it() -> None:
    marked = {
        "metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": ""}}
    }
    server = StreamScript(
        [
            event("ADDED", **pod("a", uid="1", resourceVersion="5")),
            event("ADDED", **pod("b", uid="2", resourceVersion="6")) + b"\n",
            event("MODIFIED", **pod("a", uid="1", resourceVersion="7")),
            event("DELETED", **pod("b", uid="2", resourceVersion="8"))
            + event("BOOKMARK", **marked)
            + event("ADDED", **pod("c", uid="3", resourceVersion="10")),
        ]
    )

    async def main() -> None:
        async with Watcher(server) as watcher:
            await until(lambda: watcher.names == ["a", "c"])
            assert watcher.seen == [("added", "a"), ("added", "c")]
            assert watcher.informer.store.resource_version == "10"

    simulate(main())


def test_a_server_that_never_completes_a_streamed_list_gets_paged_lists() -> None:
    unfinished: list[list[bytes | Exception | None]] = [[None], [None], [None], [None]]
    server = StreamScript(*unfinished)
    server.put(PODS, pod("p1"))

    async def main() -> None:
        async with Watcher(server) as watcher:
            assert watcher.names == ["p1"]
            assert any("limit=500" in request for request in server.requests)

    simulate(main())


def test_bookmarks_without_the_end_mark_show_that_lists_are_not_streamed() -> None:
    server = StreamScript([event("BOOKMARK", metadata={"resourceVersion": "7"})])
    server.put(PODS, pod("p1"))

    async def main() -> None:
        async with Watcher(server) as watcher:
            assert watcher.names == ["p1"]
            assert any("limit=500" in request for request in server.requests)
            assert asyncio.get_running_loop().time() < 1001

    simulate(main())


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 404, "reason": "NotFound"},
        {"status": 403, "reason": "Forbidden"},
        {"status": 401, "reason": "Unauthorized"},
        {"status": 429, "reason": "TooManyRequests", "retry_after": 2},
        {"status": 400, "reason": "BadRequest"},
    ],
    ids=lambda fault: str(fault["status"]),
)
def test_a_refusal_is_logged_once_and_retried(
    server: FakeServer, fault: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    """A definition may be installed later, a role may be bound later."""
    server.fail(path="/pods", times=20, **fault)

    async def main() -> None:
        async with Watcher(server) as watcher:
            assert watcher.names == ["p1", "p2"]

    simulate(main())
    assert capfd.readouterr().err.count("watch failed") == 1


def test_a_bug_in_our_own_code_does_not_end_the_watch(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = 0
    replace = Informer.replace

    async def broken(self: Any, *arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ZeroDivisionError("defect")
        await replace(self, *arguments)

    monkeypatch.setattr(Informer, "replace", broken)

    async def main() -> None:
        async with Watcher(server) as watcher:
            assert watcher.names == ["p1", "p2"]

    simulate(main())
    assert "ZeroDivisionError: defect" in capfd.readouterr().err


def test_an_undecodable_line_does_not_stop_the_watch(server: FakeServer) -> None:
    async def main() -> None:
        async with Watcher(server) as watcher:
            server.send(b'{"type":"ADDED","object":7}\n')
            server.send(b'{"type":"ADDED","object":{"metadata":7}}\n')
            server.put(PODS, pod("p3"))
            await until(lambda: watcher.names == ["p1", "p2", "p3"])

    simulate(main())


def test_failures_that_repeat_and_their_end_are_reported(server: FakeServer) -> None:
    async def main() -> None:
        states: list[str] = []

        def note(error: Exception | None) -> None:
            states.append("works" if error is None else str(error))

        async with Watcher(server, on_state=note) as watcher:
            server.drop_watches()  # connections end all the time
            await until(lambda: server.open_watches == 1)
            assert states == []
            server.fail("WATCH", status=503, reason="ServiceUnavailable", times=5)
            server.drop_watches()
            await until(lambda: server.open_watches == 1)
            server.put(PODS, pod("p3"))
            await until(lambda: "p3" in watcher.names)
        assert len(states) == 2
        assert "503" in states[0]
        assert states[1] == "works"

    simulate(main())


def test_a_watch_that_is_forbidden_is_reported_at_once(server: FakeServer) -> None:
    async def main() -> None:
        states: list[Exception | None] = []
        async with Watcher(server, on_state=states.append):
            server.fail("WATCH", status=403, reason="Forbidden")
            server.drop_watches()
            await until(lambda: len(states) == 2)
            assert isinstance(states[0], ForbiddenError)
            assert states[1] is None

    simulate(main())
