"""A cluster whose process is killed and restarted while pods run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from traincrew.engine.client import Client
from traincrew.engine.config import load_config
from traincrew.engine.errors import ApiError
from traincrew.engine.resources import PODS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

CLUSTER = """
import asyncio, sys
from pathlib import Path
from traincrew.local.cluster import ClusterOptions, LocalCluster

async def main():
    async with LocalCluster(ClusterOptions(directory=Path(sys.argv[1]))) as cluster:
        print("up", flush=True)
        await cluster.run()

asyncio.run(main())
"""
DEADLINE = 90.0


class Daemon:
    """A cluster in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER, str(self.directory)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "up\n"

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    daemon = Daemon(tmp_path / "cluster")
    daemon.start()
    yield daemon
    if daemon.process is not None:
        daemon.kill()
    # A cluster that ends normally adopts and kills the remaining pods.
    from traincrew.local.cluster import ClusterOptions, LocalCluster

    async with LocalCluster(ClusterOptions(directory=daemon.directory)):
        pass
    assert not (daemon.directory / "node" / "pods").exists()


@contextlib.asynccontextmanager
async def client_of(daemon: Daemon) -> AsyncIterator[Client]:
    async with Client(load_config(str(daemon.directory / "kubeconfig"))) as client:
        yield client


async def until(test: Callable[[], Awaitable[Any]]) -> Any:
    deadline = time.monotonic() + DEADLINE
    while True:
        with contextlib.suppress(ApiError):
            if answer := await test():
                return answer
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def create(client: Client, name: str, script: str, **spec: Any) -> None:
    container = {"name": "main", "image": "busybox:1", "command": ["sh", "-c", script]}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }
    await client.create(PODS, pod, "default")


async def phase(client: Client, name: str, wanted: str) -> dict[str, Any]:
    async def reached() -> dict[str, Any] | None:
        pod = await client.get(PODS, name, "default")
        status = pod.get("status", {})
        # Containers become ready a moment after the pod is Running.
        if status.get("phase") != wanted:
            return None
        settled = wanted != "Running" or all(each["ready"] for each in status["containerStatuses"])
        return pod if settled else None

    found: dict[str, Any] = await until(reached)
    return found


async def test_pods_outlive_a_killed_cluster(daemon: Daemon) -> None:
    count = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"
    async with client_of(daemon) as client:
        await create(client, "counts", count)
        before = await phase(client, "counts", "Running")
    for _ in range(3):
        daemon.kill()
        daemon.start()
    async with client_of(daemon) as client:
        # The log is complete and in order.
        async def counted() -> bool:
            log = await log_of(client, "counts")
            return len(log) > 50

        await until(counted)
        log = await log_of(client, "counts")
        assert log == [str(number) for number in range(1, len(log) + 1)]
        after = await phase(client, "counts", "Running")
        assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
        assert after["status"]["podIP"] == before["status"]["podIP"]


async def test_an_end_without_a_cluster_is_reported_afterwards(
    daemon: Daemon, tmp_path: Path
) -> None:
    volumes = [{"name": "host", "hostPath": {"path": str(tmp_path)}}]
    mount = [{"name": "host", "mountPath": "/host"}]
    container = {
        "name": "main",
        "image": "busybox:1",
        "command": ["sh", "-c", "while ! test -e /host/go; do sleep 0.02; done; exit 5"],
        "volumeMounts": mount,
    }
    async with client_of(daemon) as client:
        spec = {"restartPolicy": "Never", "volumes": volumes, "containers": [container]}
        await create(client, "ends", "", **spec)
        await phase(client, "ends", "Running")
    daemon.kill()
    (tmp_path / "go").touch()
    program = next((daemon.directory / "node" / "pods").glob("*/containers/main/0"))
    deadline = time.monotonic() + DEADLINE
    while not (program / "exit.json").exists():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    daemon.start()
    async with client_of(daemon) as client:
        pod = await phase(client, "ends", "Failed")
        state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"]) == (5, "Error")


async def test_ephemeral_containers_outlive_a_killed_cluster(daemon: Daemon) -> None:
    async def in_state(client: Client, name: str, state: str) -> dict[str, Any]:
        async def reached() -> dict[str, Any] | None:
            pod = await client.get(PODS, "debugged", "default")
            for each in pod["status"].get("ephemeralContainerStatuses") or ():
                if each["name"] == name and state in each["state"]:
                    found: dict[str, Any] = each
                    return found
            return None

        found: dict[str, Any] = await until(reached)
        return found

    async def debug(client: Client, name: str, script: str) -> None:
        container = {"name": name, "image": "busybox:1", "command": ["sh", "-c", script]}
        added = {"spec": {"ephemeralContainers": [container | {"targetContainerName": "main"}]}}
        await client.patch(
            PODS,
            "debugged",
            "default",
            patch=added,
            kind="strategic",
            subresource="ephemeralcontainers",
        )

    async with client_of(daemon) as client:
        await create(client, "debugged", "exec sleep 1000")
        await phase(client, "debugged", "Running")
        await debug(client, "stays", "exec sleep 1000")
        await debug(client, "ends", "while ! test -e /dev/shm/go; do sleep 0.02; done; exit 6")
        before = await in_state(client, "stays", "running")
        await in_state(client, "ends", "running")
        pod = await phase(client, "debugged", "Running")
    daemon.kill()
    daemon.start()
    async with client_of(daemon) as client:
        await debug(client, "later", "touch /dev/shm/go")
        assert (await in_state(client, "later", "terminated"))["restartCount"] == 0
        ended = await in_state(client, "ends", "terminated")
        assert ended["state"]["terminated"]["exitCode"] == 6
        assert await in_state(client, "stays", "running") == before
        after = await phase(client, "debugged", "Running")
        assert after["status"]["containerStatuses"] == pod["status"]["containerStatuses"]


async def test_a_kill_at_any_moment_of_a_start_runs_nothing_twice(
    daemon: Daemon, tmp_path: Path
) -> None:
    """Each run writes a line; a container that was never restarted must have written only one."""
    volumes = [{"name": "host", "hostPath": {"path": str(tmp_path)}}]
    mount = [{"name": "host", "mountPath": "/host"}]
    for attempt in range(10):
        name = f"p{attempt}"
        container = {
            "name": "main",
            "image": "busybox:1",
            "command": ["sh", "-c", f"echo run >> /host/{name}; exec sleep 1000"],
            "volumeMounts": mount,
        }
        async with client_of(daemon) as client:
            await create(client, name, "", volumes=volumes, containers=[container])
            await asyncio.sleep(0.015 * attempt)  # vary the moment of the kill
        daemon.kill()
        daemon.start()
    async with client_of(daemon) as client:
        for attempt in range(10):
            await phase(client, f"p{attempt}", "Running")
            marks = tmp_path / f"p{attempt}"
            await until_written(marks)
            pod = await phase(client, f"p{attempt}", "Running")
            restarts = pod["status"]["containerStatuses"][0]["restartCount"]
            runs = marks.read_text().count("run")
            assert runs == 1 or runs == restarts + 1


async def until_written(path: Path) -> None:
    """Wait for the first line: a running container may not have executed its first command."""

    async def written() -> bool:
        return path.exists() and path.read_text().endswith("\n")

    await until(written)


async def log_of(client: Client, name: str) -> list[str]:
    chunks = client.logs(name, "default")
    return b"".join([chunk async for chunk in chunks]).decode().split()


def test_pods_end_with_a_cluster_in_memory() -> None:
    script = CLUSTER.replace("ClusterOptions(directory=Path(sys.argv[1]))", "").replace(
        'print("up", flush=True)', "print(cluster.kubeconfig_path, flush=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    config = process.stdout.readline().strip()
    sleep = f"sleep {10_000 + os.getpid()}"

    async def run_a_pod() -> None:
        async with Client(load_config(config)) as client:
            await create(client, "p", f"exec {sleep}")
            await phase(client, "p", "Running")

    asyncio.run(run_a_pod())
    # The shell runs first and then executes `sleep`.
    deadline = time.monotonic() + DEADLINE
    while sleep not in command_lines():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + DEADLINE
    while sleep in command_lines():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def command_lines() -> list[str]:
    listing = subprocess.run(
        ["ps", "-ax", "-o", "args="], capture_output=True, text=True, check=True
    )
    return listing.stdout.splitlines()
