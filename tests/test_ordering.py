"""The order of tests."""

from itertools import pairwise
from pathlib import Path

import ordering

ITEMS = [f"{module}:{number}" for module in ("a", "b", "c", "d") for number in range(9)]


def module_of(item: str) -> str:
    return item[0]


def test_the_order_depends_on_the_number_alone() -> None:
    first = ordering.shuffled(ITEMS, 1, module_of)
    assert sorted(first) == ITEMS != first
    assert ordering.shuffled([*ITEMS[18:], *ITEMS[:18]], 1, module_of) == first
    assert ordering.shuffled(ITEMS, 2, module_of) != first


def test_tests_of_a_module_stay_together() -> None:
    modules = [module_of(item) for item in ordering.shuffled(ITEMS, 3, module_of)]
    changes = sum(one != other for one, other in pairwise(modules))
    assert changes == 3


def test_each_process_begins_with_a_part_of_its_own() -> None:
    tests = str(Path(__file__).parent)
    parts = [ordering.rotated([tests], which, 3) for which in range(3)]
    assert __file__ in parts[0]
    assert {tuple(sorted(part)) for part in parts} == {tuple(sorted(parts[0]))}
    assert len({part[0] for part in parts}) == 3
    assert ordering.rotated([__file__], 1, 3) == [__file__]


def test_a_part_has_every_other_module() -> None:
    tests = str(Path(__file__).parent)
    everything = ordering.rotated([tests], 0, 1)
    first, second = (
        ordering.rotated([tests], 0, 1, lambda place, turn=turn: place % 2 == turn)  # type: ignore[misc]
        for turn in range(2)
    )
    assert sorted([*first, *second]) == everything
    assert first == everything[::2]
