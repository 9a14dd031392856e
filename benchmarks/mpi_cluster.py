"""Time from `kubectl create` of an MPICluster to the end of a first mpiexec over all of its pods.

On an embedded cluster, with 2, 16 and 64 workers: `mpiexec hostname` through `kubectl exec`, one
rank in each pod. Then two workers become four and two again, in rounds: how long after a worker is
ready, or is to be deleted, the hostfile in the master says so.

Reference in the same run: mpiexec of the same Open MPI, which starts as many ranks by as many sshds
of this machine, without any cluster; from the start of the sshds.

    python -m benchmarks mpi_cluster [--workers 2,16,64]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import getpass
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks._kinds import MPI_CLUSTERS
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import PODS
from traincrew.local.directories import default_cache
from traincrew.local.images import ImageStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from traincrew.local.images import Environment

WORKERS = (2, 16, 64)
FEW, MANY, ROUNDS = 2, 4, 5
GOAL_LAG_SECONDS = 15
"""The default of ``spec.hostfile.updateSeconds``."""
WAIT_SECONDS = 180.0
IMAGE = "traincrew/openmpi:0.1.0"
HOSTFILE = "/kube-openmpi/generated/hostfile"
PORT = 2022
REPORT = f"""\
before=
while :; do
  now=$(cat {HOSTFILE})
  if [ "$now" != "$before" ]; then
    echo "$(date +%s.%N)" $now
    before=$now
  fi
  sleep 0.02
done
"""
"""Writes the hostfile and the time whenever it changes."""


# -- the cluster ----------------------------------------------------------------------------------


class User:
    """Somebody with traincrew and kubectl, and an embedded cluster.

    Args:
        home: Of the cluster's state.
    """

    def __init__(self, home: Path) -> None:
        self.kubeconfig = home / "kubeconfig"
        programs = Path(sys.executable).parent
        self.environment = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "TRAINCREW_HOME": str(home / "clusters"),
            "TRAINCREW_CACHE": str(default_cache()),
            "KUBECONFIG": str(self.kubeconfig),
        }

    @contextlib.contextmanager
    def cluster(self) -> Iterator[None]:
        """A cluster while the context lasts."""
        self.run("traincrew", "up", "--kubeconfig", str(self.kubeconfig))
        try:
            yield
        finally:
            self.run("traincrew", "down")

    def run(self, *command: str, given: str | None = None) -> str:
        """Run a command that has to succeed; return what it printed."""
        result = subprocess.run(
            command, env=self.environment, input=given, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise SystemExit(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
        return result.stdout

    def create(self, name: str, workers: int) -> None:
        """Create an MPICluster, and wait until it runs."""
        self.run("kubectl", "create", "-f", "-", given=json.dumps(_manifest(name, workers)))
        which = f"mpicluster/{name}"
        limit = f"--timeout={WAIT_SECONDS:.0f}s"
        self.run("kubectl", "wait", "--for=condition=Running", which, limit)

    def mpiexec(self, name: str, ranks: int) -> None:
        """Run one rank in each pod."""
        arguments = _mpiexec(HOSTFILE, ranks)
        hosts = self.run("kubectl", "exec", f"{name}-master", "--", *arguments).split()
        assert len(set(hosts)) == ranks, hosts

    def delete(self, name: str) -> None:
        """Delete an MPICluster, and wait until its pods are gone."""
        self.run("kubectl", "delete", "mpicluster", name)
        self.run("kubectl", "wait", "--for=delete", "pod", "--all", "--timeout=120s")


def _mpiexec(hostfile: str, ranks: int) -> list[str]:
    return [
        "mpiexec", "--allow-run-as-root", "--hostfile", hostfile,
        "-n", str(ranks), "--map-by", "ppr:1:node", "hostname",
    ]  # fmt: skip


def _manifest(name: str, workers: int) -> dict[str, Any]:
    def template(container: str) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": container, "image": IMAGE}]}}

    return {
        "apiVersion": MPI_CLUSTERS.api_version,
        "kind": MPI_CLUSTERS.kind,
        "metadata": {"name": name},
        "spec": {
            "master": {"template": template("mpi-master")},
            "workers": {"replicas": workers, "template": template("mpi-worker")},
        },
    }


class Start(NamedTuple):
    """One start, in seconds: until the first mpiexec has ended, and of that mpiexec."""

    whole: float
    mpiexec: float


def _start(user: User, workers: int) -> Start:
    name, started = f"of-{workers}", time.monotonic()
    user.create(name, workers)
    running = time.monotonic()
    user.mpiexec(name, workers + 1)
    ended = time.monotonic()
    user.delete(name)
    return Start(ended - started, ended - running)


# -- the hostfile ---------------------------------------------------------------------------------


async def _lags(user: User) -> list[float]:
    """Scale a cluster in rounds; return how long the hostfile needed, for each worker."""
    await asyncio.to_thread(user.create, "scaled", FEW)
    moments: dict[str, float] = {}
    changes: asyncio.Queue[tuple[float, set[str]]] = asyncio.Queue()
    report = await asyncio.create_subprocess_exec(
        "kubectl", "exec", "scaled-master", "--", "sh", "-c", REPORT,
        env=user.environment, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    lags: list[float] = []
    async with Client(load_config(str(user.kubeconfig)), user_agent="benchmark") as client:
        tasks = [
            asyncio.create_task(_follow_hostfile(report, changes)),
            asyncio.create_task(_follow_pods(client, moments)),
        ]
        _, hosts = await changes.get()
        for _ in range(ROUNDS):
            for replicas in (MANY, FEW):
                await client.patch(
                    MPI_CLUSTERS,
                    "scaled",
                    "default",
                    patch={"spec": {"replicas": replicas}},
                    subresource="scale",
                )
                while len(hosts) != replicas + 1:
                    at, now = await asyncio.wait_for(changes.get(), WAIT_SECONDS)
                    for host in now ^ hosts:
                        word = "ready" if host in now else "ending"
                        # The watch may be behind the hostfile; then there is no lag.
                        lags.append(max(0.0, at - moments.pop(f"{host} {word}", at)))
                    hosts = now
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    report.terminate()
    await report.wait()
    await asyncio.to_thread(user.delete, "scaled")
    return lags


async def _follow_hostfile(
    report: asyncio.subprocess.Process, changes: asyncio.Queue[tuple[float, set[str]]]
) -> None:
    assert report.stdout is not None
    async for line in report.stdout:
        at, *hosts = line.decode().split()
        changes.put_nowait((float(at), {host.partition(".")[0] for host in hosts}))


async def _follow_pods(client: Client, moments: dict[str, float]) -> None:
    """Record when a pod is ready, and when it is to be deleted."""
    rest = b""
    async for chunk in _chunks(client):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            pod = json.loads(line)["object"]
            metadata, conditions = pod["metadata"], pod["status"].get("conditions", [])
            ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
            if metadata.get("deletionTimestamp"):
                moments.setdefault(f"{metadata['name']} ending", time.time())
            elif ready:
                moments.setdefault(f"{metadata['name']} ready", time.time())


async def _chunks(client: Client) -> AsyncIterator[bytes]:
    async with client.stream(PODS.path("default"), {"watch": "true"}) as chunks:
        async for chunk in chunks:
            yield chunk


# -- the reference --------------------------------------------------------------------------------


def _bare(environment: Environment, scratch: Path, workers: int) -> Start:
    """Start sshds, and mpiexec over them."""
    directory = scratch / f"bare-{workers}"
    directory.mkdir(mode=0o700)
    key = directory / "key"
    generate = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(generate, check=True)
    addresses = [f"127.20.0.{number}" for number in range(1, workers + 2)]
    (directory / "hosts").write_text("\n".join(addresses) + "\n")
    (directory / "config").write_text(
        f"Host *\n Port {PORT}\n User {getpass.getuser()}\n IdentityFile {key}\n BatchMode yes\n"
        " StrictHostKeyChecking no\n UserKnownHostsFile /dev/null\n LogLevel ERROR\n"
    )
    shutil.copy(f"{key}.pub", directory / "authorized")
    assert environment.prefix is not None
    variables = {
        **os.environ,
        **environment.variables,
        "OMPI_MCA_plm_rsh_agent": "ssh",
        "OMPI_MCA_plm_rsh_args": f"-F {directory / 'config'}",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "t",
    }
    program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # which an sshd of root needs
    started = time.monotonic()
    sshds = []
    try:
        for address in addresses:
            settings = [
                f"ListenAddress {address}:{PORT}", f"HostKey {key}", "PidFile none", "UsePAM no",
                f"AuthorizedKeysFile {directory / 'authorized'}", "StrictModes no",
                f"SetEnv PATH={variables['PATH']} OPAL_PREFIX={environment.prefix}",
            ]  # fmt: skip
            configuration = directory / f"sshd-{address}"
            configuration.write_text("\n".join(settings) + "\n")
            log = directory / f"log-{address}"
            sshds.append(
                subprocess.Popen([program, "-D", "-f", str(configuration), "-E", str(log)])
            )
        for address in addresses:
            _until_listening(address)
        listening = time.monotonic()
        prefix = f"--prefix {environment.prefix}".split()
        command = _mpiexec(str(directory / "hosts"), workers + 1)
        subprocess.run(
            [f"{environment.prefix}/bin/mpiexec", *prefix, *command[1:]],
            env=variables,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # harmless warnings of Open MPI
        )
        ended = time.monotonic()
    finally:
        for sshd in sshds:
            sshd.terminate()
        for sshd in sshds:
            sshd.wait()
    return Start(ended - started, ended - listening)


def _until_listening(address: str) -> None:
    limit = time.monotonic() + WAIT_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection((address, PORT), 1):
            return
        if time.monotonic() > limit:
            raise SystemExit(f"no sshd listens at {address}:{PORT}")
        time.sleep(0.005)


def _measure(scratch: Path, sizes: Sequence[int]) -> None:
    environment = asyncio.run(ImageStore(default_cache()).pull(IMAGE, print))
    user = User(scratch)
    with user.cluster():
        _start(user, 1)  # the first pods of a cluster import more
        for workers in sizes:
            bare, ours = _bare(environment, scratch, workers), _start(user, workers)
            print(
                f"{workers} workers, create to the end of mpiexec: {ours.whole:.2f} s, of which"
                f" mpiexec {ours.mpiexec:.2f} s; bare sshds {bare.whole:.2f} s, of which mpiexec"
                f" {bare.mpiexec:.2f} s; ratio {ours.whole / bare.whole:.2f}, of mpiexec alone"
                f" {ours.mpiexec / bare.mpiexec:.2f}",
                flush=True,
            )
        lags = asyncio.run(_lags(user))
    print(
        f"hostfile after {len(lags)} workers came or went: median"
        f" {1000 * statistics.median(lags):.0f} ms, worst {1000 * max(lags):.0f} ms"
        f" (goal {GOAL_LAG_SECONDS} s)"
    )


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks mpi_cluster", description=__doc__)
    parser.add_argument("--workers", type=_sizes, default=WORKERS, help="(default 2,16,64)")
    chosen = parser.parse_args(arguments)
    # On a signal, stop the cluster and the sshds, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory() as scratch:
        _measure(Path(scratch), chosen.workers)


if __name__ == "__main__":
    main()
