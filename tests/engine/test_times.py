"""Timestamps as Kubernetes writes them."""

from datetime import UTC, datetime, timedelta, timezone

from traincrew.engine.times import format_micro_time, format_time

NOON = datetime(2026, 11, 20, 12, 0, 0, 1500, UTC)


def test_seconds_are_cut_and_microseconds_are_six_digits() -> None:
    assert format_time(NOON) == "2026-11-20T12:00:00Z"
    assert format_micro_time(NOON) == "2026-11-20T12:00:00.001500Z"
    assert format_micro_time(NOON.replace(microsecond=0)) == "2026-11-20T12:00:00.000000Z"


def test_other_time_zones_become_utc() -> None:
    assert format_time(NOON.astimezone(timezone(timedelta(hours=-3)))) == "2026-11-20T12:00:00Z"


def test_early_years_have_four_digits() -> None:
    assert format_time(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00Z"
