"""The subordinate IDs of a user, and work on files of these users."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

import pytest

from local.test_directories import deep_tree
from traincrew.local.node.sandbox import mapped
from traincrew.local.subordinate import IdMap, NoSubordinateIdsError, subordinate_ids

NAME = pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs with newuidmap and newgidmap; no others are found."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("newuidmap", "newgidmap"):
        (directory / name).write_text("#!/bin/sh\n")
        (directory / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(directory))
    return directory


def files(tmp_path: Path, uids: str, gids: str) -> tuple[Path, Path]:
    found = tmp_path / "subuid", tmp_path / "subgid"
    for path, text in zip(found, (uids, gids), strict=True):
        path.write_text(text)
    return found


def test_all_ranges_of_a_user_by_name_and_number(tmp_path: Path, programs: Path) -> None:
    uids = f"other:5:7\n{NAME}:100000:65536\nbroken\n{os.geteuid()}:300000:10\n{NAME}:x:1\n"
    found = subordinate_ids(files(tmp_path, uids, f"{NAME}:200000:20\n{NAME}:0:9\n"))
    assert found == IdMap(
        ((0, os.geteuid(), 1), (1, 100000, 65536), (65537, 300000, 10)),
        ((0, os.getegid(), 1), (1, 200000, 20)),
        (str(programs / "newuidmap"), str(programs / "newgidmap")),
    )
    assert (found.users, found.groups) == (65547, 21)


def test_what_is_missing_and_what_gives_it(tmp_path: Path, programs: Path) -> None:
    lacking = files(tmp_path, f"{NAME}:100000:65536\n", "other:100000:65536\n")
    with pytest.raises(NoSubordinateIdsError) as caught:
        subordinate_ids(lacking)
    assert caught.value.reason == f"{lacking[1]} has no IDs of user {NAME}"
    assert caught.value.fix.startswith("sudo usermod --add-subuids ")
    (programs / "newgidmap").unlink()
    with pytest.raises(NoSubordinateIdsError, match="newuidmap is not installed"):
        subordinate_ids(lacking)


def tree(path: Path) -> Path:
    path.mkdir()
    (path / "home").mkdir()
    (path / "home/mine").write_bytes(b"text")
    (path / "home/again").hardlink_to(path / "home/mine")
    (path / "home/link").symlink_to("/etc/passwd")
    (path / "home").chmod(0o700)
    (path / "of-root").write_text("root")
    (path / "sudo").write_text("program")
    os.mkfifo(path / "pipe", 0o600)
    with (path / "sparse").open("wb") as file:
        file.seek(1 << 30)
        file.write(b"end")
    os.setxattr(path / "home", "user.overlay.opaque", b"y")
    os.utime(path / "home", ns=(1, 2_000_000_000))
    return path


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_tree_with_owners_shares_what_belongs_to_root(tmp_path: Path) -> None:
    source, target = tree(tmp_path / "source"), tmp_path / "target"
    target.mkdir()
    owners = [
        ("home", 1000, 100, 0o700), ("home/mine", 1000, 100, 0o640), ("sudo", 0, 0, 0o4755),
        ("home/again", 1000, 100, 0o640), ("home/link", 1000, 7, 0o777), ("pipe", 5, 6, 0o620),
        ("sparse", 9, 9, 0o600),
    ]  # fmt: skip
    mapped.copy(str(source), str(target), owners)

    def look(name: str) -> tuple[int, int, int]:
        found = (target / name).lstat()
        return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)

    assert [(name, *look(name)) for name, *_ in owners] == owners
    assert (target / "of-root").samefile(source / "of-root")
    assert (target / "home/again").samefile(target / "home/mine")
    assert not (target / "home/mine").samefile(source / "home/mine")
    assert (target / "home/link").readlink() == Path("/etc/passwd")
    assert os.getxattr(target / "home", "user.overlay.opaque") == b"y"
    assert (target / "home").stat().st_mtime_ns == 2_000_000_000
    sparse = (target / "sparse").stat()
    assert sparse.st_size == (1 << 30) + 3
    assert sparse.st_blocks * 512 < 1 << 20
    assert mapped.remove([str(target), str(target)]) == 0
    assert not target.exists()


def test_a_tree_of_any_depth_is_removed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    deep_tree(tmp_path / "top")
    assert mapped.remove([str(tmp_path / "top"), str(tmp_path / "missing")]) == 0
    assert not (tmp_path / "top").exists()
    assert mapped.remove(["/proc/self/comm"]) != 0
    assert "rm: cannot remove '/proc/self/comm" in capfd.readouterr().err
