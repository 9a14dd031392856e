"""The directories of clusters that pods must not see: wherever they are, whoever's they are."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from traincrew.local import credentials
from traincrew.local.credentials import Credentials, aliases, record, recorded

if TYPE_CHECKING:
    from pathlib import Path

OTHER = 4711
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can create files of others")


def test_the_directory_of_every_cluster_is_known_until_it_is_removed(tmp_path: Path) -> None:
    cache, uid = tmp_path / "cache", os.geteuid()
    disk = tmp_path / "mnt"
    clusters = [tmp_path / "a" / "one", disk / "b" / "two words"]
    for each in clusters:
        each.mkdir(parents=True)
        record(each, cache)
        record(each, cache)
    assert sorted(recorded(cache, uid)) == clusters
    assert oct((cache / "clusters").stat().st_mode & 0o777) == "0o700"
    clusters[0].rmdir()
    clusters[0].parent.rmdir()
    assert recorded(cache, uid) == [clusters[1]]
    assert len(list((cache / "clusters").iterdir())) == 1
    # A disk that is not mounted now: its cluster is not forgotten.
    clusters[1].rmdir()
    clusters[1].parent.rmdir()
    assert recorded(cache, uid) == []
    clusters[1].mkdir(parents=True)
    assert recorded(cache, uid) == [clusters[1]]


def test_no_cluster_is_recorded(tmp_path: Path) -> None:
    assert recorded(tmp_path / "missing", os.geteuid()) == []


def test_entries_that_nobody_wrote_are_skipped(tmp_path: Path) -> None:
    records = tmp_path / "clusters"
    records.mkdir()
    os.mkfifo(records / "fifo")
    (records / "link").symlink_to("/etc/passwd")
    (records / "relative").write_text("etc")
    (records / "nul").write_bytes(b"/etc\0")
    (records / "empty").touch()
    (records / "long").write_text("/" * 5000)
    assert recorded(tmp_path, os.geteuid()) == []


def test_paths_are_hidden_before_they_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TRAINCREW_HOME", str(tmp_path / "own"))
    monkeypatch.setattr(credentials, "_other_homes", list)
    running = tmp_path / "temporary" / "node"
    running.mkdir(parents=True)
    now = [0.0]
    found = Credentials(tmp_path / "cache", lambda: [(running, os.geteuid())], lambda: now[0])
    assert found.paths() == [
        tmp_path / "home" / ".kube",
        tmp_path / "home" / ".local/share/traincrew/clusters",
        tmp_path / "data" / "traincrew" / "clusters",
        tmp_path / "own" / "clusters",
        tmp_path / "temporary",
    ]
    (tmp_path / "later").mkdir()
    record(tmp_path / "later", tmp_path / "cache")
    now[0] = 10.0
    assert tmp_path / "later" in found.paths()


@needs_root
def test_root_hides_the_clusters_of_others_but_nothing_that_is_not_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "other"
    own = [home / ".local/share/traincrew/clusters", tmp_path / "data" / "cluster"]
    for each in own:
        each.mkdir(parents=True)
    not_theirs = tmp_path / "usr"
    not_theirs.mkdir()
    for each in (*own, not_theirs):
        record(each, home / ".cache" / "traincrew")
    (home / ".kube").symlink_to(not_theirs)
    for path in (*own, *home.rglob("*")):
        os.chown(path, OTHER, OTHER, follow_symlinks=False)
    os.chown(home, OTHER, OTHER)
    monkeypatch.setattr(credentials, "_other_homes", lambda: [credentials.Owned(home, OTHER)])
    found = Credentials(tmp_path / "cache", lambda: [(not_theirs / "node", OTHER)]).paths()
    assert set(own) <= set(found)
    assert not_theirs not in {path.resolve() for path in found}


MOUNTS = """\
22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 254:1 / /home rw - ext4 /dev/vdb rw
24 22 254:1 /ann /srv/ann rw - ext4 /dev/vdb rw
25 22 254:1 / /mnt/a\\040disk rw - ext4 /dev/vdb rw
26 22 254:1 /bob /srv/bob rw - ext4 /dev/vdb rw
27 22 0:40 / /home/ann/tmp rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/ann/.kube", ["/srv/ann/.kube", "/mnt/a disk/ann/.kube"]),
        ("/srv/ann/.kube", ["/home/ann/.kube", "/mnt/a disk/ann/.kube"]),
        ("/home/ann", ["/srv/ann", "/mnt/a disk/ann"]),
        ("/home/ann/tmp/state", []),
        ("/var/lib/state", []),
    ],
)
def test_a_path_is_hidden_wherever_its_file_system_is_mounted(
    path: str, expected: list[str]
) -> None:
    assert aliases((path,), MOUNTS) == expected
