"""Counting failed attempts of a one-shot command, from what a kubelet reports of its pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from traincrew.plan.mpicluster import attempts
from traincrew.plan.shared.views import ObservedPod

RUNNING: dict[str, Any] = {"running": {}}
FAILED = {"terminated": {"exitCode": 3}}
ENDED = {"terminated": {"exitCode": 0}}
WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}
EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"


def pod(
    restarts: int,
    state: dict[str, Any],
    last: dict[str, Any] | None = None,
    *,
    uid: str = "a",
    created: str = EARLIER,
    leaving: bool = False,
    **status: Any,
) -> ObservedPod:
    container = {
        "name": "mpi-master",
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
    others = {"name": "sidecar", "restartCount": 5, "state": FAILED}
    metadata = {"name": "m", "uid": uid, "creationTimestamp": created}
    if leaving:
        metadata["deletionTimestamp"] = LATER
    document = {
        "metadata": metadata,
        "status": {"phase": "Running", "containerStatuses": [others, container], **status},
    }
    return msgspec.convert(document, ObservedPod)


@pytest.mark.parametrize(
    ("found", "failures"),
    [
        (pod(0, RUNNING), 0),
        (pod(0, FAILED), 1),
        (pod(0, WAITING, FAILED), 1),
        (pod(1, RUNNING, FAILED), 1),
        (pod(1, WAITING, FAILED), 2),
        (pod(2, ENDED, FAILED), 2),
        (pod(0, WAITING), 0),
        (pod(1, FAILED, leaving=True), 1),
        (pod(1, FAILED, phase="Failed", reason="Evicted"), 1),
        (pod(1, FAILED, phase="Failed", reason="DeadlineExceeded"), 2),
        (pod(0, FAILED, conditions=[{"type": "DisruptionTarget", "status": "True"}]), 0),
    ],
)
def test_failures_of_a_pod(found: ObservedPod, failures: int) -> None:
    assert attempts.failures(found) == failures
    assert attempts.count(None, found)[1] == failures


def test_every_failure_is_counted_once() -> None:
    record, total = None, 0
    for found in (pod(0, FAILED), pod(0, WAITING, FAILED), pod(1, RUNNING, FAILED), pod(1, FAILED)):
        for _ in range(2):
            record, new = attempts.count(record, found)
            total += new
    assert total == 2


def test_the_failures_of_another_pod_are_added() -> None:
    record, _ = attempts.count(None, pod(2, RUNNING, FAILED))
    after, new = attempts.count(record, pod(0, WAITING, FAILED, uid="b", created=LATER))
    assert new == 1
    assert after is not None
    assert after.created == LATER


def test_an_older_pod_is_not_counted_again() -> None:
    """A cache may be behind the API server, from which pods were listed."""
    old, new = pod(2, RUNNING, FAILED), pod(0, RUNNING, uid="b", created=LATER)
    record, _ = attempts.count(None, new)
    assert attempts.count(record, old) == (record, 0)


def test_a_pod_that_is_not_there_changes_nothing() -> None:
    record, _ = attempts.count(None, pod(2, RUNNING, FAILED))
    assert attempts.count(record, None) == (record, 0)


@pytest.mark.parametrize(
    ("found", "succeeded"),
    [
        (pod(0, ENDED), True),
        (pod(0, ENDED, phase="Succeeded"), True),
        (pod(0, FAILED), False),
        (pod(0, RUNNING), False),
        (pod(0, ENDED, leaving=True), False),
    ],
)
def test_success(found: ObservedPod, succeeded: bool) -> None:
    assert attempts.has_succeeded(found) == succeeded
