"""Locks of open files: who gets one, and whether the file is still the one of that name."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from traincrew.local.filelocks import is_named, try_lock


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    # Locks belong to what was opened, so two of one process are as two of two processes.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [(False, False, False), (False, True, False), (True, False, False), (True, True, True)],
)
def test_only_shared_locks_are_held_together(
    tmp_path: Path, first: bool, second: bool, both: bool
) -> None:
    path = tmp_path / "lock"
    with opened(path) as other:
        with opened(path) as holder:
            assert try_lock(holder, shared=first)
            assert try_lock(other, shared=second) is both
        assert try_lock(other, shared=second)


def test_a_file_that_was_removed_is_not_the_one_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with opened(path) as descriptor:
        assert is_named(path, descriptor)
        path.unlink()
        assert not is_named(path, descriptor)
        path.touch()
        assert not is_named(path, descriptor)
