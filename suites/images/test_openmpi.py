"""The image of MPIClusters: sshd for any user, and Open MPI that starts processes by it."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from hack.images import catalog
from suites.images.container import ARBITRARY_USER, HOST, USER, address, networks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suites.images.container import Container

    Containers = Callable[[str], Container]

NOBODY = 65534
HOSTS = (HOST, "job-worker-0", "job-worker-1")
FILES = catalog.REPOSITORY / "src/traincrew/local/images/files/openmpi"
# What a container runtime gives root.
ROOT = (
    *("CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL"),
    *("CAP_MKNOD", "CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID"),
    *("CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT"),
)
MPIEXEC = "mpiexec --allow-run-as-root --hostfile $HOSTFILE -n 3 --map-by ppr:1:node"


class Cluster:
    """The pods of a cluster: a master, and two workers while it runs mpiexec.

    Args:
        image: The image.
        directory: For its volumes.
        user: UID and GID.
    """

    def __init__(self, image: Container, directory: Path, user: int) -> None:
        self.image, self.user = image, user
        self.keys, self.generated = directory / "keys", directory / "generated"
        for path in (self.keys, self.generated):
            path.mkdir()
        self.hosts = directory / "hosts"
        entries = [f"{address(number)} {host} {host}.job\n" for number, host in enumerate(HOSTS)]
        self.hosts.write_text("127.0.0.1 localhost\n" + "".join(entries))
        (self.generated / "hostfile").write_text("".join(f"{host}.job\n" for host in HOSTS))

    def key(self, private: str = "id_ed25519", kind: str = "ed25519", mode: int = 0o440) -> None:
        """Create the key pair, as a Secret with `fsGroup` shows it."""
        made = self.keys / private
        command = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(made)]
        subprocess.run(command, check=True)
        (self.keys / "authorized_keys").write_text(made.with_suffix(".pub").read_text())
        for path in self.keys.iterdir():
            path.chmod(mode)
            os.chown(path, 0, self.user)

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the master."""
        return self.image.run(*command, **self._settings(variables))

    def one_shot(self, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the master of a one-shot job."""
        return self.run("/init.sh", command, ONE_SHOT="true", **variables)

    def mpiexec(self, command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the master of a one-shot job whose command is mpiexec, and its workers."""
        workers, master = (
            self._settings(variables),
            self._settings({"ONE_SHOT": "true", **variables}),
        )
        with networks(len(HOSTS)) as (namespace, *others), ExitStack() as stack:
            for host, other in zip(HOSTS[1:], others, strict=True):
                worker = self.image.start("/init.sh", namespace=other, host=host, **workers)
                stack.enter_context(worker)
            whole = f"{MPIEXEC} {command}"
            return self.image.run("/init.sh", whole, namespace=namespace, **master)

    def _settings(self, variables: dict[str, str]) -> dict[str, Any]:
        """Return what the containers of all pods are given."""
        return {
            "user": self.user,
            "environment": {"HOSTFILE": "/kube-openmpi/generated/hostfile", **variables},
            "volumes": {
                "/ssh-key/openmpi": self.keys,
                "/kube-openmpi/generated": self.generated,
                "/etc/hosts": self.hosts,
            },
            "capabilities": () if self.user else ROOT,
        }


def complaints(errors: str) -> list[str]:
    """Return the lines of error output, but one of Open MPI.

    It puts each ssh into a process group of its own from both sides, and says so when the other
    side was first.
    """
    return [line for line in errors.splitlines() if "setpgid" not in line]


@pytest.fixture
def image(container: Containers) -> Container:
    return container("openmpi")


@pytest.fixture(params=[0, 1000, NOBODY, USER, ARBITRARY_USER])
def cluster(image: Container, tmp_path: Path, request: pytest.FixtureRequest) -> Cluster:
    """For root, users of the image, and one that it does not know."""
    return Cluster(image, tmp_path, request.param)


@pytest.fixture
def of_user(image: Container, tmp_path: Path) -> Cluster:
    return Cluster(image, tmp_path, 1000)


@pytest.mark.parametrize(("private", "kind"), [("id_ed25519", "ed25519"), ("id_rsa", "rsa")])
def test_processes_start_by_ssh(cluster: Cluster, private: str, kind: str) -> None:
    cluster.key(private, kind)
    words = "$OMPI_COMM_WORLD_RANK $(id -u) ${SSH_CONNECTION:+ssh} $MINE $(umask)"
    mine = 'it\'s "mine"\nalone'
    done = cluster.mpiexec(f"sh -c 'echo {words}'", MINE=mine)
    assert done.returncode == 0, done.stderr
    says = 'it\'s "mine" alone 0022'
    user = cluster.user
    expected = [f"0 {user} {says}", f"1 {user} ssh {says}", f"2 {user} ssh {says}"]
    assert sorted(done.stdout.splitlines()) == expected
    assert complaints(done.stderr) == []


def test_the_exit_code_is_the_commands(of_user: Cluster) -> None:
    of_user.key()
    assert of_user.one_shot("echo one; exit 3").returncode == 3
    assert of_user.one_shot("kill -9 $$").returncode == 137
    failed = of_user.mpiexec("sh -c 'exit 7'")
    assert failed.returncode == 7, failed.stderr


# Starts /init.sh, waits for a file, and tells it to end.
TOLD = """
/init.sh "$2" & init=$!
while [ ! -s "$1" ] && kill -0 $init; do sleep 0.1; done
kill -TERM $init && wait $init; echo ended: $?
"""
READY = "/tmp/openmpi-ssh/ready"


def test_it_sleeps_without_a_command_and_ends_when_it_is_told(of_user: Cluster) -> None:
    of_user.key()
    done = of_user.run("sh", "-c", TOLD, "told", READY)
    assert (done.stdout, done.stderr) == ("ended: 0\n", "")


def test_a_command_is_interrupted_when_the_pod_ends(of_user: Cluster) -> None:
    of_user.key()
    command = "echo begun > /tmp/begun; exec sleep 1000"
    done = of_user.run("sh", "-c", TOLD, "told", "/tmp/begun", command, ONE_SHOT="true")
    # The second is the shell's.
    assert (done.stdout, done.stderr) == ("ended: 143\n", "Terminated\n")


def test_a_command_that_did_not_begin_has_not_succeeded(of_user: Cluster) -> None:
    of_user.key()
    run = of_user.run("sh", "-c", TOLD, "told", "/tmp/sshd.log", "sleep 5", ONE_SHOT="true")
    assert run.stdout == "ended: 143\n"


def test_a_key_without_its_last_line_feed(of_user: Cluster) -> None:
    of_user.key()
    private = of_user.keys / "id_ed25519"
    private.write_text(private.read_text().rstrip("\n"))
    (of_user.keys / "authorized_keys").unlink()
    done = of_user.mpiexec("hostname")
    assert (done.returncode, complaints(done.stderr)) == (0, [])


def test_what_is_wrong_with_keys_is_said(of_user: Cluster) -> None:
    none = of_user.one_shot("true")
    assert none.returncode == 1
    assert "/ssh-key/openmpi has no private key: it needs id_ed25519 or id_rsa" in none.stderr
    of_user.key(mode=0o400)
    unreadable = of_user.one_shot("true")
    assert unreadable.returncode == 1
    wanted = "user 1000 may not read /ssh-key/openmpi/id_ed25519: set securityContext.fsGroup"
    assert wanted in unreadable.stderr


def test_other_keys_are_refused(of_user: Cluster) -> None:
    of_user.key()
    (of_user.keys / "authorized_keys").write_text("ssh-ed25519 AAAAnothing somebody@else\n")
    done = of_user.mpiexec("hostname")
    assert done.returncode != 0
    assert "Permission denied (publickey)" in done.stderr


@pytest.mark.parametrize("user", [0, USER])
def test_chainermn_trains(container: Containers, tmp_path: Path, user: int) -> None:
    cluster = Cluster(container("openmpi-chainermn"), tmp_path, user)
    cluster.key()
    done = cluster.mpiexec("python3 /examples/train_digits.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 process(es), 479 images each" in done.stdout
    assert "validation accuracy: 0.9" in done.stdout.splitlines()[-1]


IMAGES = pytest.mark.parametrize("name", ["openmpi", "openmpi-chainermn"])


@IMAGES
def test_no_host_keys_are_in_the_image(container: Containers, name: str) -> None:
    assert [path.name for path in container(name).file("/etc/ssh").glob("*key*")] == []


@IMAGES
def test_its_scripts_are_those_of_the_embedded_cluster(container: Containers, name: str) -> None:
    image = container(name)
    for file, path in (
        ("init.sh", "/init.sh"),
        ("start_sshd.sh", "/start_sshd.sh"),
        ("ssh_config", "/etc/ssh/ssh_config"),
        ("session.sh", "/usr/local/lib/openmpi-ssh/session"),
        ("wait_for_host.sh", "/usr/local/lib/openmpi-ssh/wait-for-host"),
        ("copy_keys.sh", "/usr/local/lib/openmpi-ssh/copy-keys"),
    ):
        assert image.file(path).read_bytes() == (FILES / file).read_bytes()
