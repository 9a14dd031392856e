"""The life of a pod, derived from the states that a watch reports."""

from typing import Any

from msgspec import structs

from traincrew.cli.display.objects import Pod, decode
from traincrew.cli.page.podhistory import MOST_RUNS, PodHistory, Run, pod_history

CREATED = "2026-01-02T03:00:00Z"


def at(second: int) -> str:
    return f"2026-01-02T03:{second // 60:02}:{second % 60:02}Z"


def pod(
    state: dict[str, Any] | None = None, last: dict[str, Any] | None = None, **since: int
) -> Pod:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": at(second)}
        for kind, second in since.items()
    ]
    containers = [{"name": "c", "state": state or {}, "lastState": last or {}}]
    status = {"conditions": conditions, "containerStatuses": containers if state else []}
    return decode({"metadata": {"name": "p", "creationTimestamp": CREATED}, "status": status}, Pod)


def running(start: int) -> dict[str, Any]:
    return {"running": {"startedAt": at(start)}}


def ended(start: int, end: int, code: int) -> dict[str, Any]:
    return {"terminated": {"startedAt": at(start), "finishedAt": at(end), "exitCode": code}}


def test_a_pod_that_waits() -> None:
    assert pod_history(pod()) == PodHistory(CREATED)


def test_a_pod_that_runs() -> None:
    life = pod_history(pod(running(5), PodScheduled=2, Ready=6))

    assert life == PodHistory(CREATED, at(2), at(6), None, (Run(at(5)),))


def test_a_container_that_was_restarted() -> None:
    life = pod_history(pod(running(20), ended(5, 18, 3), PodScheduled=2))

    assert life.runs == (Run(at(5), at(18), 3), Run(at(20)))


def test_a_container_that_was_stopped_with_its_pod() -> None:
    failed, stopped = ended(5, 18, 143), ended(20, 30, 143)
    deleted = pod(stopped, failed)
    deleted = structs.replace(
        deleted, metadata=structs.replace(deleted.metadata, deletion_timestamp=at(29))
    )

    life = pod_history(deleted, pod_history(pod(running(20), failed)))

    assert [run.stopped for run in life.runs] == [False, True]


def test_runs_that_the_status_has_forgotten_stay() -> None:
    life = None
    for turn in range(4):
        life = pod_history(
            pod(running(10 * turn + 5), ended(10 * turn - 5, 10 * turn, 1) if turn else None), life
        )

    assert life is not None
    assert [run.exit_code for run in life.runs] == [1, 1, 1, None]


def test_when_it_was_ready_stays_known() -> None:
    life = pod_history(pod(running(5), Ready=6))
    life = pod_history(pod(ended(5, 9, 0)), life)

    assert life.ready_at == at(6)
    assert life.runs == (Run(at(5), at(9), 0),)


def test_a_pod_that_is_gone() -> None:
    life = pod_history(pod(running(5)), None, at(30))

    assert life.gone_at == at(30)
    assert pod_history(pod(running(5)), life).gone_at == at(30)


def test_runs_are_bounded() -> None:
    life = None
    for turn in range(MOST_RUNS + 20):
        life = pod_history(pod(ended(turn, turn + 1, 1)), life)

    assert life is not None
    assert len(life.runs) == MOST_RUNS
    assert life.runs[-1].started_at == at(MOST_RUNS + 19)
