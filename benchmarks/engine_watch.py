"""The engine's watch: CPU per event including the reconcile, and memory of a large cache.

A server in a process of its own streams 20,000 Pods of 4.6 KB and then changes them, one HTTP
chunk per event, as a real API server does. The engine decodes into a minimal view, keeps store and
owner index, enqueues the owning Job and reconciles it; the reconcile looks up its pods by owner.

Changes arrive in two orders: the eight pods of a Job one after the other, as when Jobs start or
end, and scattered, so that hardly any two events share a reconcile, which is the worst case.

Reference in the same run: the same bytes over the same transport, decoded with the standard
library's json, and discarded.
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

from msgspec import field

from benchmarks._usage import resident_mebibytes
from traincrew.engine.client import Client
from traincrew.engine.config import ClientConfig
from traincrew.engine.controller import Controller, Manager, Request, owner_key
from traincrew.engine.objects import ObjectMeta, Shared, View
from traincrew.engine.resources import PODS

if TYPE_CHECKING:
    from traincrew.engine.cache import Informer

PODS_COUNT = 20_000
JOBS_COUNT = 2_500
ROUNDS = 5
GOAL_MICROSECONDS = 20.0
GOAL_MEBIBYTES = 100.0


class _State(View, frozen=True, gc=False, kw_only=True):
    exit_code: int | None = None
    reason: Shared = ""


class _ContainerState(View, frozen=True, gc=False, kw_only=True):
    terminated: _State | None = None
    waiting: _State | None = None


class _ContainerStatus(View, frozen=True, gc=False, kw_only=True):
    name: Shared = ""
    ready: bool = False
    restart_count: int = 0
    state: _ContainerState | None = None


class _Condition(View, frozen=True, gc=False, kw_only=True):
    type: Shared = ""
    status: Shared = ""
    reason: Shared = ""


class _PodStatus(View, frozen=True, gc=False, kw_only=True):
    phase: Shared = ""
    pod_ip: str = field(default="", name="podIP")
    conditions: list[_Condition] = field(default_factory=list)
    container_statuses: list[_ContainerStatus] = field(default_factory=list)


class _Pod(View, frozen=True, gc=False, kw_only=True):
    metadata: ObjectMeta
    status: _PodStatus = field(default_factory=_PodStatus)


def _pod(number: int, version: int) -> bytes:
    job = number % JOBS_COUNT
    stamp = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": stamp, "lastProbeTime": None}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    ]
    status = {
        "phase": "Running",
        "podIP": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        "hostIP": "10.0.0.1",
        "startTime": stamp,
        "qosClass": "Guaranteed",
        "conditions": conditions,
        "containerStatuses": [
            {
                "name": "trainer",
                "ready": True,
                "restartCount": 0,
                "image": "registry.example/team/trainer:v1",
                "imageID": "registry.example/team/trainer@sha256:" + "0" * 64,
                "containerID": f"containerd://{number:064x}",
                "started": True,
                "state": {"running": {"startedAt": stamp}},
            }
        ],
    }
    metadata = {
        "name": f"job-{job}-worker-{number // JOBS_COUNT}",
        "generateName": f"job-{job}-worker-",
        "namespace": f"team-{job % 20}",
        "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
        "resourceVersion": str(version),
        "creationTimestamp": stamp,
        "labels": {
            "app.kubernetes.io/managed-by": "traincrew",
            "training.example/job-name": f"job-{job}",
            "training.example/replica-type": "worker",
            "training.example/replica-index": str(number // JOBS_COUNT),
        },
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": f"job-{job}",
                "uid": f"{job:08x}-1111-4000-8000-{job:012x}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    container = {
        "name": "trainer",
        "image": "registry.example/team/trainer:v1",
        "command": ["python", "train.py", "--epochs", "20"],
        "env": [{"name": f"VARIABLE_{n}", "value": f"value-{n}"} for n in range(8)],
        "resources": {"limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    spec = {
        "nodeName": f"node-{number % 500}",
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "restartPolicy": "Never",
        "serviceAccountName": "default",
    }
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}
    managed = [{"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": {}}]
    metadata["managedFields"] = managed
    missing = 4588 - len(json.dumps(pod, separators=(",", ":")))
    fields: dict[str, dict[str, str]] = managed[0]["fieldsV1"]  # type: ignore[assignment]
    while missing > 40:
        name = f"f:field-of-the-specification-{len(fields)}"
        fields[name] = {}
        missing -= len(name) + 6
    return json.dumps(pod, separators=(",", ":")).encode()


def serve() -> None:
    """Run the server process: print its port; each line on stdin starts a round of changes."""

    def chunk(line: bytes) -> bytes:
        return b"%x\r\n%s\r\n" % (len(line), line)

    pods = [_pod(n, 0).split(b'"resourceVersion":"0"') for n in range(PODS_COUNT)]

    def event(kind: bytes, number: int, version: int) -> bytes:
        pod = (b'"resourceVersion":"%d"' % version).join(pods[number])
        return chunk(b'{"type":"%s","object":%s}\n' % (kind, pod))

    writers: list[asyncio.StreamWriter] = []
    mark = {
        "type": "BOOKMARK",
        "object": {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {
                "resourceVersion": str(PODS_COUNT),
                "annotations": {"k8s.io/initial-events-end": "true"},
            },
        },
    }
    initial = [event(b"ADDED", n, n + 1) for n in range(PODS_COUNT)]

    async def send(writer: asyncio.StreamWriter, lines: list[bytes]) -> None:
        # In large writes, so that the server is not the bottleneck.
        for start in range(0, len(lines), 50):
            writer.write(b"".join(lines[start : start + 50]))
            await writer.drain()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            await send(writer, initial)
            writer.write(chunk(json.dumps(mark).encode() + b"\n"))
            writers[:] = [writer]
            await reader.read()

    async def rounds() -> None:
        loop = asyncio.get_running_loop()
        version = PODS_COUNT
        scattered = list(range(PODS_COUNT))
        together = sorted(scattered, key=lambda number: number % JOBS_COUNT)
        while order := await loop.run_in_executor(None, sys.stdin.readline):
            numbers = together if order == "together\n" else scattered
            lines = [event(b"MODIFIED", n, version + i) for i, n in enumerate(numbers, 1)]
            version += PODS_COUNT
            print("go", flush=True)
            with contextlib.suppress(ConnectionError):
                await send(writers[0], lines)

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await rounds()

    asyncio.run(run())


def _resident() -> float:
    """Return the resident memory after free memory has been returned to the system, in MiB."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    try:
        return resident_mebibytes()
    except OSError:
        done = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, check=True
        )
        return int(done.stdout) / 1024


class _Server:
    """A handle of the server process."""

    def __init__(self) -> None:
        program = "import benchmarks.engine_watch as benchmark; benchmark.serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    async def start_round(self, order: str = "scattered") -> None:
        """Start a round of changes; return when they are about to arrive."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        await asyncio.to_thread(self._process.stdout.readline)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Measured(NamedTuple):
    """The measurements for one order of changes."""

    microseconds: float
    rate: float
    reconciles: int


async def _engine(server: _Server) -> tuple[float, dict[str, _Measured]]:
    """Return the MiB of the cache, and CPU and rate of the best round for each order of changes."""
    async with Client(ClientConfig(f"http://127.0.0.1:{server.port}")) as client:
        manager = Manager(client)
        informer: Informer[_Pod] = manager.informer(PODS, _Pod)
        reconciles = 0

        async def reconcile(request: Request) -> None:
            nonlocal reconciles
            reconciles += 1
            pod = informer.store.get(request.namespace, f"{request.name}-worker-0")
            assert pod is not None
            owner = pod.metadata.owner_references[0].uid
            assert len(informer.store.by_index("owner", owner)) == PODS_COUNT // JOBS_COUNT

        controller = Controller("jobs", reconcile)
        controller.watch(informer, owner_key("Job"))
        manager.add(controller)
        await client.config.authorization()
        _ = client._transport._open()  # type: ignore[attr-defined]  # loads aiohttp before we look
        before = _resident()
        running = asyncio.create_task(manager.run())
        await informer.wait_synced()
        while reconciles < JOBS_COUNT:
            await asyncio.sleep(0.01)
        assert len(informer.store) == PODS_COUNT
        growth = _resident() - before
        measured = {}
        version = PODS_COUNT
        for order in ("together", "scattered"):
            best, rate, reconciles = float("inf"), 0.0, 0
            for _ in range(ROUNDS):
                version += PODS_COUNT
                await server.start_round(order)
                cpu, wall = time.process_time(), time.perf_counter()
                while informer.store.resource_version != str(version) or len(controller.queue):
                    await asyncio.sleep(0.005)
                best = min(best, (time.process_time() - cpu) / PODS_COUNT * 1e6)
                rate = max(rate, PODS_COUNT / (time.perf_counter() - wall))
            measured[order] = _Measured(best, rate, reconciles // ROUNDS)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return growth, measured


async def _reference(server: _Server) -> float:
    """Return the CPU microseconds per event of json.loads over the same transport."""
    async with Client(ClientConfig(f"http://127.0.0.1:{server.port}")) as client:
        best = float("inf")
        async with client.stream(PODS.path(), {"watch": "true"}) as chunks:
            lines = _lines(chunks)
            for _ in range(PODS_COUNT + 1):
                await anext(lines)
            for _ in range(ROUNDS):
                await server.start_round()
                cpu = time.process_time()
                for _ in range(PODS_COUNT):
                    json.loads(await anext(lines))
                best = min(best, (time.process_time() - cpu) / PODS_COUNT * 1e6)
        return best


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def main() -> None:
    """Measure and print."""
    server = _Server()
    try:
        growth, measured = asyncio.run(_engine(server))
        reference = asyncio.run(_reference(server))
    finally:
        server.stop()
    for order, found in measured.items():
        print(
            f"watch event, decode to reconcile, {order}: {found.microseconds:.1f} us CPU "
            f"(goal <= {GOAL_MICROSECONDS:.0f}); json.loads alone {reference:.1f} us; "
            f"ratio {found.microseconds / reference:.2f}"
        )
        print(
            f"  {found.rate:,.0f} events/s; "
            f"{found.reconciles:,} reconciles for {PODS_COUNT:,} events"
        )
    raw = PODS_COUNT * len(_pod(0, 1)) / 2**20
    print(
        f"cache of {PODS_COUNT:,} pods of {len(_pod(0, 1)) / 1000:.1f} KB: "
        f"{growth:.0f} MiB (goal <= {GOAL_MEBIBYTES:.0f}); their JSON {raw:.0f} MiB; "
        f"ratio {growth / raw:.2f}"
    )


if __name__ == "__main__":
    main()
