"""The next start removes the files that a killed builder left, and none in use."""

import subprocess
import sys
from pathlib import Path

import pytest

from traincrew.local.images import ImageStore
from traincrew.local.images.cleanup import sweep
from traincrew.local.images.locks import hold
from traincrew.local.images.trees import MARKER

HOLD = (
    "import fcntl, os, sys; d = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
    "fcntl.flock(d, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()\n"
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with one complete environment, and the files that killed builders leave."""
    for name in (
        "environments/aaaa/bin",
        "environments/bbbb/lib",
        "environments/cccc.removed-1234/lib",
        "temporary/aaaa",
        "temporary/bbbb/build",
        "downloads/archive-v0/kept",
        "downloads/archive-v0/.tmpAbC/big",
        "downloads/builds-v0/.tmpDeF",
        "downloads/.tmpGhI/part",
        "python/.temp/.tmpXyZ",
        "python/cpython-3.11.7/bin",
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "downloads/.tmpFile").touch()
    (tmp_path / "environments/aaaa" / MARKER).touch()
    (tmp_path / "environments/bbbb.log").touch()
    return tmp_path


def present(cache: Path) -> set[str]:
    names = {str(p.relative_to(cache)) for p in cache.glob("*/*")}
    names |= {str(p.relative_to(cache)) for p in cache.glob("downloads/*/*")}
    return {name for name in names if not name.endswith((".lock", "-v0", ".temp"))}


KEPT = {
    "environments/aaaa",
    "environments/bbbb.log",
    "downloads/archive-v0/kept",
    "python/cpython-3.11.7",
}


def test_leftovers_are_removed(cache: Path) -> None:
    sweep(cache)
    assert present(cache) == KEPT
    assert list((cache / "python/.temp").iterdir()) == []


async def test_the_next_pull_removes_them(cache: Path) -> None:
    await ImageStore(cache).pull("busybox", lambda _: None)
    assert present(cache) == KEPT


def test_a_build_in_progress_is_not_removed(cache: Path) -> None:
    locks = (cache / "environments/bbbb.lock", cache / "downloads.lock")
    holders = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for lock in locks
    ]
    try:
        for holder in holders:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
        sweep(cache)
        left = present(cache) - KEPT
        assert left >= {"environments/bbbb", "temporary/bbbb", "downloads/archive-v0/.tmpAbC"}
        assert "environments/cccc.removed-1234" not in left
    finally:
        for holder in holders:
            holder.communicate()
    sweep(cache)
    assert present(cache) == KEPT


def test_links_out_of_the_cache_are_not_followed(cache: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "precious").mkdir(parents=True)
    (cache / "downloads/archive-v0/.tmpLink").symlink_to(outside)
    sweep(cache)
    assert (outside / "precious").exists()
    assert not (cache / "downloads/archive-v0/.tmpLink").is_symlink()


async def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("x")
    (tmp_path / "lock").symlink_to("victim")
    with pytest.raises(OSError, match="symbolic links"):
        async with hold(tmp_path / "lock", lambda: None):
            pass


def test_a_missing_cache_is_no_error(tmp_path: Path) -> None:
    sweep(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()
