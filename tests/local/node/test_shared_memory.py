"""The node's directory in memory, where every user of the machine can create entries."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from local.node.support import control_plane, running_node
from traincrew.local.directories import private_directory
from traincrew.local.node.volumes import shared_memory
from traincrew.local.node.volumes.shared_memory import claim_directory, sweep

if TYPE_CHECKING:
    from pathlib import Path

STRANGER = 54321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with the mode of `/dev/shm`."""
    path = tmp_path / "shm"
    path.mkdir()
    path.chmod(0o1777)
    return path


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return new_state(tmp_path, "state")


def new_state(tmp_path: Path, name: str) -> Path:
    path = tmp_path / name
    path.mkdir(mode=0o700)
    return path


def claimed_path(state: Path, root: Path) -> Path:
    """Return the directory of a node that has ended."""
    claimed = claim_directory(state, root)
    claimed.close()
    return claimed.path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_the_name_is_random_and_kept(tmp_path: Path, root: Path, state: Path) -> None:
    old = os.umask(0)
    try:
        claimed = claimed_path(state, root)
    finally:
        os.umask(old)

    assert (claimed.parent, mode(claimed)) == (root, 0o700)
    assert claimed_path(state, root) == claimed
    (tmp_path / "again").mkdir(mode=0o700)
    assert claimed_path(tmp_path / "again", root) != claimed
    assert (mode(claimed / ".owner"), mode(state / "memory-directory")) == (0o600, 0o600)


@pytest.mark.parametrize("how", ["gone", "open", "link", "file", "fifo"])
def test_a_modified_directory_is_not_used(
    tmp_path: Path, root: Path, state: Path, how: str
) -> None:
    claimed = claimed_path(state, root)
    (claimed / ".owner").unlink()
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    if how == "open":
        claimed.chmod(0o777)
    else:
        claimed.rmdir()
    if how == "link":
        claimed.symlink_to(target)
    elif how == "file":
        claimed.write_text("")
    elif how == "fifo":
        os.mkfifo(claimed)

    again = claimed_path(state, root)

    assert again != claimed
    assert (again.parent, mode(again)) == (root, 0o700)
    assert list(target.iterdir()) == []


@as_root
def test_a_directory_of_another_user_is_not_used(root: Path, state: Path) -> None:
    claimed = claimed_path(state, root)
    os.chown(claimed, STRANGER, -1)

    assert claimed_path(state, root) != claimed


@pytest.mark.parametrize("name", ["../elsewhere", "/etc", "traincrew-a/../../x", "x" * 5000, ""])
def test_a_recorded_name_cannot_name_another_directory(root: Path, state: Path, name: str) -> None:
    (state / "memory-directory").write_text(name)

    assert claimed_path(state, root).parent == root


@pytest.mark.parametrize("kind", ["link", "fifo", "directory"])
def test_the_owner_file_is_not_written_through_links(
    tmp_path: Path, root: Path, state: Path, kind: str
) -> None:
    claimed = claimed_path(state, root)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    owner = claimed / ".owner"
    owner.unlink()
    if kind == "link":
        owner.symlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(owner)
    else:
        owner.mkdir()

    if kind == "directory":
        with pytest.raises(OSError, match="directory"):
            claimed_path(state, root)
    else:
        assert claimed_path(state, root) == claimed
        assert owner.read_text() == str(state)
    assert victim.read_text() == "precious"


def test_an_unsafe_root_is_not_used(root: Path, state: Path) -> None:
    root.chmod(0o777)

    claimed = claimed_path(state, root)

    assert (claimed, mode(claimed)) == (state / "memory", 0o700)
    assert claimed_path(state, root.parent / "no-such") == claimed
    root.chmod(0o1777)
    assert claimed_path(state, root).parent == root


def test_directories_of_deleted_nodes_are_removed(tmp_path: Path, root: Path) -> None:
    states = [new_state(tmp_path, name) for name in ("gone", "alive", "moved")]
    gone, alive, moved = (claimed_path(each, root) for each in states)
    (gone / "data").write_text("x")
    for each in states[0].iterdir():
        each.unlink()
    states[0].rmdir()
    (states[2] / "memory-directory").write_text("traincrew-another")
    unfinished = root / "traincrew-unfinished"
    unfinished.mkdir(mode=0o700)

    sweep(root)

    assert set(root.iterdir()) == {alive, unfinished}
    assert not moved.exists()


def test_the_directory_of_a_node_in_another_mount_namespace_stays(root: Path, state: Path) -> None:
    claimed = claim_directory(state, root)
    state.rename(state.parent / "out of sight")

    sweep(root)
    assert list(root.iterdir()) == [claimed.path]

    claimed.close()
    sweep(root)
    assert list(root.iterdir()) == []


def hostile(root: Path, name: str) -> Path:
    path = root / f"traincrew-{name}"
    path.mkdir(mode=0o700)
    return path


def test_hostile_entries_are_neither_read_nor_deleted(tmp_path: Path, root: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    (outside / ".owner").write_text("/no/such/state")
    (outside / "precious").write_text("x")
    (root / "traincrew-link").symlink_to(outside)
    (root / "traincrew-file").write_text("/no/such/state")
    os.mkfifo(root / "traincrew-fifo")
    os.mkfifo(hostile(root, "fifo_inside") / ".owner")
    (hostile(root, "link_inside") / ".owner").symlink_to(outside / ".owner")
    (hostile(root, "directory_inside") / ".owner").mkdir()
    (hostile(root, "endless") / ".owner").write_text("/no/such" + "x" * 10_000)
    (hostile(root, "relative") / ".owner").write_text("no/such/state")
    (hostile(root, "null") / ".owner").write_bytes(b"/no\0such")
    (hostile(root, "binary") / ".owner").write_bytes(b"\xff\xfe")
    opened = hostile(root, "opened")
    (opened / ".owner").write_text("/no/such/state")
    opened.chmod(0o755)
    (root / "traincrew-..").mkdir(mode=0o700)
    before = set(root.iterdir())

    # In a process of its own: opening a FIFO for reading would block for ever.
    program = (
        "import pathlib, sys; from traincrew.local.node.volumes.shared_memory import sweep; "
        "sweep(pathlib.Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", program, str(root)], check=True, timeout=30)

    assert set(root.iterdir()) == before
    assert (outside / "precious").exists()


@as_root
def test_directories_of_other_users_stay(root: Path) -> None:
    foreign, planted = hostile(root, "foreign"), hostile(root, "planted")
    for each in (foreign, planted):
        (each / ".owner").write_text("/no/such/state")
    os.chown(foreign, STRANGER, -1)
    os.chown(planted / ".owner", STRANGER, -1)

    sweep(root)

    assert set(root.iterdir()) == {foreign, planted}


def test_a_sweep_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "_MAX_ENTRIES", 3)
    for number in range(5):
        (hostile(root, str(number)) / ".owner").write_text("/no/such/state")

    sweep(root)

    assert len(list(root.iterdir())) == 2


async def test_a_node_reuses_its_directory(tmp_path: Path) -> None:
    async with control_plane(tmp_path / "node") as world:
        async with running_node(world, kill=False):
            first = world.node.backend._paths.memory
            assert mode(first) == 0o700
        async with running_node(world):
            assert world.node.backend._paths.memory == first
        assert not first.exists()


def test_a_private_directory_is_private_whatever_the_umask_is(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        private_directory(tmp_path / "a" / "b" / "c")
        (tmp_path / "open").mkdir(mode=0o777)
        private_directory(tmp_path / "open")
    finally:
        os.umask(old)

    assert mode(tmp_path / "a" / "b" / "c") == mode(tmp_path / "open") == 0o700
    assert mode(tmp_path / "a") == mode(tmp_path / "a" / "b") == 0o755


@as_root
def test_a_private_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.mkdir(mode=0o777)
    os.chown(path, STRANGER, -1)

    with pytest.raises(PermissionError, match="belongs to another user"):
        private_directory(path)
