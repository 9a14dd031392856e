"""A state directory is served by one process at a time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from traincrew.local.cluster import ClusterOptions, LocalCluster
from traincrew.local.statelock import FILE, Holder, StateInUseError, StateLock, holder_of


def test_nobody_else_gets_a_lock_that_is_held(tmp_path: Path) -> None:
    assert holder_of(tmp_path) is None
    lock = StateLock(tmp_path)
    assert holder_of(tmp_path) == Holder(os.getpid())
    lock.write("https://127.0.0.1:6443")
    assert holder_of(tmp_path) == Holder(os.getpid(), "https://127.0.0.1:6443")
    with pytest.raises(StateInUseError, match=f"is served by process {os.getpid()} already"):
        StateLock(tmp_path)
    lock.release()
    assert holder_of(tmp_path) is None
    StateLock(tmp_path).release()


def test_a_damaged_lock_file_is_still_a_lock(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    (tmp_path / FILE).write_bytes(b"\xff" * 100_000)
    assert holder_of(tmp_path) == Holder(0)
    with pytest.raises(StateInUseError, match="by a process that cannot be identified already"):
        StateLock(tmp_path)
    lock.release()


def test_children_do_not_inherit_it(tmp_path: Path) -> None:
    lock = StateLock(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        lock.release()
        assert holder_of(tmp_path) is None
        child.communicate(b"\n")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    (tmp_path / FILE).symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        StateLock(tmp_path)


async def test_a_second_cluster_in_the_directory_is_refused(tmp_path: Path) -> None:
    async with LocalCluster(ClusterOptions(directory=tmp_path)) as cluster:
        kubeconfig = Path(cluster.kubeconfig_path).read_bytes()
        with pytest.raises(StateInUseError, match=f"by process {os.getpid()} already"):
            await LocalCluster(ClusterOptions(directory=tmp_path)).start()
        assert Path(cluster.kubeconfig_path).read_bytes() == kubeconfig
        assert holder_of(tmp_path) == Holder(os.getpid(), cluster.server.url)
    assert holder_of(tmp_path) is None
