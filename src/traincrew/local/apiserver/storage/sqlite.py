"""The storage's SQLite file: one table with the latest state of every object, nothing else.

History in SQL is what makes kine slow and its write-ahead log grow; here it stays in memory.
``synchronous=NORMAL`` with a write-ahead log loses nothing when the process is killed, and keeps
the file consistent when the machine loses power (the last writes may then be missing).
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from .entries import Row, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["SqliteFile"]

_APPLICATION_ID = 0x74637277  # "tcrw"
_FORMAT = 1


class SqliteFile:
    """An open file, locked by this process.

    Args:
        path: created if missing, readable by the owner only; its directory must exist.

    Raises:
        StorageError: the file cannot be opened, is not a cluster file, or is in use.

    Attributes:
        revision: revision of the last committed batch.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.touch(mode=0o600)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        except (OSError, sqlite3.Error) as error:
            raise self._open_error(error) from None
        try:
            self._open()
        except BaseException as error:
            # Otherwise the file stays open, and locked, until garbage collection.
            self._connection.close()
            if isinstance(error, sqlite3.Error):
                raise self._open_error(error) from None
            raise

    def _open_error(self, error: Exception) -> StorageError:
        if "locked" in str(error):
            return StorageError(f"{self._path}: in use by another process")
        return StorageError(f"{self._path}: cannot be opened: {error}")

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
        """Yield every object in the file.

        Raises:
            StorageError: The file is damaged.
        """
        try:
            for row in self._connection.execute(
                "SELECT resource, namespace, name, revision, data FROM objects"
            ):
                yield Row(*row)
        except sqlite3.Error as error:
            raise StorageError(f"{self._path}: cannot be read: {error}") from None

    def write(self, revision: int, rows: Iterable[Row]) -> None:
        """Commit a batch of changes.

        Raises:
            StorageError: the batch was rolled back.
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
        """Checkpoint the write-ahead log into the file and close it."""
        self._connection.close()
