"""The two runs that are compared: the operator's, and that of a client that replays its writes.

Each has a new cluster of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hack.cluster import Options, RealCluster

from benchmarks._kinds import CHAINER_JOBS
from benchmarks._usage import Meter, Usage, peak_mebibytes
from benchmarks.real_cluster import audit, jobs, kwok, projects, recording, replay
from benchmarks.real_cluster.bare import BareClient
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.errors import ForbiddenError
from traincrew.engine.resources import CONFIG_MAPS, SERVICES
from traincrew.operator.manifests import NAMESPACE
from traincrew.operator.manifests.values import NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.real_cluster.recording import Exchange

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = f"system:serviceaccount:{NAMESPACE}:{NAME}"
_PATIENCE = 300.0
_PATIENCE_PER_JOB = 1.0
QUIET = 3.0
_SETTLING = 60.0
# By default these components are limited to 20 and 50 requests a second, and a benchmark would
# measure only those limits.
_ARGUMENTS = {
    "kube-controller-manager": (
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
        "--concurrent-statefulset-syncs=16",
        "--concurrent-job-syncs=16",
        # Fake kubelets renew their Leases every ten seconds.
        "--node-monitor-grace-period=60s",
    ),
    "kube-scheduler": ("--kube-api-qps=2000", "--kube-api-burst=4000"),
}


@dataclass
class Run:
    """The results of one run; times in seconds since just before the first job was created.

    Attributes:
        created: The last job was accepted.
        half: Half of the pods ran.
        pods: The last pod ran.
        running: The last job's status said Running; `pods` if no status is written.
        last_write: The last write of the operator, or of the client in its place, was answered.
        effort: CPU seconds of all programs of the run until the last pod ran. Unlike the time, they
            do not depend on what else the machine does.
        usage: CPU time until all jobs were running and everything had come to rest.
        requests: Requests the API server answered, by user.
    """

    created: float
    half: float
    pods: float
    running: float
    last_write: float
    effort: float
    usage: Usage
    requests: Counter[str] = field(default_factory=Counter)


@dataclass
class Recorded(Run):
    """The operator's run.

    Attributes:
        exchanges: All its requests but streams.
        uids: Of the jobs, by name.
        writes: Accepted writes in the jobs' namespace according to the audit log, by what.
        refused: Writes that were not accepted.
        peak_mebibytes: Most memory the operator ever had.
        last_event: The last event was written.
        statuses: Writes of each job's status until it said Running, that one included.
        lags: Seconds from the last running pod of each job to the status that says Running.
    """

    exchanges: list[Exchange] = field(default_factory=list)
    uids: dict[str, str] = field(default_factory=dict)
    writes: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    peak_mebibytes: float = 0.0
    last_event: float = 0.0
    statuses: list[int] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)


class HistoryRunner:
    """A new cluster with fake nodes and all of the installation but the operator itself.

    Args:
        directory: For files of this run.
        load: The jobs that will come.
    """

    def __init__(self, directory: Path, load: jobs.Load) -> None:
        self.directory = directory
        self.load = load
        self.cluster = RealCluster(Options(name="bench", nodes=0, arguments=_ARGUMENTS), print)
        self.token = directory / "operator.kubeconfig"
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.cluster)
            self._install()
            binary = self.cluster.binary("kwok")
            self.nodes = stack.enter_context(
                kwok.FakeNodes(binary, self.cluster.kubeconfig, self.directory)
            )
            asyncio.run(self._settle())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _install(self) -> None:
        kubectl = self.cluster.kubectl
        directory = ROOT / "deploy"
        if self.load.of_others:
            directory = self.directory / "deploy"
            kind = self.load.resource.kind
            values = self.directory / "values.yaml"
            values.write_text(json.dumps({"kinds": {kind: True}}))
            make = [sys.executable, "-m", "traincrew.cli", "manifests", f"--values={values}"]
            subprocess.run([*make, f"--directory={directory}"], check=True)
            self.cluster.create(projects.definition(self.load.resource))
        for name in ("0-crd.yaml", "1-namespace.yaml", "2-rbac.yaml"):
            kubectl("create", "-f", str(directory / name))
        kubectl("wait", "--for=condition=Established", "crd", "--all")
        self.write_kubeconfig(NAME, NAMESPACE, self.token)

    def write_kubeconfig(self, account: str, namespace: str, path: Path) -> None:
        """Write a kubeconfig with a token of a service account, which is valid for an hour."""
        kubectl = self.cluster.kubectl
        token = kubectl("create", "token", account, "-n", namespace, "--duration=1h")
        configuration = json.loads(kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
        for user in configuration["users"]:
            user["user"] = {"token": token.strip()}
        path.write_text(json.dumps(configuration))

    async def _settle(self) -> None:
        """Wait until nodes and admission are in the state of an established cluster."""
        async with Client(load_config(str(self.cluster.kubeconfig))) as admin:
            await self.nodes.create(admin)
            # The first request for a new kind of resource takes seconds.
            job = self.load.manifest(0)
            await admin.create(self.load.resource, job, jobs.NAMESPACE, dry_run=True)
        # A kind of children that the operator may create only for this kind of job.
        resource = CONFIG_MAPS if self.load.resource == CHAINER_JOBS else SERVICES
        child: dict[str, Any] = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": "probe",
                "ownerReferences": [
                    {
                        "apiVersion": self.load.resource.api_version,
                        "kind": self.load.resource.kind,
                        "name": "probe",
                        "uid": "probe",
                        "blockOwnerDeletion": True,
                    }
                ],
            },
        }
        if resource is SERVICES:
            child["spec"] = {"clusterIP": "None"}
        async with Client(load_config(str(self.token))) as operator:
            deadline = time.monotonic() + _SETTLING
            while True:
                try:
                    await operator.create(resource, child, jobs.NAMESPACE, dry_run=True)
                except ForbiddenError:
                    # OwnerReferencesPermissionEnforcement discovers new kinds periodically.
                    if time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(0.5)
                else:
                    return

    def pids(self) -> dict[str, int]:
        """Return the processes of the cluster, and this one as the user."""
        found = {"kwok": self.nodes.process.pid, "the user": os.getpid()}
        for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            pid = self.cluster.component(name).pid
            assert pid is not None
            found[name] = pid
        return found

    def requests(self) -> Counter[str]:
        """Return the number of requests so far, by user."""
        return Counter(entry.user.username for entry in audit.read(self.cluster.audit_log))


# -- the operator -----------------------------------------------------------------------------


def operate(runner: HistoryRunner, count: int) -> Recorded:
    """Run the operator with this many jobs."""
    path = runner.directory / "recording"
    with (runner.directory / "operator.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.real_cluster.operator", runner.token, path),
                *([runner.load.resource.kind] if runner.load.of_others else []),
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
        )
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "ready":
            text = (runner.directory / "operator.log").read_text()
            raise SystemExit(f"the operator did not start:\n{text}")
        return asyncio.run(_operate(runner, count, process, path))
    except asyncio.CancelledError:
        text = (runner.directory / "operator.log").read_text()
        raise SystemExit(f"the operator has ended:\n{text[-3000:]}") from None
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def _operate(
    runner: HistoryRunner, count: int, process: subprocess.Popen[str], path: Path
) -> Recorded:
    async with BareClient(runner.cluster.kubeconfig) as user:
        said = jobs.RunningJobs(user, runner.load, count)
        pods = jobs.RunningPods(user, runner.load.pods * count)
        following = [asyncio.create_task(watched.follow()) for watched in (said, pods)]
        this = asyncio.current_task()
        assert this is not None
        following.append(asyncio.create_task(_cancel_at_end(process, this)))
        await said.listening.wait()
        await pods.listening.wait()
        meter = Meter({"operator": process.pid, **runner.pids()})
        requests = runner.requests()
        started = time.monotonic()
        await jobs.create(user, runner.load, count)
        created = time.monotonic()
        all_pods = await pods.all(patience(count))
        effort = meter.read().total
        running = await said.all(patience(count))
        last_write = await _rest(path)
        used = meter.read()
        for task in following:
            task.cancel()
        peak = peak_mebibytes(process.pid)
        uids = await jobs.uids(user, runner.load)
    process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(process.wait, 30)
    writes, refused = audit.writes(audit.read(runner.cluster.audit_log), OPERATOR, jobs.NAMESPACE)
    exchanges = [exchange for exchange in recording.read(path) if exchange.started >= started]
    by_job = replay.by_job(exchanges)
    return Recorded(
        created - started,
        pods.half() - started,
        all_pods - started,
        running - started,
        last_write - started,
        effort,
        used,
        runner.requests() - requests,
        exchanges,
        uids,
        writes,
        refused,
        peak,
        max(write.ended for job in by_job.values() for write in job if replay.is_event(write))
        - started,
        [_statuses_until_running(job) for job in by_job.values()],
        [said.seen[job] - last for job, last in pods.last_of_each().items()],
    )


async def _cancel_at_end(process: subprocess.Popen[str], task: asyncio.Task[Any]) -> None:
    """Cancel a task when the operator ends, so that nobody waits for what it would have done."""
    while process.poll() is None:
        await asyncio.sleep(1.0)
    task.cancel()


def _statuses_until_running(writes: Sequence[Exchange]) -> int:
    """Return how many statuses were written until one said Running.

    All of them if none does: one whose response was lost counts as not written.
    """
    statuses = [write for write in writes if replay.is_status(write)]
    running = (number for number, write in enumerate(statuses, 1) if replay.says_running(write))
    return next(running, len(statuses))


def patience(count: int) -> float:
    """Return the timeout for this many jobs on a machine that runs the whole cluster, too."""
    return _PATIENCE + _PATIENCE_PER_JOB * count


async def _rest(path: Path) -> float:
    """Wait until the operator has not written for a while; return when it last did."""
    while True:
        writes = replay.by_job(recording.read(path)).values()
        last = max(exchange.ended for job in writes for exchange in job)
        if time.monotonic() - last > QUIET:
            return last
        await asyncio.sleep(1.0)


# -- the bare client --------------------------------------------------------------------------


def repeat(runner: HistoryRunner, recorded: Recorded, *, children_only: bool = False) -> Run:
    """Replay the operator's writes.

    Args:
        runner: A cluster of its own.
        recorded: The operator's run.
        children_only: Whether to leave out all but the creates of children.
    """
    return asyncio.run(_repeat(runner, recorded, children_only=children_only))


async def _repeat(runner: HistoryRunner, recorded: Recorded, *, children_only: bool) -> Run:
    writes = replay.by_job(recorded.exchanges)
    if children_only:
        writes = replay.children_only(writes)
    at_once = replay.most_at_once(recorded.exchanges)
    count = len(writes)
    async with (
        BareClient(runner.cluster.kubeconfig) as user,
        BareClient(runner.token) as bare,
        asyncio.TaskGroup() as group,
    ):
        said = jobs.RunningJobs(user, runner.load, count)
        pods = jobs.RunningPods(user, runner.load.pods * count)
        cluster = replay.cluster_of(bare, runner.load)
        watches = (said.follow(), pods.follow(), *cluster.watches())
        following = [group.create_task(watch) for watch in watches]
        await asyncio.sleep(0)  # let them begin
        await said.listening.wait()
        await pods.listening.wait()
        await cluster.wait_listening()
        repeating = replay.Replay(
            bare,
            runner.load,
            writes,
            recorded.uids,
            at_once=at_once,
            cluster=cluster,
        )
        meter = Meter(runner.pids())
        requests = runner.requests()
        started = time.monotonic()
        await jobs.create(user, runner.load, count, repeating.created)
        created = time.monotonic()
        waiting = group.create_task(repeating.wait(patience(count)))
        running = all_pods = await pods.all(patience(count))
        effort = meter.read().total
        await waiting
        if not children_only:
            running = await said.all(patience(count))
        last_write = repeating.last_write
        await asyncio.sleep(QUIET)  # the operator's run is idle for as long
        used = meter.read()
        for task in following:
            task.cancel()
    return Run(
        created - started,
        pods.half() - started,
        all_pods - started,
        running - started,
        last_write - started,
        effort,
        used,
        runner.requests() - requests,
    )
