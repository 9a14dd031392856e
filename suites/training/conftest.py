"""Fixtures of the training suites: a real environment, and hosts to train on."""

import asyncio
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from suites import shell

from traincrew.local.images import Environment, ImageStore

HOSTS = ("job-master", "job-worker-0", "job-worker-1")

AGENT = """\
#!/bin/sh
# Starts a command "on" another host: a process with that host name and the pod's environment.
host=$1
shift
exec env -i {environment} unshare {namespaces} --uts sh -c 'hostname "$0"; exec /bin/sh -c "$*"' \\
  "$host" "$@"
"""


def pytest_configure() -> None:
    """Convert SIGTERM to KeyboardInterrupt, so that clusters are stopped."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


class Hosts:
    """Three hosts on this machine, each with its own name, configured as the operator does."""

    def __init__(self, directory: Path, environment: Environment) -> None:
        self.directory = directory
        self.environment = environment
        self.variables = {
            **environment.variables,
            "HOME": str(directory),
            # As the operator sets them (contract: ChainerJob, Children).
            "OMPI_MCA_plm_rsh_agent": str(directory / "agent"),
            "OMPI_MCA_orte_keep_fqdn_hostnames": "t",
            "OMPI_MCA_orte_default_hostfile": str(directory / "hostfile"),
            "OMPI_MCA_btl_tcp_if_exclude": "lo,docker0",
        }
        (directory / "hostfile").write_text("".join(f"{host} slots=1\n" for host in HOSTS))
        # The agent is a child of mpiexec, which is in a user namespace already; another one allows
        # it to set a host name of its own.
        agent = AGENT.format(
            environment=" ".join(f"{k}={shlex.quote(v)}" for k, v in self.variables.items()),
            namespaces="--user --map-root-user",
        )
        (directory / "agent").write_text(agent)
        (directory / "agent").chmod(0o755)

    def run(
        self, *command: str, network: bool = True, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the first host."""
        process = self.start(*command, network=network, more=more)
        output, _ = process.communicate(timeout=300)
        return subprocess.CompletedProcess(command, process.returncode, output)

    def start(
        self, *command: str, network: bool = True, more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command on the first host; without a network it has loopback only."""
        script = f'hostname {HOSTS[0]}; exec "$@"'
        namespaces = ["--user", "--map-root-user", "--uts"]
        if not network:
            script = f"ip link set lo up; {script}"
            namespaces.append("--net")
        return subprocess.Popen(
            ["unshare", *namespaces, "sh", "-c", script, "sh", *command],
            env={**self.variables, **(more or {})},
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def file(self, path: str) -> str:
        """Return a file of the image on this machine."""
        return str(self.environment.files[path])


def pull(cache: Path, image: str, catalogs: Sequence[Path] = ()) -> Environment:
    """Pull an image as the node does."""
    return asyncio.run(ImageStore(cache, catalogs).pull(image, print))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty cache, so that every run of this suite tests the recipes.

    TRAINCREW_SUITE_CACHE names one to keep, for development of the suite.
    """
    kept = os.environ.get("TRAINCREW_SUITE_CACHE")
    return Path(kept) if kept else tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def chainermn(cache: Path) -> Environment:
    """The environment of ChainerMN images."""
    return pull(cache, "everpeace/chainermn:1.3.0")


@pytest.fixture(scope="session")
def chainer(cache: Path) -> Environment:
    """The environment of Chainer images."""
    return pull(cache, "everpeace/chainer:4.1.0")


@pytest.fixture(scope="session")
def mxnet(cache: Path) -> Environment:
    """The environment of MXNet images."""
    return pull(cache, "traincrew/mxnet")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[shell.User]:
    """A user with a running cluster."""
    shown = "chj,mxj,mpic,job,sts,pod,event"
    with shell.running(shell.User(tmp_path_factory.mktemp("user"), cache, shown)) as user:
        yield user


@pytest.fixture
def hosts(tmp_path: Path, chainermn: Environment) -> Hosts:
    """Three hosts with the ChainerMN environment."""
    return Hosts(tmp_path, chainermn)


def alive(pid: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
