"""The storage's file: the latest state of every object in one table, nothing else.

History in SQL is what makes kine slow and its write-ahead log grow; here it stays in memory.
``synchronous=NORMAL`` with a write-ahead log loses nothing when the process is killed, and keeps
the file whole when the machine loses power (then the last moments may be missing).
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["Row", "SqliteFile", "StorageError"]

_APPLICATION_ID = 0x74637277  # "tcrw"
_FORMAT = 1


class StorageError(Exception):
    """The file cannot be opened or written; the message says which file and why."""


class Row(NamedTuple):
    """One object; `data` is None when it is to be removed."""

    resource: str
    namespace: str
    name: str
    revision: int
    data: bytes | None


class SqliteFile:
    """An open file, used by this process alone.

    Args:
        path: made if missing, readable by the owner only; its directory must exist.

    Raises:
        StorageError: see there.

    Attributes:
        revision: of the last committed batch.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.touch(mode=0o600)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=0)
            self._open()
        except (OSError, sqlite3.Error) as error:
            if "locked" in str(error):
                raise StorageError(f"{path}: in use by another process") from None
            raise StorageError(f"{path}: cannot be opened: {error}") from None

    def _open(self) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode=EXCLUSIVE")
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=NORMAL")
        run("BEGIN IMMEDIATE")
        (application,) = run("PRAGMA application_id").fetchone()
        (version,) = run("PRAGMA user_version").fetchone()
        (tables,) = run("SELECT count(*) FROM sqlite_schema").fetchone()
        if tables == 0:
            run(f"PRAGMA application_id={_APPLICATION_ID}")
            run(f"PRAGMA user_version={_FORMAT}")
            run("CREATE TABLE state (revision INTEGER NOT NULL)")
            run("INSERT INTO state VALUES (0)")
            run(
                "CREATE TABLE objects (resource TEXT NOT NULL, namespace TEXT NOT NULL,"
                " name TEXT NOT NULL, revision INTEGER NOT NULL, data BLOB NOT NULL,"
                " PRIMARY KEY (resource, namespace, name)) WITHOUT ROWID"
            )
        elif application != _APPLICATION_ID:
            raise StorageError(f"{self._path}: is not a traincrew cluster file")
        elif version != _FORMAT:
            raise StorageError(
                f"{self._path}: has format {version}, this version of traincrew reads {_FORMAT};"
                " remove it to start with an empty cluster"
            )
        run("COMMIT")
        (self.revision,) = run("SELECT revision FROM state").fetchone()

    def rows(self) -> Iterator[Row]:
        """Every object of the file."""
        for row in self._connection.execute(
            "SELECT resource, namespace, name, revision, data FROM objects"
        ):
            yield Row(*row)

    def write(self, revision: int, rows: Iterable[Row]) -> None:
        """Commit a batch.

        Raises:
            StorageError: nothing of the batch was written.
        """
        run = self._connection.execute
        try:
            run("BEGIN IMMEDIATE")
            try:
                for row in rows:
                    if row.data is None:
                        run(
                            "DELETE FROM objects WHERE resource=? AND namespace=? AND name=?",
                            row[:3],
                        )
                    else:
                        run("INSERT OR REPLACE INTO objects VALUES (?,?,?,?,?)", row)
                run("UPDATE state SET revision=?", (revision,))
                run("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    run("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StorageError(f"{self._path}: cannot be written: {error}") from None
        self.revision = revision

    def close(self) -> None:
        """Fold the write-ahead log into the file and let go of it."""
        self._connection.close()
