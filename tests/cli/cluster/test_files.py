"""Directories of clusters that stay."""

import multiprocessing
import os
import stat
import subprocess
import threading
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from traincrew.cli.cluster import files as cluster_files
from traincrew.cli.cluster import process
from traincrew.cli.cluster.files import ClusterFiles, Record, all_clusters, write_file
from traincrew.cli.cluster.files import home as home_of_clusters
from traincrew.cli.cluster.options import Options
from traincrew.cli.errors import BadInput, CommandFailed
from traincrew.local.statelock import StateLock


def test_home_follows_the_xdg_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINCREW_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert home_of_clusters() == tmp_path / "data" / "traincrew"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_of_clusters() == tmp_path / ".local" / "share" / "traincrew"


@pytest.mark.parametrize("name", ["", "Big", "a/b", "..", "-a", "a-", "x" * 41, "a b"])
def test_invalid_names(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be a cluster's name"):
        ClusterFiles(name)


def test_directories_are_private() -> None:
    files = ClusterFiles("default")
    with files.locked():
        assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700


def test_states(sleeper: subprocess.Popen[bytes]) -> None:
    files = ClusterFiles("default")
    assert files.state().kind == "absent"
    files.make()
    (files.directory / "state.db").touch()
    assert files.state().kind == "stopped"
    files.record.write_text("{half")
    assert files.state().kind == "stopped"
    token = process.start_token(sleeper.pid) or ""
    record = Record(pid=sleeper.pid, token=token, version="0")
    write_file(files.record, record)
    assert files.state().kind == "starting"
    write_file(files.record, msgspec.structs.replace(record, ready=True))
    assert files.state().kind == "running"
    assert stat.S_IMODE(files.record.stat().st_mode) == 0o600


NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@as_root
@pytest.mark.parametrize("whose", ["clusters", "clusters/default"])
def test_directories_of_another_user_are_not_used(home: Path, whose: str) -> None:
    files = ClusterFiles("default")
    files.make()
    write_file(files.record, Record(pid=os.getppid(), token="", version="0", ready=True))
    os.chown(home / whose, NOBODY, NOBODY)
    for action in (files.make, files.state, files.locked().__enter__):
        with pytest.raises(CommandFailed, match=f"{home / whose} belongs to another user"):
            action()


@as_root
@pytest.mark.parametrize("whose", ["clusters", "clusters/default"])
def test_links_of_another_user_are_not_followed(home: Path, tmp_path: Path, whose: str) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    link = home / whose
    link.parent.mkdir(parents=True)
    link.symlink_to(mine)
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    with pytest.raises(CommandFailed, match=f"{link} belongs to another user"):
        ClusterFiles("default").make()
    assert list(mine.iterdir()) == []


def test_a_home_that_others_can_write_needs_the_sticky_bit(home: Path) -> None:
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    files = ClusterFiles("default")
    with pytest.raises(CommandFailed, match="other users can rename what is in it"):
        files.make()
    home.chmod(0o1777)
    files.make()
    assert stat.S_IMODE(home.stat().st_mode) == 0o1777
    assert stat.S_IMODE((home / "clusters").stat().st_mode) == 0o700


def test_directories_are_private_whatever_the_umask_is(home: Path) -> None:
    before = os.umask(0)
    try:
        ClusterFiles("default").make()
    finally:
        os.umask(before)
    for path in (home, home / "clusters", home / "clusters" / "default"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def _serve(directory: Path, held: Event, release: Event) -> None:
    lock = StateLock(directory)
    held.set()
    release.wait(30)
    lock.write("https://127.0.0.1:1")
    held.clear()
    time.sleep(600)


def test_a_server_is_found_by_its_lock() -> None:
    files = ClusterFiles("default")
    files.make()
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    server = context.Process(target=_serve, args=(files.directory, held, release))
    server.start()
    try:
        assert held.wait(30)
        state = files.state()
        assert (state.kind, state.record and state.record.pid) == ("starting", server.pid)
        release.set()
        deadline = time.monotonic() + 30
        while held.is_set():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert files.state().kind == "running"
        # The record of an earlier process says nothing about this one.
        write_file(files.record, Record(pid=1, token="another boot:1", version="0", ready=True))
        assert (found := files.state().record)
        assert (found.pid, found.server) == (server.pid, "https://127.0.0.1:1")
        with pytest.raises(CommandFailed, match=f"by process {server.pid} already; nothing"):
            files.unserved().__enter__()
    finally:
        server.kill()
        server.join(30)
    assert files.state().kind == "crashed"
    with files.unserved():
        pass


def test_pods_without_a_server_are_a_crash() -> None:
    files = ClusterFiles("default")
    files.make()
    (files.directory / "node" / "pods" / "some-uid").mkdir(parents=True)
    assert files.state().kind == "crashed"


def _hold(held: Event, release: Event) -> None:
    with ClusterFiles("default").locked():
        held.set()
        release.wait(30)


def test_only_one_command_works_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_files, "LOCK_SECONDS", 0.3)
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(held, release))
    other.start()
    try:
        assert held.wait(30)
        with (
            pytest.raises(CommandFailed, match="another traincrew command"),
            ClusterFiles("default").locked(),
        ):
            pass
    finally:
        release.set()
        other.join(30)
    with ClusterFiles("default").locked():
        pass


def test_a_lock_survives_the_removal_of_its_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, entered = ClusterFiles("default"), threading.Event()
    waiting, go_on = threading.Event(), threading.Event()

    def second() -> None:
        with ClusterFiles("default").locked():
            assert files.directory.exists()
            entered.set()

    def sleep(_: float) -> None:
        waiting.set()
        go_on.wait(60)

    monkeypatch.setattr(
        cluster_files, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    )
    thread = threading.Thread(target=second)
    with files.locked():
        thread.start()
        assert waiting.wait(60)
        files.remove()
        assert not home.exists()
        assert not entered.is_set()
        go_on.set()
    thread.join(60)
    assert entered.is_set()


def test_the_remains_of_an_interrupted_removal_are_removed_by_the_next_one(home: Path) -> None:
    files = ClusterFiles("default")
    files.make()
    left = files.directory.with_name(".default.removed")
    (left / "pods").mkdir(parents=True)
    assert [each.name for each in all_clusters()] == ["default"]
    files.remove()
    assert not home.exists()


def test_options_are_stored() -> None:
    files = ClusterFiles("default")
    files.make()
    assert files.read_options() is None
    options = Options(nodes=3, images=("/a.yaml",))
    write_file(files.options, options)
    assert files.read_options() == options
