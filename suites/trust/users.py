"""Two users of one machine, each with a home, made for the tests and removed after them."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import resource
import signal
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
PATHS = [PROJECT / "src", PROJECT / "tests", PROJECT, sysconfig.get_path("purelib")]
SECONDS = 60
DESCRIPTORS = 1024


class LocalUser:
    """A user who runs programs of this project.

    Args:
        name: the account.
        python: an interpreter that every user may run.
    """

    def __init__(self, name: str, python: str) -> None:
        account = pwd.getpwnam(name)
        self.home = Path(account.pw_dir)
        self.uid, self._gid = account.pw_uid, account.pw_gid
        self._python = python
        self.kubeconfig = self.home / "kubeconfig"

    def popen(self, *arguments: str, umask: int = 0o022, **options: Any) -> subprocess.Popen[str]:
        """Start the interpreter, with as many descriptors as a login usually gets."""

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

        return subprocess.Popen(
            [self._python, *arguments],
            user=self.uid,
            group=self._gid,
            extra_groups=[],
            umask=umask,
            preexec_fn=limit,  # noqa: PLW1509 - no thread runs here
            cwd=self.home,
            env={
                "HOME": str(self.home),
                "PATH": "/usr/local/bin:/usr/bin:/bin",
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": os.pathsep.join(map(str, PATHS)),
            },
            text=True,
            **options,
        )

    def runs(self, *arguments: str, code: int | None = 0, umask: int = 0o022) -> str:
        """Run the interpreter to its end; return what it printed, both streams."""
        process = self.popen(
            *arguments, umask=umask, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        with process:
            try:
                output, _ = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert code in {None, process.returncode}, output
        return output

    def traincrew(self, *words: str, code: int | None = 0, umask: int = 0o022) -> str:
        """Run `traincrew`."""
        return self.runs("-m", "traincrew.cli", *words, code=code, umask=umask)

    def attacks(self, attack: str, *words: object) -> Any:
        """Run a function of `attacks` as this user; return its result."""
        output = self.runs("-m", "suites.trust.attacks", attack, *map(str, words))
        return json.loads(output.splitlines()[-1])

    def cluster(self) -> Any:
        """Return what `traincrew status` says."""
        return json.loads(self.traincrew("status", "-o", "json", code=None))[0]


@contextlib.contextmanager
def two_users(python: str) -> Iterator[tuple[LocalUser, LocalUser]]:
    """Make two users; in the end, their processes, files and accounts are removed."""
    names = [f"tc{letter}{os.getpid()}" for letter in "ab"]
    made: list[str] = []
    try:
        for name in names:
            subprocess.run(["useradd", "--create-home", name], check=True, capture_output=True)
            made.append(name)
            Path(pwd.getpwnam(name).pw_dir).chmod(0o755)  # as on many machines
        first, second = (LocalUser(name, python) for name in names)
        yield first, second
        first.traincrew("down", "--all", code=None)
    finally:
        for name in made:
            uid = pwd.getpwnam(name).pw_uid
            _end_processes(uid)
            for shared in (Path("/tmp"), Path("/dev/shm")):
                for path in shared.iterdir():
                    with contextlib.suppress(OSError):
                        if path.lstat().st_uid == uid:
                            subprocess.run(["rm", "-rf", str(path)], check=True)
            subprocess.run(["userdel", "--remove", name], check=True, capture_output=True)


def _end_processes(uid: int) -> None:
    """End what a user still runs, so that the account can be removed."""
    deadline = time.monotonic() + SECONDS
    while found := [each for each in Path("/proc").glob("[0-9]*") if _is_of(each, uid)]:
        assert time.monotonic() < deadline, f"processes of uid {uid} do not end: {found}"
        for entry in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)
        time.sleep(0.02)


def _is_of(process: Path, uid: int) -> bool:
    with contextlib.suppress(OSError):
        return process.stat().st_uid == uid
    return False
