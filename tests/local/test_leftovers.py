"""What killed processes leave in the temporary directory is removed by the next start."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from traincrew.local import leftovers
from traincrew.local.cluster import ClusterOptions, LocalCluster
from traincrew.local.leftovers import Removed
from traincrew.local.node.volumes.shared_memory import MEMORY
from traincrew.local.statelock import FILE, StateLock

MEBIBYTE = 1024 * 1024


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "scratch"
    directory.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    return directory


def left(directory: Path, name: str = "traincrew-abc_1234") -> Path:
    """Make what a killed cluster leaves."""
    made = directory / name
    (made / "node" / "pods").mkdir(parents=True)
    made.chmod(0o700)
    (made / "node" / "pods" / "data").write_bytes(b"x" * MEBIBYTE)
    (made / FILE).write_text("12345\n")
    return made


def test_only_what_nobody_serves_is_removed(scratch: Path) -> None:
    first, second = left(scratch), left(scratch, "traincrew-second")
    served = left(scratch, "traincrew-served")
    lock = StateLock(served)
    assert leftovers.find(scratch) == [first, second]
    removed = leftovers.sweep(scratch)
    assert removed.directories == 2
    assert 2 * MEBIBYTE <= removed.size < 3 * MEBIBYTE
    assert list(scratch.iterdir()) == [served]
    lock.release()
    assert leftovers.sweep(scratch).directories == 1
    assert leftovers.sweep(scratch) == Removed(0, 0)


async def test_a_cluster_that_ends_is_not_taken_for_a_killed_one(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, seen = leftovers.remove, []

    def removing(directory: Path) -> None:
        seen.append(leftovers.find(scratch))
        remove(directory)
        seen.append(leftovers.find(scratch))

    monkeypatch.setattr(leftovers, "remove", removing)
    async with LocalCluster():
        pass
    assert seen == [[], []]
    assert list(scratch.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root can remove everything")
def test_what_cannot_be_removed_is_found_again(scratch: Path) -> None:
    directory = left(scratch)
    pods = directory / "node" / "pods"
    pods.chmod(0o500)
    assert leftovers.sweep(scratch) == Removed(0, 0)
    assert leftovers.find(scratch) == [directory]
    pods.chmod(0o700)
    assert leftovers.sweep(scratch).directories == 1


def other_name(scratch: Path) -> None:
    left(scratch, "traincrew")
    left(scratch, "something-else")


def without_a_lock(scratch: Path) -> None:
    (left(scratch) / FILE).unlink()


def open_to_others(scratch: Path) -> None:
    left(scratch).chmod(0o755)


def of_another_user(scratch: Path) -> None:
    os.chown(left(scratch), 12345, 12345)


def a_link(scratch: Path) -> None:
    (scratch / "traincrew-link").symlink_to(left(scratch, "elsewhere"))


def a_link_as_lock(scratch: Path) -> None:
    lock = left(scratch) / FILE
    lock.unlink()
    lock.symlink_to(scratch / "elsewhere")


def where_others_can_rename(scratch: Path) -> None:
    left(scratch)
    scratch.chmod(0o777)


@pytest.mark.parametrize(
    "attack",
    [
        other_name,
        without_a_lock,
        open_to_others,
        pytest.param(
            of_another_user,
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away"),
        ),
        a_link,
        a_link_as_lock,
        where_others_can_rename,
    ],
)
def test_what_may_be_somebody_elses_stays(scratch: Path, attack: Callable[[Path], None]) -> None:
    attack(scratch)
    before = sorted(scratch.rglob("*"))
    assert leftovers.find(scratch) == []
    assert leftovers.sweep(scratch).directories == 0
    assert sorted(scratch.rglob("*")) == before


KILLED = """
import time
from traincrew.local.cluster import LocalCluster

with LocalCluster() as cluster:
    print(cluster.directory, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def killed(scratch: Path) -> Path:
    """Return the directory that a killed cluster has left."""
    with subprocess.Popen(
        [sys.executable, "-c", KILLED],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(scratch)},
    ) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        assert leftovers.find(scratch) == []
        process.send_signal(signal.SIGKILL)
    return directory


def memory_of(directory: Path) -> Path:
    return MEMORY / (directory / "node" / "memory-directory").read_text().strip()


async def test_a_start_removes_what_a_killed_cluster_left(scratch: Path, killed: Path) -> None:
    memory = memory_of(killed)
    assert memory.is_dir()
    told: list[Removed] = []
    options = ClusterOptions(on_removed=told.append)
    async with LocalCluster(options) as cluster:
        deadline = time.monotonic() + 30
        while not told:
            assert time.monotonic() < deadline
            await cluster.client.request("GET", "/readyz")
        assert not killed.exists()
        assert not memory.exists()
        assert cluster.directory.is_dir()
        assert memory_of(cluster.directory).is_dir()
    (removed,) = told
    assert removed.directories == 1
    assert list(scratch.iterdir()) == []
