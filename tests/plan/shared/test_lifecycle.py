"""The state machine by itself: counting, conditions, time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from traincrew.api.meta import Condition, ObjectMeta
from traincrew.api.runpolicy import RunPolicy
from traincrew.plan.shared import lifecycle, podrecords, runpolicy
from traincrew.plan.shared.lifecycle import Outcome, Progress, Status, Suspension
from traincrew.plan.shared.podrecords.text import PodRecord, short_id
from traincrew.plan.shared.views import ContainerStatus, ObservedPod, PodStatusView

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SUSPENDED = Suspension(field="spec.suspend")
EARLY, LATE = "2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z"


def pod(uid: str, created: str = EARLY, restarts: int = 0, *, failed: bool = False) -> ObservedPod:
    """A pod whose container was restarted so often."""
    return ObservedPod(
        metadata=ObjectMeta(name=f"pod-{uid}", uid=uid, creation_timestamp=created),
        status=PodStatusView(
            phase="Failed" if failed else "Running",
            container_statuses=(ContainerStatus(restart_count=restarts),),
        ),
    )


def record(uid: str, created: str = EARLY, restarts: int = 0, **flags: bool) -> PodRecord:
    """What was counted before."""
    return PodRecord(uid=short_id(uid), created=created, restarts=restarts, **flags)


# -- counting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "pods", "counted", "after"),
    [
        pytest.param(None, [], 0, None, id="nothing there"),
        pytest.param(None, [pod("a")], 0, record("a"), id="the first pod"),
        pytest.param(None, [pod("a", restarts=2)], 2, record("a", restarts=2), id="seen late"),
        pytest.param(record("a"), [pod("a")], 0, record("a"), id="the same pod"),
        pytest.param(
            record("a", restarts=1), [pod("a", restarts=3)], 2, record("a", restarts=3),
            id="its container again",
        ),
        pytest.param(
            record("a", restarts=3), [pod("a", restarts=1)], 0, record("a", restarts=3),
            id="an old view of it",
        ),
        pytest.param(record("a"), [], 0, record("a"), id="gone, not replaced yet"),
        pytest.param(record("a"), [pod("b", LATE)], 1, record("b", LATE), id="replaced"),
        pytest.param(record("a"), [pod("b")], 1, record("b"), id="replaced within a second"),
        pytest.param(
            record("a"), [pod("b", LATE, restarts=2)], 3, record("b", LATE, restarts=2),
            id="replaced, and its container again",
        ),
        pytest.param(
            record("a"), [pod("a"), pod("b", LATE)], 1, record("b", LATE), id="both to be seen"
        ),
        pytest.param(
            record("b", LATE), [pod("a"), pod("b", LATE)], 0, record("b", LATE),
            id="an older one still there",
        ),
        pytest.param(
            record("b", LATE), [pod("a")], 0, record("b", LATE), id="only an older one left"
        ),
        pytest.param(
            record("b"), [pod("a", failed=True)], 0, record("b"), id="only one that has failed left"
        ),
        pytest.param(
            record("a", released=True), [pod("b", LATE)], 0, record("b", LATE),
            id="taken away on purpose",
        ),
        pytest.param(
            record("a", was_ready=True), [pod("b", LATE)], 1, record("b", LATE, was_ready=True),
            id="its place was ready",
        ),
    ],
)  # fmt: skip
def test_restarts_are_counted_once(
    before: PodRecord | None, pods: list[ObservedPod], counted: int, after: PodRecord | None
) -> None:
    records = {} if before is None else {"place": before}

    kept, new = podrecords.count_restarts(records, {"place": pods})

    assert new == {"place": counted}
    assert kept == ({} if after is None else {"place": after})
    again, nothing = podrecords.count_restarts(kept, {"place": pods})
    assert (again, nothing) == (kept, {"place": 0})


def test_places_that_are_no_longer_desired_are_dropped() -> None:
    kept, _ = podrecords.count_restarts({"old": record("a")}, {"new": [pod("b")]})

    assert set(kept) == {"new"}


# -- conditions ---------------------------------------------------------------------------------


def unfinished(status: Status, now: datetime = NOW, **progress: Any) -> Status:
    """The status after a look at a job that has not ended."""
    step = Progress(reason="Because", message="So.", **progress)
    return lifecycle.advance(status, kind="Any", generation=1, now=now, progress=step)


@pytest.mark.parametrize(("count", "pods"), [(1, "1 pod"), (2, "2 pods")])
def test_a_suspended_job_reports_how_many_pods_remain(count: int, pods: str) -> None:
    after = lifecycle.advance(
        Status(), kind="Any", generation=1, now=NOW, suspend=SUSPENDED, active_pods=count
    )
    assert f"Waiting for {pods} to end." in after.message


def ended(status: Status, succeeded: bool, now: datetime = NOW) -> Status:
    """The status after a look at a job that has ended."""
    outcome = Outcome(succeeded=succeeded, reason="Because", message="So.")
    return lifecycle.advance(status, kind="Any", generation=1, now=now, outcome=outcome)


def test_created_comes_first_and_stays() -> None:
    first = unfinished(Status())
    later = ended(unfinished(first, NOW + timedelta(1), running=True), True, NOW + timedelta(2))

    assert [item.type for item in first.conditions] == ["Created", "Running"]
    created = later.condition("Created")
    assert created is not None
    assert created.last_transition_time == "2026-01-01T12:00:00Z"


def test_the_given_status_is_not_modified() -> None:
    before = unfinished(Status())
    copy = lifecycle.document(before)

    ended(before, True)

    assert lifecycle.document(before) == copy


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
def test_the_first_outcome_is_final(first: bool, second: bool) -> None:
    status = ended(Status(), first)

    assert ended(status, second, NOW + timedelta(1)) == status
    assert unfinished(status, running=True) == status
    suspended = lifecycle.advance(status, kind="Any", generation=9, now=NOW, suspend=SUSPENDED)
    assert suspended == status


def test_an_outcome_decided_by_a_job_has_its_time() -> None:
    outcome = Outcome(succeeded=False, reason="R", message="m", at=EARLY, probed_at=LATE)
    status = lifecycle.advance(Status(), kind="Any", generation=1, now=NOW, outcome=outcome)

    failed = status.condition("Failed")
    assert failed is not None
    assert (failed.last_transition_time, failed.last_probe_time) == (EARLY, LATE)
    assert status.completion_time == EARLY


@pytest.mark.parametrize(
    ("conditions", "phase"),
    [
        ([], ""),
        (["Created"], "Created"),
        (["Created", "Running"], "Running"),
        (["Created", "Restarting"], "Restarting"),
        (["Created", "Suspended"], "Suspended"),
        (["Created", "Succeeded"], "Succeeded"),
        (["Created", "Failed"], "Failed"),
        (["Created", "Complete"], "Created"),
    ],
)
def test_the_phase_follows_the_conditions(conditions: list[str], phase: str) -> None:
    holding = [Condition(type=kind, status="True", reason=kind) for kind in conditions]

    assert lifecycle.summary(holding)[0] == phase


# -- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttl", "completed", "left"),
    [
        (None, EARLY, None),
        (0, None, None),
        (0, "2026-01-01T12:00:00Z", 0),
        (60, "2026-01-01T12:00:00Z", 60),
        (60, "2026-01-01T11:00:00Z", -3540),
        (60, "2026-01-01T12:05:00Z", 360),
    ],
)
def test_time_to_live(ttl: int | None, completed: str | None, left: float | None) -> None:
    """A clock that runs ahead of ours only makes it stay longer."""
    status = Status(completion_time=completed)
    found = runpolicy.time_to_live(status, RunPolicy(ttl_seconds_after_finished=ttl), NOW)

    assert (None if found is None else found.total_seconds()) == left


def test_the_timeout_starts_with_the_job_and_again_when_it_is_resumed() -> None:
    assert runpolicy.waiting_since(Status()) is None
    status = unfinished(Status())
    assert runpolicy.waiting_since(status) == NOW
    stopped = lifecycle.advance(
        status, kind="Any", generation=2, now=NOW + timedelta(hours=1), suspend=SUSPENDED
    )
    assert runpolicy.waiting_since(stopped) is None
    resumed = unfinished(stopped, NOW + timedelta(hours=2))
    assert runpolicy.waiting_since(resumed) == NOW + timedelta(hours=2)


def _status(*conditions: str, generation: int | None = 1) -> dict[str, Any]:
    """A status with these conditions; ``!`` before a type means that it is false."""
    found: dict[str, Any] = {
        "conditions": [
            {"type": text.lstrip("!"), "status": "False" if text.startswith("!") else "True"}
            for text in conditions
        ]
    }
    return found if generation is None else {**found, "observedGeneration": generation}


@pytest.mark.parametrize(
    ("before", "after", "urgent", "start"),
    [
        ({}, _status("Created", "!Running"), True, True),
        ({}, _status("Created", "Running"), True, True),
        (_status("Created", "!Running"), _status("Created", "Running"), True, True),
        (_status("Created", "!Running"), _status("Created", "!Running"), False, True),
        (_status("Created", "Running"), _status("Created", "!Running"), True, False),
        ({}, _status("Created", "!Running", "Failed"), True, False),
        (_status("Created", "Running"), _status("Created", "!Running", "Failed"), True, False),
        (_status("Created", "Running"), _status("Created", "!Running", "Succeeded"), True, False),
        (_status("Created", "Running"), _status("Created", "!Running", "Restarting"), True, False),
        (_status("Created", "!Running"), _status("Created", "!Running", "!Synced"), True, False),
        ({}, _status("Created", "!Running", "!Synced", generation=None), True, False),
        ({}, _status("Created", "!Running", "Suspended"), True, False),
        (_status("Created", "Running"), _status("Created", "Running", generation=2), True, False),
    ],
)
def test_what_may_wait_when_many_jobs_begin(
    before: dict[str, Any], after: dict[str, Any], urgent: bool, start: bool
) -> None:
    assert lifecycle.is_urgent(before, after, Status) is urgent
    assert lifecycle.is_beginning(before, after, Status) is start
