"""When a program that writes nothing is said to be quiet; the page has the same cases."""

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from traincrew.cli.display.quiet import Output, Silence, silence, silence_of

CASES = json.loads(
    (Path(__file__).parents[3] / "suites" / "page" / "code" / "quiet.json").read_text()
)
NOW = 1_800_000_000.0


def stamp(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.000000000Z"


def written(*times: float, read: float | None = None) -> Output:
    """Return what was written at some times, and read then, or all at once."""
    output = Output()
    for time in times:
        output.note(stamp(time), time if read is None else read)
    return output


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_pause_is_too_long(case: dict[str, Any]) -> None:
    times = list(itertools.accumulate(case["gaps"], initial=case["starts"]))
    found = silence(times, case["seconds"])
    assert (None if found is None else round(found.usual)) == case["usual"]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Silence(45.2, 1.1), "no output for 45 s (usually every second)"),
        (Silence(700, 60.2), "no output for 11 min 40 s (usually every 1 min)"),
        (Silence(90, 4), "no output for 1 min 30 s (usually every 4 s)"),
    ],
)
def test_it_is_said(found: Silence, words: str) -> None:
    assert found.words() == words


def test_the_last_line_of_any_pod_counts() -> None:
    one = written(*(NOW + second for second in range(20)))
    other = written(NOW + 60)
    assert silence_of([one], NOW + 64) == Silence(45, 1)
    assert silence_of([one, other], NOW + 64) is None
    assert silence_of([one], NOW + 64, reported=NOW + 60) is None
    assert silence_of([], NOW) is None
    assert silence_of([Output()], NOW) is None


def test_clocks_of_nodes_may_differ() -> None:
    """The history of a log has its own times; what is read later was written when it was read."""
    output = written(*(NOW + second for second in range(20)), read=NOW + 600)
    assert silence_of([output], NOW + 601) == Silence(582, 1)
    output.note(stamp(NOW + 21), NOW + 700)  # its clock is behind
    assert silence_of([output], NOW + 720) is None
    output.note("a broken time", NOW + 701)
    assert silence_of([output], NOW + 720) is None
