"""A row of the list: pods by state, the course of a metric, and that it is small."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cli.anycluster import job
from traincrew.cli.display.objects import Job, decode
from traincrew.cli.jobview.jobstate import pods_in
from traincrew.cli.page.jobrows import LONGEST_TEXT, PodCounts, pod_counts, row_of
from traincrew.cli.page.series import Recorder
from traincrew.cli.page.trends import HIGHEST, MOST_POINTS, Course, Trend, TrendReader
from traincrew.cli.watching.kinds import ALL

CHAINER = next(served.kind for served in ALL if served.resource.kind == "ChainerJob")
MX = next(served.kind for served in ALL if served.resource.kind == "MxJob")
MOST_BYTES = 2048
"""Of one job of a list: 1,000 jobs are two megabytes at most."""


@pytest.mark.parametrize(
    ("statuses", "desired", "ended", "counts"),
    [
        ({"Worker": {"ready": 2}}, 3, False, PodCounts(2, 0, 0, 1)),
        ([{"ready": 1}, {"ready": 1, "failed": 1}], 4, False, PodCounts(2, 1, 0, 1)),
        # Each of them has a successor.
        ({"Worker": {"ready": 3, "failed": 5}}, 3, False, PodCounts(3, 0, 0, 0)),
        ({"Worker": {"succeeded": 2, "failed": 1}}, 4, True, PodCounts(0, 1, 2, 0)),
        (None, 2, False, PodCounts(0, 0, 0, 2)),
        ("nonsense", 2, False, PodCounts(0, 0, 0, 2)),
        ({"Worker": {"ready": "many"}, "Other": 3}, 1, False, PodCounts(0, 0, 0, 1)),
        ({"Worker": {"ready": -4}}, -1, False, PodCounts(0, 0, 0, 0)),
    ],
)
def test_pods_by_state(statuses: Any, desired: int, ended: bool, counts: PodCounts) -> None:
    assert pod_counts(statuses, desired, pods_in(statuses, "ready"), ended=ended) == counts


@pytest.mark.parametrize(("end", "sign"), [("Succeeded", "good"), ("Failed", "bad")])
def test_an_mxjob_that_is_done_is_marked_by_its_end(end: str, sign: str) -> None:
    document = job("digits")
    condition = {"type": end, "status": "True", "reason": "x"}
    document["status"] = {"phase": "Done", "conditions": [condition]}
    assert row_of(MX, decode(document, Job), None).sign == sign


def test_a_row_is_small_whatever_its_job_says() -> None:
    course = Course("a" * 5000)
    for number in range(5000):
        course.add(number * -1e-300)
    document = job("j" * 63)
    document["metadata"] |= {"namespace": "n" * 63}
    document["status"] = {"phase": "Failed", "message": "x" * 30_000, "reason": "r" * 100}
    row = row_of(CHAINER, decode(document, Job), course.trend())
    assert len(row.job.message) == LONGEST_TEXT
    assert row.job.message.endswith("…")
    assert len(msgspec.json.encode(row)) < MOST_BYTES


def test_a_course_ends_at_its_last_value_and_keeps_its_shape() -> None:
    course = Course("loss")
    assert course.trend() is None
    course.add(2.0)
    assert course.trend() == Trend("loss", 2.0, (0,))
    for value in range(1000, 0, -1):
        course.add(float(value))
    trend = course.trend()
    assert trend is not None
    assert trend.value == 1.0
    assert len(trend.heights) <= MOST_POINTS
    assert max(trend.heights) == HIGHEST
    assert trend.heights[-1] == 0
    assert list(trend.heights[1:]) == sorted(trend.heights[1:], reverse=True)


def test_the_first_metric_that_counts_no_steps_is_shown() -> None:
    recorder = Recorder()
    reader = TrendReader(recorder)
    assert reader.read() is None
    recorder.add("epoch", "a", 1, 1)
    recorder.add("done", "a", 1, 0.5)
    assert reader.read() is None
    recorder.add("loss", "a", 1, 4)
    recorder.add("loss", "b", 1, 99)
    recorder.add("accuracy", "a", 1, 0.1)
    recorder.add("loss", "a", 2, 2)
    assert reader.read() == Trend("loss", 2, (99, 0))
    recorder.add("loss", "a", 3, 3)
    assert reader.read() == Trend("loss", 3, (99, 0, 50))
    for number in range(5000):  # so many that points are removed
        recorder.add("loss", "a", 4 + number, 3)
    trend = reader.read()
    assert trend is not None
    assert trend.heights[-1] in {0, 50}
