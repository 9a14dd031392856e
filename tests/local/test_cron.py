"""Schedules: what is accepted, with upstream's messages, and when they are due."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traincrew.local.cron import parse, zone


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def following(schedule: str, start: str, number: int = 1) -> list[str]:
    """Return the next times after a start, in UTC."""
    due, moment, found = parse(schedule), seconds(start), []
    for _ in range(number):
        after = due.after(moment)
        assert after is not None
        moment = after
        found.append(datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S"))
    return found


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("* * * * *", ["2026-11-26 02:46:00", "2026-11-26 02:47:00"]),
        ("*/1 * * * ?", ["2026-11-26 02:46:00", "2026-11-26 02:47:00"]),
        ("*/15 * * * *", ["2026-11-26 03:00:00", "2026-11-26 03:15:00"]),
        ("50/5 * * * *", ["2026-11-26 02:50:00", "2026-11-26 02:55:00"]),
        ("5,40-42 * * * *", ["2026-11-26 03:05:00", "2026-11-26 03:40:00"]),
        ("30 9-17/4 * * mon-FRI", ["2026-11-26 09:30:00", "2026-11-26 13:30:00"]),
        ("0 0 1 jan *", ["2027-01-01 00:00:00", "2028-01-01 00:00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00:00"]),
        # Two restricted fields of days: one of them is enough.
        ("0 0 1 * 5", ["2026-11-27 00:00:00", "2026-12-01 00:00:00"]),
        ("0 0 */2 * 5", ["2026-11-27 00:00:00", "2026-11-29 00:00:00"]),
        ("0 0 */1 * 5", ["2026-11-27 00:00:00", "2026-12-04 00:00:00"]),
        ("@hourly", ["2026-11-26 03:00:00", "2026-11-26 04:00:00"]),
        ("@midnight", ["2026-11-27 00:00:00", "2026-11-28 00:00:00"]),
        ("@weekly", ["2026-11-29 00:00:00", "2026-12-06 00:00:00"]),
        ("@monthly", ["2026-12-01 00:00:00", "2027-01-01 00:00:00"]),
        ("@annually", ["2027-01-01 00:00:00", "2028-01-01 00:00:00"]),
        ("@every 1h30m", ["2026-11-26 04:15:30", "2026-11-26 05:45:30"]),
        ("@every 1.5s", ["2026-11-26 02:45:31", "2026-11-26 02:45:32"]),
        ("@every 3ms", ["2026-11-26 02:45:31"]),
        ("TZ=Asia/Tokyo 0 9 * * *", ["2026-11-27 00:00:00"]),
        ("CRON_TZ=UTC 0 9 * * *", ["2026-11-26 09:00:00"]),
    ],
)
def test_when_it_is_due(schedule: str, expected: list[str]) -> None:
    assert following(schedule, "2026-11-26 02:45:30", len(expected)) == expected


def test_clocks_that_are_put_forward_and_back() -> None:
    """New York: 02:30 of March 8 does not exist, 01:30 of November 1 is there twice."""
    spring = following("TZ=America/New_York 30 2 * * *", "2026-03-07 12:00:00", 1)
    autumn = following("TZ=America/New_York 30 1 * * *", "2026-10-31 12:00:00", 3)
    midnight = following("TZ=America/Sao_Paulo 0 * 4 11 *", "2018-11-03 12:00:00", 1)

    assert spring == ["2026-03-09 06:30:00"]
    assert autumn == ["2026-11-01 05:30:00", "2026-11-01 06:30:00", "2026-11-02 06:30:00"]
    assert midnight == ["2018-11-04 03:00:00"], "the day begins at one o'clock"


@pytest.mark.parametrize("schedule", ["59 23 31 2 *", ", * * * *"])
def test_it_may_never_be_due(schedule: str) -> None:
    assert parse(schedule).after(seconds("2026-11-26 02:45:30")) is None


def test_the_end_of_time_is_no_error() -> None:
    assert parse("0 0 30 2 *").after(seconds("9997-01-01 00:00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("30-20 * * * *", "beginning of range (30) beyond end of range (20): 30-20"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("*/2/3 * * * *", "too many slashes: */2/3"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        (
            "x * * * *",
            'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax',
        ),
        ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
        ("@reboot", "unrecognized descriptor: @reboot"),
        (
            "@every x",
            'failed to parse duration @every x: time: invalid duration "x"',
        ),
        ("@every 5", 'failed to parse duration @every 5: time: missing unit in duration "5"'),
        (
            "@every 5d",
            'failed to parse duration @every 5d: time: unknown unit "d" in duration "5d"',
        ),
        ("TZ=Nowhere 0 * * * *", "provided bad location Nowhere: unknown time zone Nowhere"),
        (
            "TZ=UTC",
            "invalid schedule format: runtime error: slice bounds out of range [:-1]",
        ),
    ],
)
def test_messages(schedule: str, message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - the message is compared
        parse(schedule)
    assert str(raised.value) == message


@pytest.mark.parametrize("name", ["Mars/Olympus", "../etc/passwd", "/etc/localtime", "Europe"])
def test_unknown_zones(name: str) -> None:
    with pytest.raises(ValueError, match="unknown time zone"):
        zone(name)


_NUMBERS = st.integers(0, 70).map(str)
_PARTS = st.one_of(
    st.sampled_from(["*", "?", "*/7", "mon", "Jan", "1-5", ""]),
    _NUMBERS,
    st.builds("{}-{}/{}".format, _NUMBERS, _NUMBERS, _NUMBERS),
)
_FIELDS = st.lists(_PARTS, min_size=1, max_size=3).map(",".join)


@given(st.lists(_FIELDS, min_size=5, max_size=5).map(" ".join), st.integers(0, 4 * 10**9))
def test_times_are_minutes_later_and_the_first(schedule: str, moment: int) -> None:
    try:
        due = parse(schedule)
    except ValueError:
        return
    after = due.after(moment)
    if after is None:
        return
    assert after > moment
    assert after % 60 == 0
    between = moment + (after - moment) / 2
    assert due.after(between) == after


@given(st.text(max_size=40))
def test_any_text_is_a_schedule_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse(text)
