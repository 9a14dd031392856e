"""The API server over HTTP: creates per second, watch latency, cold start.

Server and clients are separate processes. The clients are as thin as HTTP/1.1 can be (prepared
bytes on sockets), so the figures are the server's. Clients in its own process use plain HTTP, all
others TLS: creates are measured both ways, the cold start with TLS, including a new certificate.
Reference in the same run: a bare aiohttp handler that keeps the posted bytes in a dict and returns
them.

On a machine that other programs use, the creates per second are mostly theirs. So the processor
time of the server is measured as well; its inverse is what one free processor would create.
"""

import asyncio
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from functools import partial
from pathlib import Path
from typing import Self

from benchmarks._usage import cpu_seconds

CREATES = 4000
CONNECTIONS = 8
GOAL_CREATES = 2000
LATENCY_SAMPLES = 300
GOAL_LATENCY_MS = 1.0
COLD_STARTS = 5
GOAL_COLD_SECONDS = 0.5
AUTHORIZATION = "Authorization: Bearer benchmark-benchmark\r\n"

REAL = """
import asyncio, sys
from pathlib import Path
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage

async def serve():
    file, certificates = sys.argv[1:]
    certificate = None
    if certificates:
        from traincrew.local.authority import make_certificate
        certificate = asyncio.to_thread(make_certificate, Path(certificates))
    server = ApiServer(Storage(Path(file) if file else None), secret="benchmark-benchmark")
    await server.start(certificate=certificate and await certificate)
    print(server.port, flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""

REFERENCE = """
import asyncio
from aiohttp import web

stored = {}

async def handle(request):
    if request.method == "POST":
        stored[len(stored)] = body = await request.read()
        return web.Response(body=body, status=201)
    return web.Response(text="ok")

async def serve():
    runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()

asyncio.run(serve())
"""


class Server:
    """A server process."""

    def __init__(self, program: str, file: str = "", certificates: str = "") -> None:
        self.started = time.perf_counter()
        self.certificates = certificates
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, file, certificates], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def until_ready(self) -> float:
        """Return the seconds from the start of the process until it was ready."""
        scheme = "https" if self.certificates else "http"
        request = urllib.request.Request(f"{scheme}://127.0.0.1:{self.port}/readyz")
        request.add_header(*AUTHORIZATION.strip().split(": "))
        with urllib.request.urlopen(request, timeout=10, context=self.trust()) as response:
            assert response.status == 200
        return time.perf_counter() - self.started

    def trust(self) -> ssl.SSLContext | None:
        """Return the TLS context of clients; None for plain HTTP."""
        if not self.certificates:
            return None
        return ssl.create_default_context(cafile=f"{self.certificates}/ca.crt")

    def memory_mib(self) -> float:
        """Resident memory in MiB."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def pod(name: str) -> bytes:
    environment = [{"name": f"VARIABLE_{i}", "value": f"value number {i}"} for i in range(12)]
    container = {
        "image": "registry.example/team/trainer:1.2.3",
        "command": ["python", "/work/train.py", "--epochs", "20"],
        "env": environment,
        "resources": {"limits": {"cpu": "2", "memory": "4Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "benchmark", "job": "training", "index": name},
            "annotations": {"example.com/note": "n" * 200},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", **container}],
            "initContainers": [{"name": "first", "image": "busybox:1", "command": ["true"]}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    }
    return json.dumps(document).encode()


def post(body: bytes) -> bytes:
    return (
        f"POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTHORIZATION}"
        f"User-Agent: benchmark\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


class Exchange(asyncio.Protocol):
    """Sends one prepared request after the other."""

    def __init__(self, requests: list[bytes], done: asyncio.Future[None]) -> None:
        self.requests = requests
        self.done = done
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102 - asyncio's
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.requests.pop())

    def data_received(self, data: bytes) -> None:  # noqa: D102 - asyncio's
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        at = head.index(b"content-length:") + 15
        length = int(head[at : head.find(b"\r\n", at) if b"\r\n" in head[at:] else None])
        if len(self.buffer) < end + 4 + length:
            return
        assert head.startswith(b"http/1.1 201"), self.buffer
        self.buffer = b""
        if self.requests:
            self.transport.write(self.requests.pop())
        else:
            self.transport.close()
            if not self.done.done():
                self.done.set_result(None)


async def creates_per_second(
    port: int, prefix: str, count: int = CREATES, tls: ssl.SSLContext | None = None
) -> float:
    loop = asyncio.get_running_loop()
    requests = [post(pod(f"{prefix}-{i}")) for i in range(count)]
    share = count // CONNECTIONS
    done = []
    started = time.perf_counter()
    for i in range(CONNECTIONS):
        future = loop.create_future()
        mine = requests[i * share : (i + 1) * share]
        await loop.create_connection(partial(Exchange, mine, future), "127.0.0.1", port, ssl=tls)
        done.append(future)
    await asyncio.gather(*done)
    return share * CONNECTIONS / (time.perf_counter() - started)


class Watcher(asyncio.Protocol):
    """Records when each pod's first event arrives."""

    def __init__(self, arrived: dict[bytes, float], every: asyncio.Event | None) -> None:
        self.arrived = arrived
        self.every = every
        self.open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: D102 - asyncio's
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(
            "GET /api/v1/pods?watch=1&resourceVersion=0&labelSelector=watched "
            f"HTTP/1.1\r\nHost: 127.0.0.1\r\n{AUTHORIZATION}\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:  # noqa: D102 - asyncio's
        if not self.open.done():
            self.open.set_result(None)
        at = data.find(b'"watched":"')
        while at >= 0:
            name = data[at + 11 : data.index(b'"', at + 11)]
            self.arrived.setdefault(name, time.perf_counter())
            at = data.find(b'"watched":"', data.find(b"\n", at))
        if self.every is not None:
            self.every.set()


async def latencies(port: int, watchers: int) -> list[float]:
    """Return the milliseconds from sending a create to the event at the last watcher."""
    loop = asyncio.get_running_loop()
    tables: list[dict[bytes, float]] = [{} for _ in range(watchers)]
    changed = asyncio.Event()
    connections = []
    for table in tables:
        transport, protocol = await loop.create_connection(
            partial(Watcher, table, changed), "127.0.0.1", port
        )
        await protocol.open
        connections.append(transport)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    figures = []
    for i in range(LATENCY_SAMPLES):
        key = f"{watchers}-{i}"
        document = json.loads(pod(f"watched-{key}"))
        document["metadata"]["labels"]["watched"] = key
        request = post(json.dumps(document).encode())
        wanted = key.encode()
        sent = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        )
        await reader.readexactly(length)
        while not all(wanted in table for table in tables):
            changed.clear()
            await asyncio.wait_for(changed.wait(), 10)
        figures.append((max(table[wanted] for table in tables) - sent) * 1000)
        await asyncio.sleep(0.002)
    writer.close()
    for transport in connections:
        transport.close()
    return figures


def cold_starts(program: str, *, tls: bool = False) -> list[float]:
    figures = []
    for _ in range(COLD_STARTS):
        with (
            tempfile.TemporaryDirectory() as directory,
            Server(program, certificates=directory if tls else "") as server,
        ):
            figures.append(server.until_ready())
    return figures


def verdict(good: bool) -> str:
    return "reached" if good else "MISSED"


def main() -> None:
    with Server(REFERENCE) as server:
        asyncio.run(creates_per_second(server.port, "warm", 400))
        reference = asyncio.run(creates_per_second(server.port, "bench"))
    with Server(REAL) as server:
        asyncio.run(creates_per_second(server.port, "warm", 400))
        before = cpu_seconds(server.process.pid)
        memory = asyncio.run(creates_per_second(server.port, "bench"))
        processor = CREATES / (cpu_seconds(server.process.pid) - before)
        resident = server.memory_mib()
    with tempfile.TemporaryDirectory() as directory, Server(REAL, "", directory) as server:
        trusted = server.trust()
        asyncio.run(creates_per_second(server.port, "warm", 400, trusted))
        secure = asyncio.run(creates_per_second(server.port, "bench", tls=trusted))
    with tempfile.TemporaryDirectory() as directory, Server(REAL, f"{directory}/db") as server:
        asyncio.run(creates_per_second(server.port, "warm", 400))
        durable = asyncio.run(creates_per_second(server.port, "bench"))
    print(
        f"creates/s of a {len(pod('x'))} B Pod: {memory:.0f} in memory, {durable:.0f} with a file,"
        f" {secure:.0f} over TLS"
        f" (goal {GOAL_CREATES}: {verdict(memory >= GOAL_CREATES)});"
        f" {processor:.0f} in memory for each second of its processor time;"
        f" bare aiohttp {reference:.0f}; ratio {memory / reference:.2f};"
        f" {resident:.0f} MiB with {CREATES + 400} pods"
    )
    with Server(REAL) as server:
        for watchers in (1, 100):
            figures = asyncio.run(latencies(server.port, watchers))
            median = statistics.median(figures)
            worst = statistics.quantiles(figures, n=100)[98]
            goal = f" (goal {GOAL_LATENCY_MS} ms: {verdict(median <= GOAL_LATENCY_MS)})"
            print(
                f"create to event at the last of {watchers} watchers: p50 {median:.2f} ms,"
                f" p99 {worst:.2f} ms{goal if watchers == 1 else ''}"
            )
    bare, figures = cold_starts(REFERENCE), cold_starts(REAL, tls=True)
    cold = statistics.median(figures)
    plain = statistics.median(cold_starts(REAL))
    print(
        f"cold start to /readyz over TLS: {cold:.2f} s (goal {GOAL_COLD_SECONDS} s:"
        f" {verdict(cold <= GOAL_COLD_SECONDS)}), worst {max(figures):.2f} s;"
        f" without TLS {plain:.2f} s; bare aiohttp {statistics.median(bare):.2f} s"
    )


if __name__ == "__main__":
    main()
