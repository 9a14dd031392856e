"""The scripts of the pods of MPIClusters, run with other programs and directories."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

import traincrew.local.images

FILES = Path(traincrew.local.images.__file__).parent / "files/openmpi"
WHOLE_WAIT = 45
"""Seconds that ssh waits for the address of a name."""


class Pod:
    """A pod's directories, and the programs that the scripts call."""

    def __init__(self, directory: Path) -> None:
        self.keys, self.run = directory / "ssh-key/openmpi", directory / "tmp/openmpi-ssh"
        self.calls = directory / "calls"
        self.programs, self.library = directory / "bin", directory / "lib"
        for path in (self.keys, self.run, self.programs, self.library):
            path.mkdir(parents=True)
        for name in ("copy_keys", "wait_for_host", "start_sshd"):
            text = (FILES / f"{name}.sh").read_text()
            text = text.replace("/tmp/", f"{directory}/tmp/")
            text = text.replace("/ssh-key/", f"{directory}/ssh-key/")
            text = text.replace("/usr/local/lib/openmpi-ssh", str(self.library))
            self._program(self.library / name.replace("_", "-"), text)

    def _program(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def program(self, name: str, text: str) -> None:
        """Put a program before those of the machine; it notes that it was called."""
        self._program(
            self.programs / name, f'#!/bin/sh\necho {name} "$@" >> {self.calls}\n{text}\n'
        )

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def does(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.library / name), *words],
            env={"PATH": f"{self.programs}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    """A pod in which no time passes, and no name has an address."""
    pod = Pod(tmp_path)
    pod.program("getent", "exit 2")
    pod.program("sleep", "")
    return pod


# -- addresses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "::1", "fd00::7", "fe80::1%eth0", "::ffff:10.0.0.7"]
)
def test_an_address_is_not_waited_for(pod: Pod, address: str) -> None:
    """getent would ask for its name, which there is none of in most clusters."""
    assert pod.does("wait-for-host", address).returncode == 0
    assert pod.called() == []


@pytest.mark.parametrize(
    "name", ["play-worker-0.play", "node7", "7.example.com", "10.0.0.7.nip.io"]
)
def test_a_name_is_waited_for(pod: Pod, name: str) -> None:
    found = pod.does("wait-for-host", name)
    assert found.stderr == f"waiting for the address of {name}\n"
    assert pod.called().count("sleep 1") == WHOLE_WAIT
    assert f"getent hosts {name}" in pod.called()


def test_a_name_with_an_address_is_not_waited_for(pod: Pod) -> None:
    pod.program("getent", "echo 10.0.0.7 node7")
    pod.does("wait-for-host", "node7")
    assert pod.called() == ["getent hosts node7"]


# -- keys ---------------------------------------------------------------------------------------


def test_a_key_is_copied_for_its_owner_alone(pod: Pod) -> None:
    """With a line feed at its end, which Secrets written by hand lack."""
    (pod.keys / "id_rsa").write_text("BEGIN\n\nmine\nEND")
    found = pod.does("copy-keys")
    assert found.stdout == f"{pod.keys}/id_rsa\n"
    copied = pod.run / "identity"
    assert copied.read_text() == "BEGIN\nmine\nEND\n"
    assert stat.S_IMODE(copied.stat().st_mode) == 0o600
    assert list(pod.run.iterdir()) == [copied]


def test_ssh_uses_the_keys_of_now(pod: Pod) -> None:
    """The volume changes while the pod runs; the script runs before each connection."""
    (pod.keys / "id_ed25519").write_text("first\n")
    pod.does("wait-for-host", "10.0.0.7")
    copied, previous = pod.run / "identity", pod.run / "identity.previous"
    before = copied.stat().st_ino
    pod.does("wait-for-host", "10.0.0.7")
    assert copied.stat().st_ino == before, "it is not written without a reason"

    (pod.keys / "id_ed25519").write_text("second\n")
    (pod.keys / "id_previous").write_text("first\n")
    pod.does("wait-for-host", "10.0.0.7")
    assert (copied.read_text(), previous.read_text()) == ("second\n", "first\n")

    (pod.keys / "id_previous").unlink()
    pod.does("wait-for-host", "10.0.0.7")
    assert copied.read_text() == "second\n"
    assert not previous.exists()


def test_what_is_wrong_with_the_keys_is_said(pod: Pod) -> None:
    found = pod.does("copy-keys")
    assert found.returncode == 1
    assert f"{pod.keys} has no private key: it needs id_ed25519 or id_rsa" in found.stderr
    shutil.rmtree(pod.keys)
    assert f"there is no directory {pod.keys}" in pod.does("copy-keys").stderr


def test_without_keys_a_host_is_waited_for_all_the_same(pod: Pod) -> None:
    pod.program("getent", "echo 10.0.0.7 node7")
    found = pod.does("wait-for-host", "node7")
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


# -- users --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shell", "password", "reason"),
    [
        ("/usr/sbin/nologin", "*", "its shell in /etc/passwd is /usr/sbin/nologin; set"),
        ("/bin/false", "*", "user me may not run commands by ssh"),
        ("/bin/sh", "!", "the account of user me is locked in /etc/shadow"),
        ("/bin/sh", "!*", "set securityContext.runAsUser to another user"),
        ("/bin/sh", "*", "there is no directory"),  # of keys, which comes next
    ],
)
def test_a_user_that_sshd_would_refuse_is_told_at_once(
    pod: Pod, shell: str, password: str, reason: str
) -> None:
    shutil.rmtree(pod.keys)
    pod.program("sshd", "exit 1")
    entries = f"passwd) echo me:x:7:7::/:{shell} ;; shadow) echo 'me:{password}:::::::' ;;"
    pod.program("getent", f"case $1 in {entries} esac")
    found = pod.does("start-sshd")
    assert found.returncode == 1
    assert reason in found.stderr
