"""Whom a path is trusted to, and removal of what is not writable."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from traincrew.local import directories
from traincrew.local.directories import check_trusted, discard_tree, remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "cache" / "bin").mkdir(parents=True, mode=0o755)
    (tmp_path / "cache" / "bin" / "program").touch(mode=0o755)
    return tmp_path


def refusal(path: Path) -> str:
    with pytest.raises(PermissionError) as caught:
        check_trusted(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_own_files_and_those_of_root_are_trusted(place: Path) -> None:
    check_trusted(place / "cache/bin/program")
    check_trusted(Path("/usr/bin/env"))
    check_trusted(Path("/"))


def test_what_does_not_exist_is_trusted_as_far_as_it_does(place: Path) -> None:
    check_trusted(place / "cache/other/program")
    check_trusted(place / "cache/bin/program/below")
    (place / "cache").chmod(0o777)
    assert str(place / "cache") in refusal(place / "cache/other/program")


@pytest.mark.parametrize("mode", [0o757, 0o777])
def test_a_place_that_others_can_write_is_refused(place: Path, mode: int) -> None:
    for changed in (place / "cache", place / "cache/bin", place / "cache/bin/program"):
        before = changed.stat().st_mode
        changed.chmod(mode)
        message = refusal(place / "cache/bin/program")
        assert message == (
            f"{changed} can be written by other users (mode {mode:04o}), who could put any program "
            f"there: chmod go-w {changed}"
        )
        changed.chmod(before)
    check_trusted(place / "cache/bin/program")


def test_the_fix_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    odd = tmp_path / "it's mine"
    odd.mkdir()
    odd.chmod(0o777)
    command = refusal(odd).rpartition(": ")[2]
    assert os.system(command) == 0
    check_trusted(odd)


def test_a_sticky_directory_is_trusted_on_the_way_only(place: Path) -> None:
    (place / "cache").chmod(0o1777)
    check_trusted(place / "cache/bin/program")
    assert "can be written by other users" in refusal(place / "cache")


@pytest.mark.parametrize(
    ("group", "members", "trusted"),
    [
        ("me", [], True),
        ("me", ["me"], True),
        ("me", ["me", "colleague"], False),
        ("staff", [], False),
    ],
)
def test_a_group_of_ones_own_may_write(
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    group: str,
    members: list[str],
    *,
    trusted: bool,
) -> None:
    """Debian, Fedora and others give every user one, and directories are writable for it."""
    number = 4711
    user = SimpleNamespace(pw_name="me", pw_gid=number)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    entry = SimpleNamespace(gr_name=group, gr_gid=number, gr_mem=members)
    monkeypatch.setattr(grp, "getgrgid", lambda _: entry)
    found = SimpleNamespace(st_uid=os.geteuid(), st_gid=number, st_mode=0o40775)
    directories._own_group.cache_clear()
    try:
        if trusted:
            directories._check_owner(place, found, last=True)  # type: ignore[arg-type]
        else:
            with pytest.raises(PermissionError, match="chmod go-w"):
                directories._check_owner(place, found, last=True)  # type: ignore[arg-type]
    finally:
        directories._own_group.cache_clear()


@as_root
def test_a_place_of_another_user_is_refused(place: Path) -> None:
    for changed in (place / "cache", place / "cache/bin/program"):
        os.chown(changed, NOBODY, NOBODY)
        message = refusal(place / "cache/bin/program")
        assert message.startswith(f"{changed} belongs to another user (uid {NOBODY})")
        os.chown(changed, 0, 0)


@as_root
def test_a_link_of_another_user_is_refused_wherever_it_leads(place: Path) -> None:
    link = place / "link"
    link.symlink_to("cache")
    check_trusted(link / "bin/program")
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert refusal(link / "bin/program").startswith(f"{link} belongs to another user")


def test_a_link_is_followed_to_where_it_leads(place: Path) -> None:
    elsewhere = place / "elsewhere"
    (elsewhere / "below").mkdir(parents=True)
    elsewhere.chmod(0o777)
    (place / "cache/absolute").symlink_to(elsewhere / "below")
    (place / "cache/relative").symlink_to("../cache/../elsewhere")
    assert str(elsewhere) in refusal(place / "cache/absolute/file")
    assert str(elsewhere) in refusal(place / "cache/relative")


def test_a_circle_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        check_trusted(tmp_path / "a")


@pytest.fixture
def other_user() -> Iterator[int]:
    """A user that this process becomes, if it is root, so that permissions count."""
    if os.geteuid() != 0:
        yield os.geteuid()
        return
    os.seteuid(NOBODY)
    yield NOBODY
    os.seteuid(0)


def test_directories_without_permissions_are_removed(other_user: int) -> None:
    top = Path(tempfile.mkdtemp())
    assert top.stat().st_uid == other_user
    (top / "a/b/c").mkdir(parents=True)
    (top / "a/b/file").touch()
    (top / "a/link").symlink_to("/usr")
    for path in (top / "a/b/c", top / "a/b", top / "a", top):
        path.chmod(0)
    remove_tree(top)
    assert not top.exists()
    assert Path("/usr").is_dir()


def deep_tree(top: Path) -> None:
    """Make a directory that is deeper than Python's functions go."""
    top.mkdir()
    below = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=below)
        deeper = os.open("d", os.O_RDONLY, dir_fd=below)
        os.close(below)
        below = deeper
    os.close(below)


@pytest.mark.parametrize("remove", [remove_tree, discard_tree])
def test_the_depth_of_what_is_removed_does_not_matter(
    tmp_path: Path, remove: Callable[[Path], None]
) -> None:
    top = tmp_path / "top"
    deep_tree(top)
    remove(top)
    assert not top.exists()


def test_links_are_not_followed_by_a_removal(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    outside.chmod(0o500)
    (tmp_path / "top").mkdir()
    (tmp_path / "top/link").symlink_to(outside)
    remove_tree(tmp_path / "top")
    assert (outside / "precious").exists()
    remove_tree(tmp_path / "top")  # what is not there is no error
    (tmp_path / "link").symlink_to(outside)
    remove_tree(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert (outside / "precious").exists()
    assert outside.stat().st_mode & 0o777 == 0o500


def test_a_failed_removal_names_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "top/below").mkdir(parents=True)

    def busy(name: bytes, **_: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), name)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rmdir", busy)
        with pytest.raises(OSError, match="busy") as caught:
            remove_tree(tmp_path / "top")
    assert caught.value.filename == str(tmp_path / "top")
