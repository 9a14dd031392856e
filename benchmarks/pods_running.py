"""Time from `create` of a StatefulSet to all 8 of its pods Running in the API.

Each pod has one init container and one container. Reference in the same run: 16 bare processes of
the same programs, waiting for the first 8, which is what the machine alone needs.
"""

import asyncio
import statistics
import time

from traincrew.engine.resources import PODS, STATEFUL_SETS
from traincrew.local.cluster import LocalCluster

PODS_WANTED = 8
ROUNDS = 5
GOAL_SECONDS = 1.0
IMAGE = "busybox:1"


def stateful_set(name: str) -> dict[str, object]:
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": PODS_WANTED,
            "podManagementPolicy": "Parallel",
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "initContainers": [{"name": "first", "image": IMAGE, "command": ["true"]}],
                    "containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "600"]}],
                },
            },
        },
    }


async def until_running(cluster: LocalCluster, name: str) -> float:
    started = time.perf_counter()
    await cluster.client.create(STATEFUL_SETS, stateful_set(name))
    while True:
        pods = await cluster.client.list(PODS, "default", label_selector=f"app={name}")
        phases = [pod.get("status", {}).get("phase") for pod in pods["items"]]
        if phases.count("Running") == PODS_WANTED:
            return time.perf_counter() - started
        if time.perf_counter() - started > 60:
            raise SystemExit(f"pods not running after 60 s: {phases}")
        await asyncio.sleep(0.01)


async def bare() -> float:
    started = time.perf_counter()
    first = [await asyncio.create_subprocess_exec("true") for _ in range(PODS_WANTED)]
    for process in first:
        await process.wait()
    second = [await asyncio.create_subprocess_exec("sleep", "600") for _ in range(PODS_WANTED)]
    elapsed = time.perf_counter() - started
    for process in second:
        process.kill()
        await process.wait()
    return elapsed


async def measure() -> None:
    async with LocalCluster() as cluster:
        await until_running(cluster, "warm-up")
        await cluster.client.delete(STATEFUL_SETS, "warm-up", "default")
        figures, references = [], []
        for round_number in range(ROUNDS):
            name = f"round-{round_number}"
            references.append(await bare())
            figures.append(await until_running(cluster, name))
            await cluster.client.delete(STATEFUL_SETS, name, "default")
            while (await cluster.client.list(PODS, "default"))["items"]:
                await asyncio.sleep(0.02)
    figure, reference = statistics.median(figures), statistics.median(references)
    print(
        f"create to {PODS_WANTED} pods Running: {figure:.3f} s (goal {GOAL_SECONDS} s);"
        f" bare processes {reference:.3f} s; ratio {figure / reference:.1f};"
        f" worst of {ROUNDS}: {max(figures):.3f} s"
    )


def main() -> None:
    asyncio.run(measure())


if __name__ == "__main__":
    main()
