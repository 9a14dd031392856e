import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from traincrew.local.apiserver.storage import Change, CompactedError, Storage, StorageError
from traincrew.local.apiserver.storage.sqlite import SqliteFile


def named(name: str, **data: Any) -> dict[str, Any]:
    return {"kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def names(entries: Any) -> list[str]:
    return [entry.key[1] for entry in entries]


async def test_every_write_gets_the_next_revision_and_writes_it_into_the_object() -> None:
    storage = Storage()
    first = storage.put("configmaps", ("default", "a"), named("a"))
    second = storage.put("configmaps", ("default", "a"), named("a", changed="yes"))
    assert (first.revision, second.revision) == (1, 2)
    assert second.obj["metadata"]["resourceVersion"] == "2"
    assert first.obj["metadata"]["resourceVersion"] == "1"  # the old state is still what it was
    assert storage.get("configmaps", ("default", "a")) is second


async def test_scan_is_ordered_and_keeps_namespaces_apart() -> None:
    storage = Storage()
    for namespace, name in [("b", "x"), ("a", "z"), ("a", "y"), ("ab", "x")]:
        storage.put("pods", (namespace, name), named(name))
    assert [entry.key for entry in storage.scan("pods")] == [
        ("a", "y"),
        ("a", "z"),
        ("ab", "x"),
        ("b", "x"),
    ]
    assert names(storage.scan("pods", "a")) == ["y", "z"]
    assert storage.scan("pods", "missing") == []
    assert storage.scan("nothing") == []


async def test_scan_at_shows_the_past() -> None:
    storage = Storage()
    storage.put("pods", ("d", "a"), named("a", n="1"))
    storage.put("pods", ("d", "b"), named("b", n="1"))
    then = storage.revision
    storage.put("pods", ("d", "a"), named("a", n="2"))
    storage.delete("pods", ("d", "b"))
    storage.put("pods", ("d", "c"), named("c"))
    storage.put("pods", ("other", "a"), named("a"))
    past = storage.scan_at("pods", "d", then)
    assert [(entry.key[1], entry.obj["data"]["n"]) for entry in past] == [("a", "1"), ("b", "1")]
    assert names(storage.scan("pods", "d")) == ["a", "c"]


async def test_history_is_bounded() -> None:
    storage = Storage(history=3)
    for number in range(5):
        storage.put("pods", ("d", "a"), named("a", n=str(number)))
    assert storage.floor == 2
    assert [change.revision for change in storage.changes("pods", 2)] == [3, 4, 5]
    with pytest.raises(CompactedError):
        storage.changes("pods", 1)
    with pytest.raises(CompactedError):
        storage.scan_at("pods", None, 1)


async def test_deletion_carries_the_last_state_with_a_new_revision() -> None:
    storage = Storage()
    storage.put("pods", ("d", "a"), named("a", n="1"))
    last = storage.delete("pods", ("d", "a"))
    assert last.obj["data"] == {"n": "1"}
    assert last.obj["metadata"]["resourceVersion"] == "2"
    assert storage.get("pods", ("d", "a")) is None


async def test_listeners_get_each_loop_iteration_as_one_batch() -> None:
    storage = Storage()
    batches: list[list[int]] = []
    storage.subscribe(lambda changes: batches.append([change.revision for change in changes]))
    storage.put("pods", ("d", "a"), named("a"))
    storage.put("pods", ("d", "b"), named("b"))
    assert batches == []
    await asyncio.sleep(0)
    assert batches == [[1, 2]]
    storage.delete("pods", ("d", "a"))
    storage.flush()
    assert batches == [[1, 2], [3]]


async def test_a_file_keeps_objects_and_revision(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    storage = Storage(path)
    storage.put("pods", ("d", "a"), named("a", n="1"))
    storage.put("pods", ("d", "b"), named("b"))
    storage.delete("pods", ("d", "b"))
    storage.close()
    assert path.stat().st_mode & 0o777 == 0o600

    again = Storage(path)
    assert again.revision == 3
    assert again.floor == 3
    assert [entry.obj["data"] for entry in again.scan("pods")] == [{"n": "1"}]
    assert again.put("pods", ("d", "c"), named("c")).revision == 4
    again.close()


async def test_a_write_is_not_reported_before_it_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    storage = Storage(path)
    heard: list[Change] = []
    storage.subscribe(heard.extend)
    storage.put("pods", ("d", "a"), named("a"))
    committed = storage.committed
    assert committed is not None
    assert not committed.done()
    assert heard == []
    await committed
    assert [change.key for change in heard] == [("d", "a")]
    assert storage.committed is None
    storage.close()


async def test_a_failed_commit_rolls_the_write_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(tmp_path / "state.db")
    storage.put("pods", ("d", "kept"), named("kept", n="1"))
    storage.put("pods", ("d", "gone"), named("gone"))
    storage.flush()
    heard: list[Change] = []
    storage.subscribe(heard.extend)

    def full(*_: Any) -> None:
        raise StorageError("state.db: cannot be written: disk full")

    with monkeypatch.context() as patch:
        patch.setattr(SqliteFile, "write", full)
        storage.put("pods", ("d", "new"), named("new"))
        storage.put("pods", ("d", "kept"), named("kept", n="2"))
        storage.delete("pods", ("d", "gone"))
        committed = storage.committed
        assert committed is not None
        with pytest.raises(StorageError, match="disk full"):
            await committed
    assert heard == []
    assert names(storage.scan("pods")) == ["gone", "kept"]
    assert storage.scan("pods")[1].obj["data"] == {"n": "1"}
    assert storage.changes("pods", 2) == []
    storage.put("pods", ("d", "later"), named("later"))  # and it goes on
    storage.flush()
    storage.close()
    again = Storage(tmp_path / "state.db")
    assert names(again.scan("pods")) == ["gone", "kept", "later"]
    again.close()


async def test_a_file_in_use_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    storage = Storage(path)
    storage.put("pods", ("d", "a"), named("a"))
    storage.flush()
    with pytest.raises(StorageError, match="in use by another process"):
        Storage(path)
    storage.close()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"this is not a database at all, but long enough to look like one" * 20, "not a database"),
        (None, "is not a traincrew cluster file"),
    ],
)
def test_a_file_of_another_program_is_rejected(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "state.db"
    if content is None:
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE other (x)")
        connection.close()
    else:
        path.write_bytes(content)
    with pytest.raises(StorageError, match=message):
        Storage(path)


def test_a_file_of_another_format_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    SqliteFile(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StorageError, match=r"has format 99.*remove it"):
        Storage(path)


def _foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (x)")
    connection.close()


def _of_another_format(path: Path) -> None:
    SqliteFile(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()


def _without_objects(path: Path) -> None:
    SqliteFile(path).close()
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE objects")
    connection.close()


def _no_database(path: Path) -> None:
    path.write_bytes(b"long enough to be read as the head of a database" * 20)


@pytest.mark.parametrize("write", [_foreign, _of_another_format, _without_objects, _no_database])
def test_a_rejected_file_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    path = tmp_path / "state.db"
    write(path)
    connections: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connections.append(connect(*arguments, **options))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    with pytest.raises(StorageError, match=re.escape(str(path))):
        Storage(path)
    (connection,) = connections
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


def test_a_missing_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        Storage(tmp_path / "nowhere" / "state.db")


WRITER = """
import asyncio, sys
from collections.abc import Callable
from pathlib import Path
from traincrew.local.apiserver.storage import Storage

async def write():
    storage = Storage(Path(sys.argv[1]))
    number = 0
    while True:
        for _ in range(3):
            number += 1
            storage.put("pods", ("d", f"pod-{number}"), {"metadata": {"name": f"pod-{number}"}})
        await storage.committed
        print(number, flush=True)

asyncio.run(write())
"""


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for _ in range(3):
        path.unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(50):
            acknowledged = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        acknowledged = max(
            [acknowledged, *(int(line) for line in process.stdout if line[-1:] == "\n")]
        )
        process.wait()
        process.stdout.close()
        storage = Storage(path)
        kept = {entry.key[1] for entry in storage.scan("pods")}
        missing = {f"pod-{number}" for number in range(1, acknowledged + 1)} - kept
        assert not missing
        assert storage.revision == len(kept)
        storage.close()
