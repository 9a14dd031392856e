"""The event recorder."""

import asyncio
from typing import Any

import pytest

from traincrew.engine.events import EventRecorder
from traincrew.engine.observability import Metrics
from traincrew.engine.resources import EVENTS
from traincrew.engine.testing import FakeServer, simulate, until

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "team", "uid": "u1", "resourceVersion": "7"},
}


class Recording:
    """A running recorder."""

    def __init__(self, server: FakeServer) -> None:
        self.metrics = Metrics()
        self.recorder = EventRecorder(
            server.client(), "traincrew", instance="host", clock=server.clock, metrics=self.metrics
        )

    async def __aenter__(self) -> EventRecorder:
        self.task = asyncio.create_task(self.recorder.run())
        return self.recorder

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def written(server: FakeServer) -> list[tuple[str, int]]:
    return [(event["message"], event["count"]) for event in server.all(EVENTS)]


def test_components_of_one_process_report_under_their_own_names() -> None:
    async def main() -> None:
        server = FakeServer()
        async with Recording(server) as recorder:
            for component, instance in (("job-controller", ""), ("kubelet", "node-1")):
                recorder.reporter(component, instance).event(JOB, "Normal", "Created", "one")
            await until(lambda: len(server.all(EVENTS)) == 2)
        found = {
            event["reportingComponent"]: (event["source"], event["reportingInstance"])
            for event in server.all(EVENTS)
        }
        assert found == {
            "job-controller": ({"component": "job-controller"}, ""),
            "kubelet": ({"component": "kubelet", "host": "node-1"}, "node-1"),
        }

    simulate(main())


def test_an_event_has_all_fields_that_kubectl_shows() -> None:
    async def main() -> None:
        server = FakeServer()
        async with Recording(server) as recorder:
            recorder.event(JOB, "Warning", "FailedCreate", "no room")
            await until(lambda: server.all(EVENTS))
        (event,) = server.all(EVENTS)
        name = event["metadata"]["name"]
        assert name.startswith("j.")
        assert event["metadata"]["namespace"] == "team"
        expected = {
            "involvedObject": {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "namespace": "team",
                "name": "j",
                "uid": "u1",
                "resourceVersion": "7",
            },
            "type": "Warning",
            "reason": "FailedCreate",
            "message": "no room",
            "count": 1,
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "source": {"component": "traincrew", "host": "host"},
            "reportingComponent": "traincrew",
            "reportingInstance": "host",
        }
        assert {key: event[key] for key in expected} == expected

    simulate(main())


def test_a_repeated_event_increments_the_count() -> None:
    async def main() -> None:
        server = FakeServer()
        async with Recording(server) as recorder:
            for _ in range(3):
                recorder.event(JOB, "Normal", "Pulling", "image")
                await asyncio.sleep(10)
            recorder.event(JOB, "Normal", "Pulling", "another image")
            await until(lambda: len(server.all(EVENTS)) == 2)
        assert sorted(written(server)) == [("another image", 1), ("image", 3)]
        first = next(e for e in server.all(EVENTS) if e["message"] == "image")
        assert first["firstTimestamp"] == "2026-01-01T00:00:00Z"
        assert first["lastTimestamp"] == "2026-01-01T00:00:20Z"

    simulate(main())


def test_an_expired_event_is_recreated() -> None:
    async def main() -> None:
        server = FakeServer()
        async with Recording(server) as recorder:
            recorder.event(JOB, "Normal", "Pulling", "image")
            await until(lambda: server.all(EVENTS))
            (event,) = server.all(EVENTS)
            server.remove(EVENTS, event["metadata"]["name"], "team")
            recorder.event(JOB, "Normal", "Pulling", "image")
            await until(lambda: server.all(EVENTS))
        assert written(server) == [("image", 1)]

    simulate(main())


def test_a_hot_loop_cannot_overload_the_server() -> None:
    async def main() -> None:
        server = FakeServer()
        recording = Recording(server)
        async with recording as recorder:
            for number in range(1000):
                recorder.event(JOB, "Normal", "Loop", f"turn {number}")
                await asyncio.sleep(0.01)
            assert len(server.all(EVENTS)) <= 30
            other = {**JOB, "metadata": {**JOB["metadata"], "uid": "u2", "name": "k"}}  # type: ignore[dict-item]
            recorder.event(other, "Normal", "Fine", "others are still recorded")
            recorder.event(JOB, "Normal", "Completed", "and so are other events of the job")
            await asyncio.sleep(1)
        assert ("others are still recorded", 1) in written(server)
        assert ("and so are other events of the job", 1) in written(server)
        assert recording.metrics.events_dropped.value("budget") >= 970

    simulate(main())


def test_recording_never_waits_and_the_backlog_is_bounded() -> None:
    async def main() -> None:
        server = FakeServer()
        recording = Recording(server)
        server.fail("POST", "/events", delay=1000, times=10)
        async with recording as recorder:
            for number in range(12000):
                reference = {"kind": "Pod", "namespace": "team", "name": f"p{number}", "uid": "u"}
                recorder.event(reference, "Normal", "X", "y")
            assert recording.metrics.events_dropped.value("backlog") == 2000

    simulate(main())


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 500},
        {"error": ConnectionResetError("reset")},
        {"status": 503, "retry_after": 1},
        {"status": 429},
    ],
)
def test_transient_failures_of_the_server_are_retried(fault: dict[str, Any]) -> None:
    async def main() -> None:
        server = FakeServer()
        server.fail("POST", "/events", times=2, **fault)
        async with Recording(server) as recorder:
            recorder.event(JOB, "Normal", "X", "first")
            recorder.event(JOB, "Normal", "X", "second")
            await until(lambda: len(server.all(EVENTS)) == 2)

    simulate(main())


def test_an_event_whose_response_was_lost_is_not_written_twice() -> None:
    async def main() -> None:
        server = FakeServer()
        lost = ConnectionResetError("reset")
        server.fail("POST", "/events", error=lost, applied=True, times=2)
        async with Recording(server) as recorder:
            recorder.event(JOB, "Normal", "Completed", "all done")
            await until(lambda: len(server.requests) == 3)
            recorder.event(JOB, "Normal", "Completed", "all done")
            await until(lambda: written(server) == [("all done", 2)])

    simulate(main())


def test_a_refused_event_is_dropped_and_the_next_is_written() -> None:
    async def main() -> None:
        server = FakeServer()
        recording = Recording(server)
        server.fail("POST", "/events", status=403, reason="Forbidden")
        async with recording as recorder:
            recorder.event(JOB, "Normal", "X", "first")
            recorder.event(JOB, "Normal", "X", "second")
            await until(lambda: server.all(EVENTS))
        assert written(server) == [("second", 1)]
        assert recording.metrics.events_dropped.value("error") == 1

    simulate(main())


def test_stopping_writes_the_backlog() -> None:
    async def main() -> None:
        server = FakeServer()
        async with Recording(server) as recorder:
            await asyncio.sleep(1)
            for number in range(20):
                recorder.event(JOB, "Normal", "X", f"{number}")
        assert len(server.all(EVENTS)) == 20

    simulate(main())


def test_stopping_does_not_hang_on_a_dead_server() -> None:
    async def main() -> None:
        server = FakeServer()
        server.fail("POST", "/events", delay=10**6, times=10**6)
        before = asyncio.get_running_loop().time()
        async with Recording(server) as recorder:
            recorder.event(JOB, "Normal", "X", "lost")
            recorder.event(JOB, "Normal", "X", "lost too")
            await asyncio.sleep(1)
        assert asyncio.get_running_loop().time() - before < 5

    simulate(main())


def test_long_messages_and_names_fit_and_cluster_scoped_objects_go_to_default() -> None:
    async def main() -> None:
        server = FakeServer()
        async with Recording(server) as recorder:
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n" * 253}}
            recorder.event(node, "Warning", "X", "m" * 5000)
            await until(lambda: server.all(EVENTS))
        (event,) = server.all(EVENTS)
        assert len(event["message"]) == 1024
        assert len(event["metadata"]["name"]) == 253
        assert event["metadata"]["namespace"] == "default"

    simulate(main())


def test_a_container_of_a_pod_can_be_named() -> None:
    async def main() -> None:
        server = FakeServer()
        async with Recording(server) as recorder:
            for container in ("a", "b"):
                path = f"spec.containers{{{container}}}"
                recorder.event({**JOB, "fieldPath": path}, "Normal", "Started", "started")
            await until(lambda: len(server.all(EVENTS)) == 2)
        paths = {event["involvedObject"]["fieldPath"] for event in server.all(EVENTS)}
        assert paths == {"spec.containers{a}", "spec.containers{b}"}

    simulate(main())


def test_objects_do_not_wait_for_each_other() -> None:
    async def main() -> None:
        server = FakeServer()
        server.fail("POST", "/events", delay=60, times=1)
        jobs = [{**JOB, "metadata": {"name": f"j{number}"}} for number in range(200)]
        async with Recording(server) as recorder:
            recorder.event(jobs[0], "Normal", "First", "this one takes a minute")
            for job in jobs:
                recorder.event(job, "Normal", "Second", "this does not")
            await asyncio.sleep(1)
            at_once = len(written(server))
            assert at_once >= 50
            await until(lambda: len(written(server)) == 201)
        reported = [
            event for event in server.all(EVENTS) if event["involvedObject"]["name"] == "j0"
        ]
        reported.sort(key=lambda event: event["metadata"]["name"])
        assert [event["reason"] for event in reported] == ["First", "Second"]

    simulate(main())


def test_events_of_one_second_are_shown_in_order() -> None:
    """They are sorted by name if the time is the same."""

    async def main() -> None:
        server = FakeServer()
        async with Recording(server) as recorder:
            for number in range(20):
                recorder.event(JOB, "Normal", "X", f"{number}")
            await until(lambda: len(server.all(EVENTS)) == 20)
        reported = sorted(server.all(EVENTS), key=lambda event: event["metadata"]["name"])
        assert [event["message"] for event in reported] == [str(number) for number in range(20)]

    simulate(main())


def test_the_memory_for_objects_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traincrew.engine.events._MAX_SERIES", 10)

    async def main() -> None:
        server = FakeServer()
        async with Recording(server) as recorder:
            for number in range(100):
                reference = {"kind": "Pod", "namespace": "team", "name": f"p{number}", "uid": "u"}
                recorder.event(reference, "Normal", "X", "y")
                await asyncio.sleep(0.1)
            assert len(recorder._series) == len(recorder._budgets) == 10
        assert len(server.all(EVENTS)) == 100

    simulate(main())
