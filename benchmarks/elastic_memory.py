"""Memory of the operator with 20,000 pods of ElasticJobs: 1,000 jobs of 20 workers, all running.

The operator runs in a process of its own: it creates the pods and Services in the embedded API
server, and counts them in the jobs' status. This process simulates the kubelets, which report every
pod as running. Afterwards a second operator starts with all existing objects, as after an upgrade.

Reference in the same run: a client that keeps the same objects (jobs, pods, Services) as decoded by
the standard library's json.

    python -m benchmarks elastic_memory [--jobs N] [--workers N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks._kinds import ELASTIC_JOBS
from benchmarks._operator import Operator
from benchmarks._usage import cpu_seconds, peak_mebibytes, resident_mebibytes
from traincrew.api.crd import definition
from traincrew.api.kinds import KINDS
from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, SERVICES
from traincrew.local.apiserver.http.kubeconfig import write_kubeconfig
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Sequence

JOBS, WORKERS = 1000, 20
STAMP = "2026-01-01T00:00:00Z"
AT_ONCE = 16


def _job(number: int, workers: int) -> dict[str, Any]:
    container = {
        "name": "elasticjob-worker",
        "image": "registry.example/team/trainer:v1",
        "args": ["--nproc_per_node=8", "/workspace/train.py", "--epochs=20"],
        "env": [{"name": f"VARIABLE_{n}", "value": f"value-{n}"} for n in range(8)],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    # Assigned to a node from the beginning: there is no scheduler here.
    pod = {
        "nodeName": f"node-{number}",
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    worker = {"replicas": workers, "restartPolicy": "ExitCode", "template": {"spec": pod}}
    return {
        "apiVersion": ELASTIC_JOBS.api_version,
        "kind": ELASTIC_JOBS.kind,
        "metadata": {"name": f"job-{number}", "namespace": "default"},
        "spec": {"minReplicas": 1, "maxReplicas": workers, "replicaSpecs": {"Worker": worker}},
    }


def _running(pod: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the status of a running pod."""
    (container,) = pod["spec"]["containers"]
    address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "startTime": STAMP,
        "hostIP": "10.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": STAMP} for kind in kinds
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "ready": True,
                "started": True,
                "restartCount": 0,
                "image": container["image"],
                "imageID": f"{container['image']}@sha256:{'0' * 64}",
                "containerID": f"containerd://{number:064x}",
                "state": {"running": {"startedAt": STAMP}},
            }
        ],
    }


class _Kubelets:
    """Report every pod as running as soon as it is created."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pods: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.said = 0

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._say())
            rest = b""
            selection = {"watch": "true", "allowWatchBookmarks": "true"}
            async with self._client.stream(PODS.path("default"), selection) as chunks:
                async for chunk in chunks:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if line.startswith(b'{"type":"ADDED"'):
                            self._pods.put_nowait(json.loads(line)["object"])

    async def _say(self) -> None:
        while True:
            pod = await self._pods.get()
            status = {"status": _running(pod, self.said)}
            name = pod["metadata"]["name"]
            await self._client.patch(PODS, name, "default", patch=status, subresource="status")
            self.said += 1


async def _until_running(client: Client, jobs: int, workers: int) -> None:
    """Wait until the status of every job reports all workers as ready."""
    ready, most = f"{workers}/{workers}", time.monotonic() + 900
    while True:
        found = (await client.list(ELASTIC_JOBS, "default"))["items"]
        done = sum(job.get("status", {}).get("workersReady") == ready for job in found)
        if done == jobs:
            return
        if time.monotonic() > most:
            raise SystemExit(f"{done} of {jobs} jobs run after 900 s")
        await asyncio.sleep(2.0)


class _Measured(NamedTuple):
    """MiB, except for the last two: seconds until all pods ran, and CPU seconds."""

    idle: float
    lived: float
    lived_peak: float
    found: float
    found_peak: float
    took: float
    used: float


async def _measure(kubeconfig: Path, jobs: int, workers: int) -> _Measured:
    operator = Operator(kubeconfig)
    idle = resident_mebibytes(operator.pid)
    async with Client(load_config(str(kubeconfig)), user_agent="benchmark") as client:
        kubelets = asyncio.create_task(_Kubelets(client).run())
        started = time.monotonic()
        try:
            for number in range(jobs):
                await client.create(ELASTIC_JOBS, _job(number, workers))
            await _until_running(client, jobs, workers)
            took = time.monotonic() - started
            await operator.until_idle()
            lived, used = resident_mebibytes(operator.pid), cpu_seconds(operator.pid)
            peak = peak_mebibytes(operator.pid)
            operator.stop()
            operator = Operator(kubeconfig)
            await operator.until_idle()
            found, found_peak = resident_mebibytes(operator.pid), peak_mebibytes(operator.pid)
        finally:
            operator.stop()
            kubelets.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await kubelets
    return _Measured(idle, lived, peak, found, found_peak, took, used)


def _report(measured: _Measured, kubeconfig: Path, jobs: int, workers: int) -> None:
    program = "import benchmarks.elastic_memory as it; it.keep()"
    command = [sys.executable, "-c", program, str(kubeconfig)]
    kept = subprocess.run(command, capture_output=True, check=True, text=True)
    reference, sizes = json.loads(kept.stdout)
    pods, growth = jobs * workers, measured.found - measured.idle
    print(f"{jobs:,} ElasticJobs, {pods:,} pods and as many Services; their JSON {sizes:.0f} MiB")
    print(
        f"operator: {measured.lived:.0f} MiB (peak {measured.lived_peak:.0f}) after it has made"
        f" them, in {measured.took:.0f} s and {measured.used:.0f} s of CPU; before:"
        f" {measured.idle:.0f} MiB"
    )
    print(
        f"an operator that finds them there: {measured.found:.0f} MiB"
        f" (peak {measured.found_peak:.0f}); {growth / pods * 1024:.1f} KiB for a pod and its"
        " Service"
    )
    print(
        f"a client that keeps them as json.loads makes them: {reference:.0f} MiB;"
        f" ratio {growth / reference:.2f}"
    )


def keep() -> None:
    """Run the reference, in a process of its own: print the MiB it grew by and the MiB it read."""
    config = load_config(sys.argv[1])
    headers = {"Authorization": asyncio.run(config.authorization()) or ""}
    read = 0

    def get(path: str) -> list[Any]:
        nonlocal read
        request = urllib.request.Request(config.server + path, headers=headers)
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
        read += len(text)
        items: list[Any] = json.loads(text)["items"]
        return items

    get(NAMESPACES.path())
    before = resident_mebibytes()
    kept = [get(kind.path("default")) for kind in (ELASTIC_JOBS, PODS, SERVICES)]
    print(json.dumps([resident_mebibytes() - before, read / 2**20]))
    assert kept


def serve() -> None:
    """Run the API server, in a process of its own; write its kubeconfig to a file."""

    async def run() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        server = ApiServer(Storage(None), secret="memory-benchmark-0123456789")
        await server.start()
        write_kubeconfig(Path(sys.argv[1]), server.kubeconfig())
        async with Client(load_config(sys.argv[1])) as client:
            for kind in KINDS:
                await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition(kind))
        print("ready", flush=True)
        await stop.wait()
        await server.stop()

    asyncio.run(run())


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks elastic_memory", description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many (default %(default)s)")
    parser.add_argument("--workers", type=int, default=WORKERS, help="of each (%(default)s)")
    chosen = parser.parse_args(arguments)
    # On a signal, stop the server and the operator, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    with tempfile.TemporaryDirectory() as scratch:
        kubeconfig = Path(scratch) / "kubeconfig"
        program = "import benchmarks.elastic_memory as it; it.serve()"
        server = subprocess.Popen(
            [sys.executable, "-c", program, str(kubeconfig)], stdout=subprocess.PIPE
        )
        try:
            assert server.stdout is not None
            server.stdout.readline()
            measured = asyncio.run(_measure(kubeconfig, chosen.jobs, chosen.workers))
            _report(measured, kubeconfig, chosen.jobs, chosen.workers)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
