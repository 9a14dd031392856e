"""Sets of indexes as text."""

from __future__ import annotations

import pytest

from traincrew.plan.shared.indexes import parse, text_of


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([1, 2, 3], "1-3"), ([7, 1, 5, 6], "1,5-7"), ([1, 3], "1,3")],
)
def test_numbers_as_text(numbers: list[int], text: str) -> None:
    assert text_of(numbers) == text
    assert parse(text, 100) == set(numbers)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("x", set()), ("-3", set()), ("1-x,2", {2}), ("0-99999999999", {0, 1, 2, 3}), ("5-1", set())],
)
def test_malformed_text_is_skipped(text: str, numbers: set[int]) -> None:
    assert parse(text, 4) == numbers
