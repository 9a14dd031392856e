"""The two runs that are compared: the operator's, and that of a client that repeats its writes.

Each has a cluster of its own that has done nothing before.
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

from benchmarks._usage import Meter, Usage, peak_mebibytes
from benchmarks.real_cluster import audit, jobs, kwok, recording, replay
from benchmarks.real_cluster.bare import BareClient
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.errors import ForbiddenError
from traincrew.engine.resources import CONFIG_MAPS, SERVICES
from traincrew.operator.kinds import CHAINER_JOBS
from traincrew.operator.manifests import NAMESPACE
from traincrew.operator.manifests.values import NAME

if TYPE_CHECKING:
    from benchmarks.real_cluster.recording import Exchange

ROOT = Path(__file__).resolve().parents[2]
OPERATOR = f"system:serviceaccount:{NAMESPACE}:{NAME}"
_PATIENCE = 300.0
_PATIENCE_PER_JOB = 1.0
_QUIET = 3.0
_SETTLING = 60.0
# By default these components hold themselves to 20 and 50 requests a second, and then their
# limits are all that a benchmark of anything else measures.
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
    """What one run has shown; times in seconds since the first job was about to be created.

    Attributes:
        created: The last job was accepted.
        running: The last job's status said Running.
        last_write: The last write of the operator, or of the client in its place, was answered.
        usage: CPU time until all jobs were running and everything had come to rest.
        requests: Requests the API server answered, by user.
    """

    created: float
    running: float
    last_write: float
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
    """

    exchanges: list[Exchange] = field(default_factory=list)
    uids: dict[str, str] = field(default_factory=dict)
    writes: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    peak_mebibytes: float = 0.0


class Stage:
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
        for name in ("0-crd.yaml", "1-namespace.yaml", "2-rbac.yaml"):
            kubectl("create", "-f", str(ROOT / "deploy" / name))
        kubectl("wait", "--for=condition=Established", "crd", "--all")
        duration = "--duration=1h"
        token = kubectl("create", "token", NAME, "-n", NAMESPACE, duration)
        configuration = json.loads(kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
        for user in configuration["users"]:
            user["user"] = {"token": token.strip()}
        self.token.write_text(json.dumps(configuration))

    async def _settle(self) -> None:
        """Wait until nodes and admission are as they are in a cluster of some age."""
        async with Client(load_config(str(self.cluster.kubeconfig))) as admin:
            await self.nodes.create(admin)
        # One of the sorts of children the operator may make for this kind only.
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
                    # OwnerReferencesPermissionEnforcement looks for new kinds now and then.
                    if time.monotonic() > deadline:
                        raise
                    await asyncio.sleep(0.5)
                else:
                    return

    def pids(self) -> dict[str, int]:
        """The processes of the cluster, and this one as the user."""
        found = {"kwok": self.nodes.process.pid, "the user": os.getpid()}
        for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
            pid = self.cluster.component(name).pid
            assert pid is not None
            found[name] = pid
        return found

    def requests(self) -> Counter[str]:
        """Requests so far, by user."""
        return Counter(entry.user.username for entry in audit.read(self.cluster.audit_log))


# -- the operator -----------------------------------------------------------------------------


def operate(stage: Stage, count: int) -> Recorded:
    """Let the operator serve so many jobs."""
    path = stage.directory / "recording"
    with (stage.directory / "operator.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.real_cluster.operator", stage.token, path],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
        )
    assert process.stdout is not None
    try:
        if process.stdout.readline().strip() != "ready":
            text = (stage.directory / "operator.log").read_text()
            raise SystemExit(f"the operator did not start:\n{text}")
        return asyncio.run(_operate(stage, count, process, path))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def _operate(
    stage: Stage, count: int, process: subprocess.Popen[str], path: Path
) -> Recorded:
    async with BareClient(stage.cluster.kubeconfig) as user:
        phases = jobs.Phases(user, stage.load, count)
        following = asyncio.create_task(phases.follow())
        await phases.listening.wait()
        meter = Meter({"operator": process.pid, **stage.pids()})
        requests = stage.requests()
        started = time.monotonic()
        await jobs.create(user, stage.load, count)
        created = time.monotonic()
        running = await phases.all_in("Running", _patience(count))
        last_write = await _rest(path)
        used = meter.read()
        following.cancel()
        peak = peak_mebibytes(process.pid)
        uids = await jobs.uids(user, stage.load)
    process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(process.wait, 30)
    writes, refused = audit.writes(audit.read(stage.cluster.audit_log), OPERATOR, jobs.NAMESPACE)
    return Recorded(
        created - started,
        running - started,
        last_write - started,
        used,
        stage.requests() - requests,
        [exchange for exchange in recording.read(path) if exchange.started >= started],
        uids,
        writes,
        refused,
        peak,
    )


def _patience(count: int) -> float:
    """Seconds that so many jobs may take on a machine that runs the whole cluster, too."""
    return _PATIENCE + _PATIENCE_PER_JOB * count


async def _rest(path: Path) -> float:
    """Wait until the operator has not written for a while; when it last did."""
    while True:
        writes = replay.by_job(recording.read(path)).values()
        last = max(exchange.ended for job in writes for exchange in job)
        if time.monotonic() - last > _QUIET:
            return last
        await asyncio.sleep(1.0)


# -- the bare client --------------------------------------------------------------------------


def repeat(stage: Stage, recorded: Recorded, *, wait: bool = True) -> Run:
    """Send the operator's writes again.

    Args:
        stage: A cluster of its own.
        recorded: The operator's run.
        wait: Whether writes that depend on the state of pods wait for it.
    """
    return asyncio.run(_repeat(stage, recorded, wait=wait))


async def _repeat(stage: Stage, recorded: Recorded, *, wait: bool) -> Run:
    writes = replay.by_job(recorded.exchanges)
    at_once = replay.most_at_once(recorded.exchanges)
    count = len(writes)
    async with (
        BareClient(stage.cluster.kubeconfig) as user,
        BareClient(stage.token) as bare,
        asyncio.TaskGroup() as group,
    ):
        phases = jobs.Phases(user, stage.load, count)
        is_chainer = stage.load.resource == CHAINER_JOBS
        cluster = (replay.ChainerCluster if is_chainer else replay.ElasticCluster)(bare)
        following = [group.create_task(watch) for watch in (phases.follow(), *cluster.watches())]
        await asyncio.sleep(0)  # let them begin
        await phases.listening.wait()
        await cluster.wait_listening()
        repeating = replay.Replay(
            bare,
            stage.load,
            writes,
            recorded.uids,
            at_once=at_once,
            cluster=cluster if wait else None,
        )
        meter = Meter(stage.pids())
        requests = stage.requests()
        started = time.monotonic()
        await jobs.create(user, stage.load, count, repeating.created)
        created = time.monotonic()
        await repeating.wait(_patience(count))
        running = await phases.all_in("Running", _patience(count))
        last_write = repeating.last_write
        await asyncio.sleep(_QUIET)  # the operator's run is at rest for as long
        used = meter.read()
        for task in following:
            task.cancel()
    return Run(
        created - started,
        running - started,
        last_write - started,
        used,
        stage.requests() - requests,
    )
