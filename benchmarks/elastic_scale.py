"""Time from `kubectl scale` of an ElasticJob to its new worker training, by component.

A job of two workers trains on an embedded cluster; a third one is added and removed again, in
rounds. The operator runs in this process, so that its requests can be observed: its share is from
the moment its watch delivers the change until its last create of a pod or Service is answered.

Reference in the same run: a bare torchrun that joins two others of the same program on this
machine, without any cluster: the share of PyTorch alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
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

from benchmarks._kinds import ELASTIC_JOBS
from benchmarks._observer import OperatorObserver
from traincrew.cli.cluster.embedded import Embedded
from traincrew.cli.cluster.options import Options
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import PODS
from traincrew.local.directories import default_cache
from traincrew.local.images import ImageStore
from traincrew.operator.app import run_operator
from traincrew.operator.options import OperatorOptions

if TYPE_CHECKING:
    from benchmarks._observer import Received

ROUNDS = 5
GOAL_OPERATOR_SECONDS = 0.050
WAIT_SECONDS = 120.0
IMAGE = "traincrew/torch:0.1.0"
PROGRAM = Path(__file__).with_name("_elastic_worker.py")
FEW, MANY = 2, 3
LAUNCH = [f"--nnodes=1:{MANY}", "--nproc_per_node=1", "--max_restarts=1000"]
CONFIGURATION = "--rdzv_conf=last_call_timeout=1"
"""Of the rendezvous: it waits for more workers only while there are fewer than the maximum."""
_SCALED = re.compile(rb'"replicas": ?%d\b' % MANY)


class Training(NamedTuple):
    """One start of the program on one worker; seconds of `time.monotonic`."""

    workers: int
    began: float
    trained: float


class Workers:
    """The records of the workers.

    Args:
        directory: Directory of the records.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o777)

    def last(self, name: str) -> Training | None:
        """Return the latest start on a worker."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.directory / name).read_text().splitlines()
            if lines:
                workers, began, trained = lines[-1].split()
                return Training(int(workers), float(began), float(trained))
        return None

    async def until(self, names: list[str], since: float) -> Training:
        """Wait until exactly these train together since a moment; return the last record."""
        while True:
            found = [self.last(name) for name in names]
            fresh = [one for one in found if one and one.began > since]
            if [one.workers for one in fresh] == [len(names)] * len(names):
                return fresh[-1]
            if time.monotonic() > since + WAIT_SECONDS:
                raise SystemExit(f"{len(names)} workers do not train after {WAIT_SECONDS} s")
            await asyncio.sleep(0.02)


# -- the job ------------------------------------------------------------------------------------


class Moments(NamedTuple):
    """When the new pod was observed on a node, and running."""

    scheduled: float
    running: float


async def _follow(client: Client, name: str) -> Moments:
    """Watch a pod that does not exist yet until it runs."""
    scheduled, rest = 0.0, b""
    selection = {"watch": "true", "fieldSelector": f"metadata.name={name}"}
    async with client.stream(PODS.path("default"), selection) as chunks:
        async for chunk in chunks:
            now = time.monotonic()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                pod = json.loads(line)["object"]
                if not scheduled and pod["spec"].get("nodeName"):
                    scheduled = now
                states = pod["status"].get("containerStatuses", [])
                if any("running" in one["state"] for one in states):
                    return Moments(scheduled, now)
    raise SystemExit(f"the watch of {name} has ended")


def _is_scaled(received: Received) -> bool:
    """Whether a chunk of the watch of the jobs has the new number of workers."""
    ours = received.path.endswith(f"/{ELASTIC_JOBS.plural}")
    return ours and _SCALED.search(received.chunk) is not None


def _manifest(directory: Path) -> dict[str, Any]:
    container = {
        "name": "elasticjob-worker",
        "image": IMAGE,
        "args": [*LAUNCH[1:], CONFIGURATION, "/bench/program.py", "/bench/times"],
        "volumeMounts": [{"name": "bench", "mountPath": "/bench"}],
    }
    pod = {
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": [{"name": "bench", "hostPath": {"path": str(directory)}}],
    }
    worker = {"replicas": FEW, "restartPolicy": "ExitCode", "template": {"spec": pod}}
    return {
        "apiVersion": ELASTIC_JOBS.api_version,
        "kind": ELASTIC_JOBS.kind,
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"minReplicas": 1, "maxReplicas": MANY, "replicaSpecs": {"Worker": worker}},
    }


class Shares(NamedTuple):
    """One scaling, in seconds."""

    whole: float
    api: float
    operator: float
    scheduler: float
    node: float
    meeting: float
    program: float


async def _scalings(kubeconfig: Path, scratch: Path) -> list[Shares]:
    """Scale the job in rounds."""
    observer = OperatorObserver()
    observer.observe()
    shutil.copy(PROGRAM, scratch / "program.py")
    workers = Workers(scratch / "times")
    names = [f"job-worker-{index}" for index in range(MANY)]
    config, stop = load_config(str(kubeconfig)), asyncio.Event()
    operator = asyncio.create_task(run_operator(config, OperatorOptions(leader_elect=False), stop))
    found = []
    async with Client(config, user_agent="benchmark") as client:

        async def scale(replicas: int) -> float:
            started = time.monotonic()
            patch = {"spec": {"replicas": replicas}}
            await client.patch(ELASTIC_JOBS, "job", "default", patch=patch, subresource="scale")
            return started

        started = time.monotonic()
        await client.create(ELASTIC_JOBS, _manifest(scratch))
        await workers.until(names[:FEW], started)
        for _ in range(ROUNDS + 1):
            observer.clear()
            following = asyncio.create_task(_follow(client, names[-1]))
            started = await scale(MANY)
            new = await workers.until(names, started)
            pod = await following
            notified = observer.first_received(_is_scaled)
            created = observer.last_answered("POST", "pods", "services")
            found.append(
                Shares(
                    whole=new.trained - started,
                    api=notified - started,
                    operator=created - notified,
                    scheduler=pod.scheduled - created,
                    node=pod.running - pod.scheduled,
                    meeting=new.began - pod.running,
                    program=new.trained - new.began,
                )
            )
            await workers.until(names[:FEW], await scale(FEW))
        await client.delete(ELASTIC_JOBS, "job", "default")
    stop.set()
    await operator
    return found[1:]


# -- the reference ------------------------------------------------------------------------------


class Bare(NamedTuple):
    """One torchrun that joined, in seconds."""

    whole: float
    meeting: float
    program: float


async def _joinings(launcher: list[str], variables: dict[str, str], scratch: Path) -> list[Bare]:
    """Let a bare torchrun join two others, in rounds."""
    workers = Workers(scratch / "bare")
    names = [f"bare-{index}" for index in range(MANY)]
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [
        *launcher, *LAUNCH, CONFIGURATION, "--rdzv_backend=c10d", "--rdzv_id=bare",
        f"--rdzv_endpoint=localhost:{port}", "--local_addr=localhost",
        str(PROGRAM), str(workers.directory),
    ]  # fmt: skip

    def start(name: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            env={**variables, "WORKER": name, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
            cwd=scratch,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    found, started = [], time.monotonic()
    running = [start(name) for name in names[:FEW]]
    try:
        await workers.until(names[:FEW], started)
        for _ in range(ROUNDS + 1):
            started = time.monotonic()
            running.append(start(names[-1]))
            new = await workers.until(names, started)
            found.append(Bare(new.trained - started, new.began - started, new.trained - new.began))
            left = time.monotonic()
            running[-1].send_signal(signal.SIGTERM)
            await asyncio.to_thread(running.pop().wait)
            await workers.until(names[:FEW], left)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            await asyncio.to_thread(process.wait)
    return found[1:]


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _report(scalings: list[Shares], joinings: list[Bare]) -> None:
    shares = Shares(*map(_median, map(list, zip(*scalings, strict=True))))
    bare = Bare(*map(_median, map(list, zip(*joinings, strict=True))))
    worst = max(one.operator for one in scalings)
    print(
        f"scale to the new worker training: {shares.whole:.2f} s; bare torchrun that joins:"
        f" {bare.whole:.2f} s; ratio {shares.whole / bare.whole:.2f}; median of {ROUNDS}"
    )
    print(
        f"  operator, from its watch to its last create answered: {1000 * shares.operator:.0f} ms"
        f" (goal {1000 * GOAL_OPERATOR_SECONDS:.0f} ms), worst {1000 * worst:.0f} ms"
    )
    print(f"  API server, from the request to the operator's watch: {1000 * shares.api:.0f} ms")
    print(f"  scheduler, from the create to a node: {1000 * shares.scheduler:.0f} ms")
    print(f"  node, from there to the container running: {1000 * shares.node:.0f} ms")
    print(f"  launcher and rendezvous: {shares.meeting:.2f} s (bare {bare.meeting:.2f} s)")
    print(f"  program, to its first step: {shares.program:.2f} s (bare {bare.program:.2f} s)")


async def _measure(scratch: Path) -> None:
    environment = await ImageStore(default_cache()).pull(IMAGE, print)
    assert environment.prefix is not None
    launcher = [str(environment.prefix / "bin" / "python3"), *environment.command[1:]]
    variables = {**os.environ, **environment.variables}
    joinings = await _joinings(launcher, variables, scratch)
    kubeconfig = scratch / "kubeconfig"
    serve = [sys.executable, "-c", "import benchmarks.elastic_scale as it; it.serve()"]
    process = await asyncio.create_subprocess_exec(
        *serve, str(kubeconfig), stdout=subprocess.PIPE, cwd=Path(__file__).parents[1]
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        scalings = await _scalings(kubeconfig, scratch)
    finally:
        process.terminate()
        await process.wait()
    _report(scalings, joinings)


def serve() -> None:
    """A cluster without an operator, until SIGTERM; its kubeconfig is written to a file."""

    async def run() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        embedded = Embedded(Options(operator=False))
        await embedded.start()
        shutil.copy(embedded.cluster.kubeconfig_path, sys.argv[1])
        print("ready", flush=True)
        await stop.wait()
        await embedded.stop()

    asyncio.run(run())


def main() -> None:
    """Measure and print."""
    # Whoever ends us by a signal wants the cluster and its pods gone, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory() as scratch:
        asyncio.run(_measure(Path(scratch)))


if __name__ == "__main__":
    main()
