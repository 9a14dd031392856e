"""The parts of the suite that need no cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import e2e_runner, table

if TYPE_CHECKING:
    from pathlib import Path


def test_every_test_is_in_one_share_and_the_long_ones_come_first() -> None:
    tests = {f"long {number}": 100.0 + number for number in range(3)}
    tests |= {f"short {number}": 1.0 for number in range(50)}

    shares = e2e_runner.shares_of(tests)

    assert [list(share) for share in shares[:3]] == [["long 2"], ["long 1"], ["long 0"]]
    assert sorted(name for share in shares for name in share) == sorted(tests)
    assert max(map(len, shares)) <= e2e_runner.MAX_TESTS
    assert all(sum(share.values()) <= e2e_runner.SHARE_SECONDS for share in shares[3:])


def test_a_test_that_passes_loses_its_reason_and_raises_the_floor(tmp_path: Path) -> None:
    found = table.Table("1.0.0", 1, {"a": 5}, {}, {"not there": ["b"], "neither": ["c"]})
    found.set_passing("b", 2.4, conformance=True)
    found.set_passing("a", 6.0, conformance=True)
    found.set_passing("beyond", 100.0, conformance=False)

    path = tmp_path / "results.toml"
    path.write_text(found.text())
    again = table.read(path)

    assert again == found
    assert (again.floor, again.passing) == (2, {"a": 5, "b": 2})
    assert again.extra == {"beyond": 100}
    assert again.failing == {"neither": ["c"]}
    assert (again.reason("c"), again.reason("b")) == ("neither", "")
