"""How soon a job is planned again."""

from __future__ import annotations

import pytest

from traincrew.engine.controller import Request
from traincrew.engine.testing.simulation import ManualClock
from traincrew.operator.pace import MAX_REST, Pace

ONE, OTHER = Request("default", "one"), Request("default", "other")


def test_one_job_is_planned_a_fifth_of_the_time() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    for _ in range(20):
        assert pace.rest(ONE, 0.02) == pytest.approx(0.1)
        clock.advance(0.1)
    assert pace.rest(ONE, 0.3) == pytest.approx(1.5)


def test_many_jobs_together_are_planned_a_fifth_of_the_time() -> None:
    pace = Pace(ManualClock())
    rests = [pace.rest(Request("default", f"job-{number}"), 0.002) for number in range(100)]
    assert rests[0] == pytest.approx(0.01)
    assert rests[10] == pytest.approx(0.1)
    assert rests[-1] == MAX_REST


def test_a_job_waits_for_what_others_have_taken_for_half_a_second() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    pace.rest(OTHER, 0.3)
    assert pace.rest(ONE, 0.001) == MAX_REST
    clock.advance(MAX_REST)
    assert pace.rest(ONE, 0.001) == pytest.approx(0.005)


def test_a_job_that_is_planned_twice_in_a_moment_counts_once_for_itself() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    pace.rest(ONE, 0.01)
    clock.advance(0.3)
    assert pace.rest(ONE, 0.01) == pytest.approx(0.05)
    clock.advance(0.3)
    assert pace.rest(OTHER, 0.01) == pytest.approx(0.05)
