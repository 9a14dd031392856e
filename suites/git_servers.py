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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
CONFIGURATION = """\
ListenAddress 127.0.0.1
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
        self.first = self._commit("echo $(hostname) says $1 first\n")
        self._commit("echo $(hostname) says $1\n")
        self._git("clone", "--quiet", "--bare", ".", str(self.served))

    def _git(self, *words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ("git", "-C", str(self._work), *identity, *words)
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    def _commit(self, script: str) -> str:
        (self._work / "examples/say.sh").write_text(script)
        self._git("add", ".")
        self._git("commit", "--quiet", "--message=change")
        return self._git("rev-parse", "HEAD")


@contextmanager
def public(repository: Repository) -> Iterator[str]:
    """Serve a repository to everybody; yield its address."""
    port = _free_port()
    words = ("daemon", "--export-all", "--listen=127.0.0.1", f"--port={port}", "--reuseaddr")
    base = repository.served.parent
    with _running(["git", *words, f"--base-path={base}", str(base)], port):
        yield f"git://127.0.0.1:{port}/{repository.served.name}"


class Private:
    """A server that is reached by ssh.

    Attributes:
        address: Of the repository.
        key: Private key of those who may read it.
        other_key: Another one.
        known_hosts: A file with the server's key.
    """

    def __init__(self, repository: Repository, directory: Path) -> None:
        self._directory, self._port = directory, _free_port()
        self.key, self.other_key = directory / "key", directory / "other_key"
        for path in (self.key, self.other_key, directory / "host_key"):
            words = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
            subprocess.run(words, check=True, timeout=60)
        self.known_hosts = directory / "known_hosts"
        self.known_hosts.write_text(self.known(directory / "host_key.pub"))
        name = pwd.getpwuid(os.getuid()).pw_name
        self.address = f"ssh://{name}@127.0.0.1:{self._port}{repository.served}"

    def known(self, public_key: Path) -> str:
        """Return a line that says that the server has a key."""
        return f"[127.0.0.1]:{self._port} {public_key.read_text()}"

    @contextmanager
    def serving(self) -> Iterator[Private]:
        """Serve it; yield itself."""
        assert SSHD is not None
        if os.getuid() == 0:  # as the machine's own service does, which may never have been started
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        file = self._directory / "sshd_config"
        file.write_text(CONFIGURATION.format(port=self._port, directory=self._directory))
        with _running([SSHD, "-D", "-e", "-f", str(file)], self._port):
            yield self


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    """Run a server from when it listens."""
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, f"{command} has ended"
            assert time.monotonic() < deadline, f"{command} does not listen"
            time.sleep(0.05)
        yield
    finally:
        server.terminate()
        server.wait()
