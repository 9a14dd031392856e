"""Time from the death of a role of an MxJob to the new pods of all roles running.

A job of a scheduler, two servers and three workers runs on an embedded cluster; its scheduler ends
as if it was killed, in rounds. The operator runs in this process, so that its requests can be
observed. Its share has two parts: from the watch that delivers the death to the last delete that is
answered, and, when the old pods have ended, from the watch that delivers the end of the last one to
the last create that is answered.

Reference in the same run: a bare client that deletes the Jobs of such a group when it sees the
death, and creates them again when their pods have ended.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks._kinds import MX_JOBS
from benchmarks._observer import OperatorObserver
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import JOBS, PODS
from traincrew.operator.app import run_operator
from traincrew.operator.options import OperatorOptions

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from benchmarks._observer import Received

ROUNDS = 5
GOAL_OPERATOR_SECONDS = 0.100
WAIT_SECONDS = 60.0
ROLES = {"SCHEDULER": 1, "SERVER": 2, "WORKER": 3}
PODS_WANTED = sum(ROLES.values())
_KILLED = re.compile(rb'"exitCode": ?137')
PROGRAM = """\
trap 'exit 143' TERM
while ! [ -e /bench/die-$DMLC_ROLE ]; do sleep 0.05; done
echo > /bench/died
exit 137
"""
"""A role that ends at once when it is asked to, and otherwise as if it was killed."""


def _template(directory: Path, **variables: str) -> dict[str, Any]:
    container = {
        "name": "mxnet",
        "image": "busybox:1",
        "command": ["sh", "-c", PROGRAM],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumeMounts": [{"name": "bench", "mountPath": "/bench"}],
    }
    volume = {"name": "bench", "hostPath": {"path": str(directory)}}
    return {"spec": {"containers": [container], "volumes": [volume]}}


def _job(directory: Path) -> dict[str, Any]:
    replicas = [
        {"mxReplicaType": role, "replicas": number, "template": _template(directory)}
        for role, number in ROLES.items()
    ]
    # None of the deaths ends the job.
    policy = {"backoffLimit": 1000}
    return {
        "apiVersion": MX_JOBS.api_version,
        "kind": MX_JOBS.kind,
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"jobMode": "dist", "replicaSpecs": replicas, "runPolicy": policy},
    }


def _bare_jobs(directory: Path) -> list[dict[str, Any]]:
    """Return the Jobs of a group as a bare client creates them."""
    jobs = []
    for role, number in ROLES.items():
        for index in range(number):
            template = _template(directory, DMLC_ROLE=role.lower())
            template["spec"]["restartPolicy"] = "Never"
            name = f"bare-{role.lower()}-{index}"
            jobs.append(
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": {"backoffLimit": 0, "template": template},
                }
            )
    return jobs


class Cluster:
    """The cluster, and the directory with the files that end its pods.

    Args:
        client: A client of the API server.
        directory: Mounted into every pod.
    """

    def __init__(self, client: Client, directory: Path) -> None:
        self.client, self.directory = client, directory

    async def until_running(self, *, without: AbstractSet[str] = frozenset()) -> set[str]:
        """Wait until all roles run in other pods than these; return the UIDs of the pods."""
        limit = time.monotonic() + WAIT_SECONDS
        while True:
            pods = (await self.client.list(PODS, "default"))["items"]
            uids = {pod["metadata"]["uid"] for pod in pods if pod["status"]["phase"] == "Running"}
            if len(uids) == len(pods) == PODS_WANTED and uids.isdisjoint(without):
                return uids
            if time.monotonic() > limit:
                raise SystemExit(f"{len(uids)} of {PODS_WANTED} pods run after {WAIT_SECONDS} s")
            await asyncio.sleep(0.01)

    async def kill_scheduler(self) -> float:
        """End the scheduler as if it was killed; return when it ended."""
        die, died = self.directory / "die-scheduler", self.directory / "died"
        die.touch()
        while not died.exists():
            await asyncio.sleep(0.005)
        moment = time.monotonic()
        died.unlink()
        die.unlink()
        return moment


class Shares(NamedTuple):
    """One restart, in seconds."""

    whole: float
    noticed: float
    deleting: float
    ending: float
    creating: float
    starting: float


async def _restarts(cluster: Cluster, kubeconfig: Path) -> list[Shares]:
    """Let a job be restarted in rounds, each a new one: after repeated failures, a start waits."""
    observer = OperatorObserver()
    observer.observe()
    config, stop = load_config(str(kubeconfig)), asyncio.Event()
    operator = asyncio.create_task(run_operator(config, OperatorOptions(leader_elect=False), stop))
    found = []
    for _ in range(ROUNDS + 1):
        await cluster.client.create(MX_JOBS, _job(cluster.directory))
        running = await cluster.until_running()
        observer.clear()
        died = await cluster.kill_scheduler()
        running = await cluster.until_running(without=running)
        done = time.monotonic()
        noticed = observer.first_received(_has_died)
        deleted = observer.last_answered("DELETE", "jobs", "pods")
        created = observer.last_answered("POST", "jobs")
        ended = max(one.at for one in observer.received if _has_ended(one) and one.at < created)
        found.append(
            Shares(
                whole=done - died,
                noticed=noticed - died,
                deleting=deleted - noticed,
                ending=ended - deleted,
                creating=created - ended,
                starting=done - created,
            )
        )
        await cluster.client.delete(MX_JOBS, "job", "default")
        await _until_gone(cluster.client)
    stop.set()
    await operator
    return found[1:]


def _has_died(received: Received) -> bool:
    """Whether a chunk says that a container has ended as if it was killed."""
    return received.path.endswith("/pods") and _KILLED.search(received.chunk) is not None


def _has_ended(received: Received) -> bool:
    """Whether a chunk says that a pod is gone."""
    return received.path.endswith("/pods") and b'"DELETED"' in received.chunk


async def _until_gone(client: Client) -> None:
    limit = time.monotonic() + WAIT_SECONDS
    while (await client.list(PODS, "default"))["items"]:
        if time.monotonic() > limit:
            raise SystemExit(f"pods are left after {WAIT_SECONDS} s")
        await asyncio.sleep(0.005)


async def _bare_restarts(cluster: Cluster) -> list[float]:
    """Restart a group by a bare client, in rounds."""
    client, jobs = cluster.client, _bare_jobs(cluster.directory)

    async def create() -> None:
        await asyncio.gather(*(client.create(JOBS, job) for job in jobs))

    async def delete() -> None:
        names = [job["metadata"]["name"] for job in jobs]
        await asyncio.gather(*(client.delete(JOBS, name, "default") for name in names))

    await create()
    await cluster.until_running()
    found = []
    for _ in range(ROUNDS + 1):
        death = asyncio.create_task(_until_died(client))
        died = await cluster.kill_scheduler()
        await death
        await delete()
        await _until_gone(client)
        await create()
        await cluster.until_running()
        found.append(time.monotonic() - died)
    await delete()
    await _until_gone(client)
    return found[1:]


async def _until_died(client: Client) -> None:
    """Watch the pods until a container has ended."""
    rest = b""
    async with client.stream(PODS.path("default"), {"watch": "true"}) as chunks:
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                states = json.loads(line)["object"]["status"].get("containerStatuses", [])
                if any("terminated" in one["state"] for one in states):
                    return


def _report(restarts: list[Shares], bare: list[float]) -> None:
    shares = Shares(*(statistics.median(each) for each in zip(*restarts, strict=True)))
    reference = statistics.median(bare)
    operators = [one.deleting + one.creating for one in restarts]
    print(
        f"death of the scheduler to {PODS_WANTED} new pods running: {shares.whole:.2f} s;"
        f" a bare client: {reference:.2f} s; ratio {shares.whole / reference:.2f};"
        f" median of {ROUNDS}"
    )
    print(
        f"  operator: {1000 * statistics.median(operators):.0f} ms"
        f" (goal {1000 * GOAL_OPERATOR_SECONDS:.0f} ms), worst {1000 * max(operators):.0f} ms:"
    )
    print(f"    from the death to its last delete answered: {1000 * shares.deleting:.0f} ms")
    print(
        f"    from the last pod's end to its last create answered: {1000 * shares.creating:.0f} ms"
    )
    print(f"  node, from the death to the operator's watch: {1000 * shares.noticed:.0f} ms")
    print(f"  old pods, until all have ended: {1000 * shares.ending:.0f} ms")
    print(f"  Job controller, scheduler and node, until all run: {1000 * shares.starting:.0f} ms")


async def _measure(scratch: Path) -> None:
    kubeconfig, directory = scratch / "kubeconfig", scratch / "bench"
    directory.mkdir(mode=0o777)
    serve = [sys.executable, "-c", "import benchmarks.elastic_scale as it; it.serve()"]
    process = await asyncio.create_subprocess_exec(
        *serve, str(kubeconfig), stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[1]
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        async with Client(load_config(str(kubeconfig)), user_agent="benchmark") as client:
            cluster = Cluster(client, directory)
            bare = await _bare_restarts(cluster)
            restarts = await _restarts(cluster, kubeconfig)
    finally:
        process.terminate()
        await process.wait()
    _report(restarts, bare)


def main() -> None:
    """Measure and print."""
    # On a signal, stop the cluster and its pods, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(_measure(Path(scratch)))


if __name__ == "__main__":
    main()
