"""Users of container images, each with a cache of its own: root, and nobody."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from suites.nobody import NOBODY, usable_python

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
MINUTES = 5 * 60.0


class User:
    """A user with a cache of images of its own.

    Args:
        home: Its home directory.
        nobody: Whether it is nobody, who may give files to no other user.
    """

    def __init__(self, home: Path, *, nobody: bool) -> None:
        self.home = home
        self.is_nobody = nobody
        python = usable_python() if nobody else sys.executable
        if python is None:
            pytest.skip("no interpreter of this version that another user may run")
        self._command = (python, "-m", "traincrew.cli")
        self._user: dict[str, Any] = {}
        if nobody:
            self._user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(home, NOBODY, NOBODY)
        self._environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(home),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{PROJECT / 'src'}:{sysconfig.get_path('purelib')}",
        }
        self._imported: set[Path] = set()

    def traincrew(self, *words: str, stdin: Path | None = None) -> str:
        """Run a command that has to succeed; return its output."""
        with (stdin or Path(os.devnull)).open("rb") as file:
            done = subprocess.run(
                [*self._command, *words],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=self.home,
                env=self._environment,
                timeout=MINUTES,
                text=True,
                check=False,
                **self._user,
            )
        assert done.returncode == 0, done.stdout[-6000:]
        return str(done.stdout)

    def has(self, archive: Path) -> None:
        """Import the image of an archive, as `docker save` would hand it over."""
        if archive not in self._imported:
            self.traincrew("images", "import", "-", stdin=archive)
            self._imported.add(archive)


@contextlib.contextmanager
def user_named(name: str, suite: str) -> Iterator[User]:
    """Make a user; its files are removed in the end.

    Args:
        name: `root` or `nobody`.
        suite: Part of the name of its directory.
    """
    # Below /tmp: nobody may not search the directories of pytest.
    home = Path(f"/tmp/traincrew-{suite}-{name}-{os.getpid()}")
    home.mkdir()
    try:
        yield User(home, nobody=name == "nobody")
    finally:
        shutil.rmtree(home, ignore_errors=True)
