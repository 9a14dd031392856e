"""Metrics over time, within bounds."""

import itertools

from traincrew.cli.page.series import MOST_MARKS, MOST_POINTS, MOST_SERIES, Recorder


def test_values_of_several_pods() -> None:
    recorder = Recorder()
    recorder.add("loss", "a", 1.0, 0.5)
    recorder.add("loss", "b", 1.5, 0.6)
    recorder.add("loss", "a", 2.0, 0.4)

    assert recorder.names == [("loss", "a"), ("loss", "b")]
    assert [tuple(each) for each in map(values, recorder.points)] == [
        (1.0, 0, 0.5),
        (1.5, 1, 0.6),
        (2.0, 0, 0.4),
    ]


def values(point: object) -> list[float]:
    return [getattr(point, name) for name in ("at", "series", "value")]


def test_a_long_training_stays_whole() -> None:
    recorder = Recorder()
    recorder.add("acc", "a", 0.0, 9.0)
    for step in range(50_000):
        recorder.add("loss", "a", float(step), float(step))

    points = [point for point in recorder.points if point.series == 1]
    assert MOST_POINTS / 2 <= len(points) <= MOST_POINTS
    assert points[0].at == 0
    assert points[-1].at > 49_900
    gaps = [after.at - before.at for before, after in itertools.pairwise(points)]
    assert max(gaps) <= 2 * min(gaps)
    assert recorder.thinned
    assert [point.value for point in recorder.points if point.series == 0] == [9.0]


def test_series_and_marks_are_bounded() -> None:
    recorder = Recorder()
    for number in range(MOST_SERIES + 1):
        recorder.add(f"m{number}", "a", 1.0, 1.0)
    for number in range(MOST_MARKS + 10):
        recorder.mark(float(number), "scaled")

    assert len(recorder.names) == MOST_SERIES
    assert recorder.turned_away
    assert len(recorder.marks) == MOST_MARKS
    assert recorder.marks[-1].at == MOST_MARKS + 9
