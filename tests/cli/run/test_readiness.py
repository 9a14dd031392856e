"""What a run waits for before it creates its jobs."""

from __future__ import annotations

from typing import Any

import pytest

from traincrew.cli.display.objects import Pod, decode
from traincrew.cli.run.readiness import is_ready_or_ended, obstacle, until_ready
from traincrew.engine.errors import NotFoundError


def pod(phase: str, *, ready: bool = False, waiting: str = "", scheduled: bool = True) -> Any:
    state = {"waiting": {"reason": waiting}} if waiting else {"running": {}}
    return {
        "status": {
            "phase": phase,
            "conditions": [
                {"type": "PodScheduled", "status": str(scheduled), "reason": "Unschedulable"},
                {"type": "Ready", "status": str(ready)},
            ],
            "containerStatuses": [{"name": "etcd", "state": state}] if scheduled else [],
        }
    }


class States:
    """An API server whose pod is in one state after the other; None when it is not there."""

    def __init__(self, *states: Any) -> None:
        self.states = list(states)

    async def get(self, *_: Any) -> Any:
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if state is None:
            raise NotFoundError("pods etcd not found", details={"name": "etcd"})
        return state


async def lines(*states: Any) -> list[str]:
    reported: list[str] = []
    server: Any = States(*states)
    await until_ready(server, [("default", "etcd")], reported.append)
    return reported


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        ({}, False),
        (pod("Pending", waiting="ContainerCreating"), False),
        (pod("Running"), False),
        (pod("Running", ready=True), True),
        (pod("Succeeded"), True),
        (pod("Failed"), True),
    ],
)
def test_a_pod_is_ready_or_has_ended(state: Any, ended: bool) -> None:
    assert is_ready_or_ended(decode(state, Pod)) is ended


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({}, ""),
        (pod("Pending", waiting="PodInitializing"), ""),
        (pod("Pending", waiting="ImagePullBackOff"), "ImagePullBackOff"),
        (pod("Running", waiting="CrashLoopBackOff"), "CrashLoopBackOff"),
        (pod("Pending", scheduled=False), "Unschedulable"),
    ],
)
def test_what_keeps_a_pod_from_becoming_ready(state: Any, why: str) -> None:
    assert obstacle(decode(state, Pod)) == why


async def test_a_pod_that_is_ready_at_once_is_not_mentioned() -> None:
    assert await lines(pod("Running", ready=True)) == []


async def test_waiting_is_reported_once() -> None:
    starting = pod("Pending", waiting="ContainerCreating")

    assert await lines(starting, pod("Running"), pod("Running", ready=True)) == [
        "waiting until pod etcd is ready"
    ]


async def test_a_pod_that_cannot_start_is_given_up_with_the_reason() -> None:
    starting = pod("Pending", waiting="ContainerCreating")

    assert await lines(starting, pod("Pending", waiting="ErrImagePull")) == [
        "waiting until pod etcd is ready",
        "pod etcd is not ready (ErrImagePull); continuing without it",
    ]


async def test_a_pod_that_never_becomes_ready_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traincrew.cli.run.readiness.SECONDS", -1.0)

    assert await lines(pod("Running")) == [
        "pod etcd is not ready (not ready after -1 s); continuing without it"
    ]


async def test_a_pod_that_is_deleted_is_not_waited_for() -> None:
    assert await lines(pod("Running"), None) == ["waiting until pod etcd is ready"]
