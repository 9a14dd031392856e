"""Which rank is behind the others, and which one they wait for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from traincrew.plan.shared import ranks
from traincrew.plan.shared.ranks import Position, RankProgress, RanksProgress

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


class Training:
    """Ranks that report their positions, each in a pod of its own.

    Attributes:
        positions: The newest positions by rank.
    """

    def __init__(self) -> None:
        self.positions: dict[int, Position] = {}

    def report(self, seconds: float, **percentages: float) -> None:
        """Report, so many seconds after the start, by names such as ``r3``."""
        for name, percentage in percentages.items():
            rank = int(name[1:])
            self.positions[rank] = ranks.reported(
                self.positions.get(rank),
                rank=rank,
                pod=f"pod-{rank}",
                uid=f"uid-{rank}",
                percentage=percentage,
                middle=ranks.middle_of(self.positions.values()),
                now=NOW + timedelta(seconds=seconds),
            )

    @property
    def sorted(self) -> tuple[Position, ...]:
        pods = {f"uid-{rank}": f"pod-{rank}" for rank in self.positions}
        return ranks.current(self.positions.values(), None, pods, None)

    @property
    def behind(self) -> int | None:
        found = ranks.behind(self.sorted)
        return found.rank if found is not None else None


def test_ranks_that_report_the_same_are_not_behind() -> None:
    training = Training()
    for step in range(5):
        training.report(10 * step, r0=20 * step, r1=20 * step, r2=20 * step)
        assert training.behind is None


def test_older_positions_of_a_fast_training_are_not_behind() -> None:
    """Each rank is as far as the others, but its newest report is up to ten seconds old."""
    training = Training()
    for second in range(40):
        rank = {0: "r0", 3: "r1", 9: "r2"}.get(second % 10)
        if rank is not None:
            training.report(second, **{rank: 2.5 * second})
        assert training.behind is None, second


def test_a_slow_rank_is_behind_at_its_second_report() -> None:
    training = Training()
    training.report(0, r0=0, r1=0, r2=0)
    training.report(10, r0=20, r1=20, r2=6)
    assert training.behind is None
    training.report(20, r0=40, r1=40, r2=12)
    assert training.behind == 2


def test_it_is_behind_until_it_is_near() -> None:
    training = Training()
    training.report(0, r0=20, r1=20, r2=6)
    training.report(10, r0=40, r1=40, r2=12)
    training.report(20, r2=36)
    assert training.behind == 2
    training.report(30, r2=37.6)
    assert training.behind is None


def test_a_rank_that_reports_no_more_is_behind_when_others_have_advanced_twice() -> None:
    training = Training()
    training.report(0, r0=10, r1=10, r2=10, r3=10)
    training.report(10, r0=30, r1=30, r3=30)
    assert training.behind is None, "an epoch of others may end a little earlier"
    training.report(20, r0=50, r1=50, r3=50)
    assert training.behind == 2


@pytest.mark.parametrize(("slow", "expected"), [(94.9, 2), (95.1, None)])
def test_how_far_is_far(slow: float, expected: int | None) -> None:
    training = Training()
    training.report(0, r2=slow)
    training.report(1, r0=0, r1=0)
    training.report(2, r0=50, r1=50)
    training.report(3, r0=100, r1=100)
    assert training.behind == expected


def test_of_several_the_slowest_is_named() -> None:
    training = Training()
    for step in range(4):
        training.report(10 * step, r0=20 * step, r1=20 * step, r2=20 * step, r3=step, r4=2 * step)
    assert training.behind == 3


def test_one_rank_alone_is_behind_nobody() -> None:
    training = Training()
    assert training.behind is None
    training.report(0, r0=0)
    training.report(10, r0=0)
    assert training.behind is None


def test_a_number_that_another_pod_has_now_begins_anew() -> None:
    training = Training()
    training.report(0, r0=50)
    before = training.positions[0]
    found = ranks.reported(
        before, rank=0, pod="other", uid="other", percentage=5, middle=50.0, now=NOW
    )
    assert (found.advanced_before, found.reports_behind) == (None, 1)


# -- what is stored -------------------------------------------------------------------------------


def stored(*slowest: tuple[int, float], count: int = 8, median: float = 41.4) -> RanksProgress:
    return RanksProgress(
        count=count,
        median=median,
        slowest=tuple(
            RankProgress(
                rank=rank,
                pod=f"pod-{rank}",
                percentage=percentage,
                last_advance_time="2026-01-31T11:50:00Z",
            )
            for rank, percentage in slowest
        ),
    )


def test_the_five_slowest_are_stored() -> None:
    training = Training()
    training.report(0.7, **{f"r{rank}": 41.25 + rank for rank in range(1000)})
    found = ranks.summary(training.sorted)
    assert found is not None
    assert (found.count, found.median) == (1000, 540.75)
    assert [each.rank for each in found.slowest] == [0, 1, 2, 3, 4]
    assert found.slowest[0] == RankProgress(
        rank=0, pod="pod-0", percentage=41.25, last_advance_time="2026-01-31T12:00:00Z"
    )
    assert ranks.summary(()) is None


@pytest.mark.parametrize(
    ("found", "rank"),
    [
        (stored((3, 41.2), (0, 41.4)), 3),
        (stored((3, 41.2), (5, 41.2), (0, 41.4)), None),
        (stored((0, 41.2), count=1), None),
    ],
)
def test_the_one_rank_with_the_lowest_percentage_has_stopped_first(
    found: RanksProgress, rank: int | None
) -> None:
    first = found.stopped_first
    assert (first.rank if first is not None else None) == rank


def test_an_operator_that_has_just_started_knows_the_slowest_ranks_only() -> None:
    pods = {f"uid-{rank}": f"pod-{rank}" for rank in range(8)}
    known = stored((3, 41.2), (5, 41.3))
    found = ranks.current((), known, pods, NOW - timedelta(seconds=3600))
    assert [(each.rank, each.percentage) for each in found] == [(3, 41.2), (5, 41.3)]
    assert not ranks.is_settled(found)
    training = Training()
    training.report(0, r5=42)
    found = ranks.current(training.positions.values(), known, pods, None)
    assert [(each.rank, each.percentage) for each in found] == [(3, 41.2), (5, 42)]


def test_positions_end_with_their_pod_and_with_the_attempt() -> None:
    training = Training()
    training.report(0, r0=10, r1=20)
    every = tuple(training.positions.values())
    pods = {"uid-0": "pod-0", "another": "pod-1"}
    assert [each.rank for each in ranks.current(every, None, pods, None)] == [0]
    assert ranks.current((), stored((2, 5)), pods, None) == ()
    began = NOW + timedelta(seconds=1)
    assert ranks.current(every, stored((1, 5)), pods, began) == ()
