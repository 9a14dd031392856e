"""Git repositories that are served on this machine: to everybody, and to those with an ssh key."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
LOOPBACK = "127.0.0.1"
CONFIGURATION = """\
ListenAddress {address}
Port {port}
HostKey {directory}/host_key
PidFile {directory}/pid
AuthorizedKeysFile {directory}/key.pub
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
"""


class Repository:
    """A repository with two commits.

    Attributes:
        served: The directory that servers read.
        first: The first commit.
    """

    def __init__(self, directory: Path) -> None:
        self._work = directory / "work"
        self.served = directory / "served/code.git"
        (self._work / "examples").mkdir(parents=True)
        self._git("init", "--quiet", "--initial-branch=main")
        self._say("echo $(hostname) says $1 first\n")
        self.first = self._commit()
        self._say("echo $(hostname) says $1\n")
        self._commit()
        self._git("clone", "--quiet", "--bare", ".", str(self.served))

    def change(self, **scripts: str) -> str:
        """Commit new contents of files `examples/NAME.sh`; return the commit, which is served."""
        for name, text in scripts.items():
            (self._work / f"examples/{name}.sh").write_text(text)
        commit = self._commit()
        self._git("push", "--quiet", str(self.served), "HEAD:main")
        return commit

    def add(self, path: str, text: str, branch: str) -> None:
        """Commit a file, and serve it on a branch."""
        file = self._work / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self._commit()
        self._git("push", "--quiet", str(self.served), f"HEAD:refs/heads/{branch}")

    def _git(self, *words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ("git", "-C", str(self._work), *identity, *words)
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def _say(self, script: str) -> None:
        (self._work / "examples/say.sh").write_text(script)

    def _commit(self) -> str:
        self._git("add", ".")
        self._git("commit", "--quiet", "--message=change")
        return self._git("rev-parse", "HEAD")


class Place(NamedTuple):
    """Where a server listens.

    Attributes:
        address: IP address.
        prefix: Command line that runs others there, such as in another network namespace.
    """

    address: str = LOOPBACK
    prefix: tuple[str, ...] = ()

    @contextmanager
    def running(self, command: list[str], port: int) -> Iterator[None]:
        """Run a server from when it listens."""
        server = subprocess.Popen([*self.prefix, *command], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 30
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex((self.address, port)) == 0:
                        break
                assert server.poll() is None, f"{command} has ended"
                assert time.monotonic() < deadline, f"{command} does not listen"
                time.sleep(0.05)
            yield
        finally:
            server.terminate()
            server.wait()


HERE = Place()


@contextmanager
def public(repository: Repository, place: Place = HERE, port: int | None = None) -> Iterator[str]:
    """Serve a repository to everybody; yield its address."""
    port = port or free_port()
    words = ("daemon", "--export-all", f"--listen={place.address}", f"--port={port}")
    base = repository.served.parent
    command = ["git", *words, "--reuseaddr", f"--base-path={base}", str(base)]
    with place.running(command, port):
        yield f"git://{place.address}:{port}/{repository.served.name}"


class Private:
    """A server that is reached by ssh.

    Attributes:
        address: Of the repository.
        key: Private key of those who may read it.
        other_key: Another one.
        known_hosts: A file with the server's key.
    """

    def __init__(self, repository: Repository, directory: Path, place: Place = HERE) -> None:
        self._directory, self._port, self._place = directory, free_port(), place
        self.key, self.other_key = directory / "key", directory / "other_key"
        for path in (self.key, self.other_key, directory / "host_key"):
            words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
            subprocess.run(words, check=True, timeout=60)
        self.known_hosts = directory / "known_hosts"
        self.known_hosts.write_text(self.known(directory / "host_key.pub"))
        name = pwd.getpwuid(os.getuid()).pw_name
        self.address = f"ssh://{name}@{place.address}:{self._port}{repository.served}"

    def known(self, public_key: Path) -> str:
        """Return a line that says that the server has a key."""
        return f"[{self._place.address}]:{self._port} {public_key.read_text()}"

    @contextmanager
    def serving(self) -> Iterator[Private]:
        """Serve it; yield itself."""
        assert SSHD is not None
        if os.getuid() == 0:  # as the machine's own service does, which may never have been started
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        file = self._directory / "sshd_config"
        where = {"address": self._place.address, "port": self._port}
        file.write_text(CONFIGURATION.format(directory=self._directory, **where))
        with self._place.running([SSHD, "-D", "-e", "-f", str(file)], self._port):
            yield self


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
