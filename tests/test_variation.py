"""The number that chooses seeds and samples."""

from pathlib import Path

import variation


def test_the_number_depends_on_the_code_and_on_nothing_else(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for root in (first, second):
        (root / "src").mkdir(parents=True)
        (root / "src" / "a.py").write_text("x = 1\n")
    (second / "notes.txt").write_text("anything")
    assert variation.number_of(first) == variation.number_of(second)
    (second / "src" / "a.py").write_text("x = 2\n")
    assert variation.number_of(first) != variation.number_of(second)
    assert variation.number_of(second) < variation.LIMIT
