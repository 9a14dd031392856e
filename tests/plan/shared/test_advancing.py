"""Condition `Progressing`: what is said of the reports of a running job."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from traincrew.api.meta import Condition, format_time
from traincrew.plan.shared import advancing, lifecycle
from traincrew.plan.shared.advancing import Advance
from traincrew.plan.shared.lifecycle import Outcome, Progress, Status
from traincrew.plan.shared.progress import ReportedProgress
from traincrew.plan.shared.ranks import Position, summary
from traincrew.plan.shared.views import ObservedPod

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
BEGAN = NOW - timedelta(hours=2)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def report(advanced: float, updated: float = 0, **fields: Any) -> ReportedProgress:
    """A report that was received and has advanced so many seconds ago."""
    return ReportedProgress(
        **{"percentage": 45, **fields},
        last_update_time=format_time(ago(updated)),
        last_advance_time=format_time(ago(advanced)),
    )


def position(rank: int, percentage: float, behind: int = 0, twice: bool = True) -> Position:
    return Position(
        rank=rank,
        pod=f"pod-{rank}",
        uid=f"uid-{rank}",
        percentage=percentage,
        reported_at=ago(5),
        advanced_at=ago(5),
        advanced_before=ago(15) if twice else None,
        reports_behind=behind,
    )


SLOW = (position(3, 12, behind=2), *(position(rank, 45) for rank in range(3)))
BEHIND = "Rank 3 in pod pod-3 is behind: it has done 12%, and the median of 4 ranks is 45%."


def condition(reason: str = "Advancing", message: str = "") -> Condition:
    status = "True" if reason == "Advancing" else "False"
    return Condition(type="Progressing", status=status, reason=reason, message=message)


def assess(
    progress: ReportedProgress | None,
    positions: tuple[Position, ...] = (),
    *,
    began: datetime | None = BEGAN,
    deadline: int | None = 600,
    stored: Condition | None = None,
) -> Advance | None:
    if progress is not None:
        progress = msgspec.structs.replace(progress, ranks=summary(positions))
    return advancing.assess(
        progress, positions, began=began, deadline=deadline, stored=stored, now=NOW
    )


@pytest.mark.parametrize(
    ("progress", "fields"),
    [
        (None, {}),
        (report(3000, updated=3000), {"began": ago(2999)}),  # of the attempt before
        (report(3000, percentage=100), {}),
        (report(10), {"deadline": None}),
    ],
)
def test_nothing_is_said(progress: ReportedProgress | None, fields: dict[str, Any]) -> None:
    assert assess(progress, **fields) is None


def test_reports_that_advance() -> None:
    found = assess(report(100))
    assert found == Advance(
        holds=True,
        reason="Advancing",
        message="The reports of the program advance.",
        seconds=500,
    )


def test_reports_that_do_not() -> None:
    found = assess(report(6480, updated=1))
    assert found == Advance(
        holds=False,
        reason="NotAdvancing",
        message="The program has reported no advance for 600 s: 45% since 10:12:00 UTC.",
    )
    found = assess(report(6480, percentage=None))
    assert found is not None
    assert found.message == "The program has reported no advance for 600 s: since 10:12:00 UTC."


def test_an_attempt_has_the_whole_time_for_its_first_advance() -> None:
    found = assess(report(4000), began=ago(590))
    assert found is not None
    assert (found.holds, found.seconds) == (True, 10)


def test_the_rank_that_the_others_wait_for_is_named() -> None:
    waiting = (position(3, 41.2), *(position(rank, 41.4) for rank in (0, 1, 2, 4, 5, 6, 7)))
    found = assess(report(6480), waiting)
    assert found is not None
    assert found.message == (
        "The program has reported no advance for 600 s: 45% since 10:12:00 UTC. Rank 3 in pod"
        " pod-3 stopped first, at 41.2%, and the median of 8 ranks is 41.4%."
    )
    same = tuple(position(rank, 41.4) for rank in range(8))
    found = assess(report(6480), same)
    assert found is not None
    assert "Rank" not in found.message


@pytest.mark.parametrize("deadline", [None, 600])
def test_a_rank_that_is_behind_is_named(deadline: int | None) -> None:
    found = assess(report(100), SLOW, deadline=deadline)
    assert found is not None
    assert (found.holds, found.reason, found.message) == (False, "RankBehind", BEHIND)


def test_the_message_stays_while_the_same_rank_is_behind() -> None:
    moved = (position(3, 14, behind=3), *(position(rank, 60) for rank in range(3)))
    found = assess(report(1), moved, stored=condition("RankBehind", BEHIND))
    assert found is not None
    assert found.message == BEHIND
    other = (position(1, 14, behind=3), *(position(rank, 60) for rank in (0, 2, 3)))
    found = assess(report(1), other, stored=condition("RankBehind", BEHIND))
    assert found is not None
    assert found.message.startswith("Rank 1 in pod pod-1 is behind: it has done 14%")


def test_an_operator_that_has_just_started_keeps_what_is_stored() -> None:
    before = condition("RankBehind", BEHIND)
    found = assess(report(1), (position(3, 12, twice=False), position(0, 45, twice=False)),
                   stored=before)  # fmt: skip
    assert found is not None
    assert (found.reason, found.message) == ("RankBehind", BEHIND)


@pytest.mark.parametrize(
    ("deadline", "message"),
    [(600, "The reports of the program advance."), (None, "No rank is behind any more.")],
)
def test_a_rank_that_is_behind_no_more(deadline: int | None, message: str) -> None:
    near = tuple(position(rank, 45) for rank in range(4))
    stored = condition("RankBehind", BEHIND)
    found = assess(report(1), near, deadline=deadline, stored=stored)
    assert found is not None
    assert (found.holds, found.message) == (True, message)


# -- in the status --------------------------------------------------------------------------------

RUNNING = Progress(reason="Running", message="It is running.", running=True)
STALLED = Advance(holds=False, reason="NotAdvancing", message="No advance.")
GOOD = Advance(holds=True, reason="Advancing", message="Advance.")


def advance(status: Status, found: Advance | None, outcome: Outcome | None = None) -> Status:
    return lifecycle.advance(
        status,
        kind="ElasticJob",
        generation=1,
        now=NOW,
        progress=None if outcome else RUNNING,
        outcome=outcome,
        advance=found,
    )


def test_the_condition_is_no_part_of_the_phase() -> None:
    plain = advance(Status(), None)
    status = advance(Status(), STALLED)
    assert plain.condition("Progressing") is None
    assert (status.phase, status.reason, status.message) == (
        plain.phase,
        plain.reason,
        plain.message,
    )
    rest = [each for each in status.conditions if each.type != "Progressing"]
    assert rest == plain.conditions
    assert status.condition("Progressing") == Condition(
        type="Progressing",
        status="False",
        reason="NotAdvancing",
        message="No advance.",
        last_transition_time=format_time(NOW),
    )


def test_it_ends_with_the_job() -> None:
    outcome = Outcome(succeeded=True, reason="Done", message="Done.")
    status = advance(advance(Status(), STALLED), None, outcome)
    assert status.condition("Progressing") is None
    assert status.phase == "Succeeded"


def test_the_rank_that_a_message_names_is_read_from_it() -> None:
    """So that a change of the words is a change of what reads them."""
    behind = assess(report(100), SLOW)
    stopped = assess(report(6480), (position(7, 41), *(position(rank, 42) for rank in range(3))))
    assert behind is not None
    assert stopped is not None
    assert advancing.named_rank(behind.message) == (3, "pod-3", "is behind")
    assert advancing.named_rank(stopped.message) == (7, "pod-7", "stopped first")
    assert advancing.named_rank("No rank is behind any more.") is None


def test_a_change_is_an_event_and_nothing_else_is() -> None:
    statuses = [Status()]
    for found in (GOOD, GOOD, STALLED, STALLED, GOOD, None, STALLED):
        statuses.append(advance(statuses[-1], found))
    events = [
        lifecycle.transition_events(before, after) for before, after in itertools.pairwise(statuses)
    ]
    warning, normal = (
        ("Warning", "NotAdvancing", "No advance."),
        ("Normal", "Advancing", "Advance."),
    )
    assert events == [[], [], [warning], [], [normal], [], [warning]]


def test_an_attempt_begins_with_its_newest_container() -> None:
    def pod(created: str, *started: str, **status: Any) -> dict[str, Any]:
        containers = [{"name": at, "state": {"running": {"startedAt": at}}} for at in started]
        return {
            "metadata": {"name": created, "creationTimestamp": created},
            "status": {"phase": "Running", "containerStatuses": containers, **status},
        }

    pods = [
        pod("2026-01-31T08:00:00Z", "2026-01-31T08:00:09Z", "2026-01-31T09:00:00Z"),
        pod("2026-01-31T08:30:00Z"),
        pod("2026-01-31T10:00:00Z", phase="Succeeded"),
    ]
    found = advancing.began(msgspec.convert(pods, list[ObservedPod]))
    assert found == datetime(2026, 1, 31, 9, tzinfo=UTC)
    assert advancing.began([]) is None
