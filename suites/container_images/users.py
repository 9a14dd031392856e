"""Users of container images, each with a cache of its own.

Root; nobody, who can be one user alone; and an account with subordinate IDs.
"""

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
        uid: Its UID, and GID.
    """

    def __init__(self, home: Path, uid: int = 0) -> None:
        self.home = home
        self.is_root, self.is_nobody = uid == 0, uid == NOBODY
        self.is_mapped = not self.is_root and not self.is_nobody
        python = usable_python() if uid else sys.executable
        if python is None:
            pytest.skip("no interpreter of this version that another user may run")
        self._command = (python, "-m", "traincrew.cli")
        self._user: dict[str, Any] = {}
        if uid:
            self._user = {"user": uid, "group": uid, "extra_groups": []}
            os.chown(home, uid, uid)
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

    def removes(self, archive: Path, name: str) -> None:
        """Remove the image of an archive again."""
        self.traincrew("images", "remove", name)
        self._imported.remove(archive)


@contextlib.contextmanager
def user_named(name: str, suite: str) -> Iterator[User]:
    """Make a user; its files are removed in the end.

    Args:
        name: `root`, `nobody`, or `mapped`: an account with subordinate IDs.
        suite: Part of the name of its directory.
    """
    # Below /tmp: nobody may not search the directories of pytest.
    home = Path(f"/tmp/traincrew-{suite}-{name}-{os.getpid()}")
    home.mkdir()
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        uid = {"root": 0, "nobody": NOBODY}.get(name)
        yield User(home, stack.enter_context(_account(suite)) if uid is None else uid)


@contextlib.contextmanager
def _account(suite: str) -> Iterator[int]:
    """Make an account with subordinate IDs; yield its UID, which is its GID as well."""
    lacking = [each for each in ("useradd", "newuidmap") if shutil.which(each) is None]
    if lacking:
        pytest.fail(f"missing: {', '.join(lacking)} (packages passwd and uidmap)", pytrace=False)
    name = f"traincrew-{suite[:8]}-{os.getpid()}"
    # Of its own, whatever the machine's defaults are, and whatever other accounts have.
    uid = 2_000_000 + os.getpid()
    first = 1_000_000_000 + 65_536 * (os.getpid() % 8_192)
    ranges = f"{first}-{first + 65_535}"
    subprocess.run(["groupadd", "-g", str(uid), name], check=True)
    subprocess.run(["useradd", "-M", "-N", "-u", str(uid), "-g", str(uid), name], check=True)
    try:
        added = ["usermod", "--add-subuids", ranges, "--add-subgids", ranges, name]
        subprocess.run(added, check=True)
        yield uid
    finally:
        subprocess.run(["userdel", name], check=False)
        subprocess.run(["groupdel", name], check=False, capture_output=True)
