"""How soon a job is planned again."""

from __future__ import annotations

import pytest

from traincrew.engine.testing.simulation import ManualClock
from traincrew.operator.pace import MAX_REST, Pace


def test_one_job_is_planned_a_fifth_of_the_time() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    assert pace.rest(0.002) == pytest.approx(0.01)
    clock.advance(MAX_REST)
    assert pace.rest(0.004) == pytest.approx(0.02)


def test_many_jobs_together_are_planned_a_fifth_of_the_time() -> None:
    pace = Pace(ManualClock())
    rests = [pace.rest(0.002) for _ in range(100)]
    assert rests[9] == pytest.approx(0.1)
    assert rests[-1] == MAX_REST


def test_a_job_that_takes_long_rests_longer() -> None:
    clock = ManualClock()
    pace = Pace(clock)
    assert pace.rest(0.3) == pytest.approx(1.5)
    assert pace.rest(0.001) == MAX_REST
    clock.advance(MAX_REST)
    assert pace.rest(0.001) == pytest.approx(0.005)
