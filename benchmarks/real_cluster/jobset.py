"""The same pods as JobSet runs them: one headless Service, and one Indexed Job for each role.

This is not JobSet itself, but a client that creates what JobSet's controller creates for a JobSet
with a replicated job for each role: the Service of its subdomain, then the Jobs, whose pods are
created by the Job controller. It writes no status and no events, and calls no webhooks, which
JobSet does, so it is rather faster than JobSet.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks._usage import Meter
from benchmarks.real_cluster import jobs
from benchmarks.real_cluster.bare import BareClient, Watched, dump
from benchmarks.real_cluster.runs import QUIET, Run, patience
from traincrew.engine.resources import JOBS, SERVICES

if TYPE_CHECKING:
    from benchmarks.real_cluster.runs import HistoryRunner

_LABEL = "jobset.sigs.k8s.io/jobset-name"
_decode = msgspec.json.Decoder(Watched).decode


def run(runner: HistoryRunner, count: int) -> Run:
    """Create the children of this many jobs of the runner's load, as their user creates the jobs.

    Raises:
        SystemExit: The load is of ChainerJobs, or the pods did not run in time.
    """
    if "replicaSpecs" not in runner.load.spec:
        raise SystemExit("--reference jobset: not for --kind ChainerJob, which is no set of roles")
    return asyncio.run(_run(runner, count))


def roles(load: jobs.Load) -> dict[str, dict[str, Any]]:
    """Return number and template of the pods of each role."""
    specs = load.spec["replicaSpecs"]
    if isinstance(specs, dict):
        return {"workers": specs["Worker"]}
    return {each["mxReplicaType"].lower(): each for each in specs}


def children(load: jobs.Load, name: str, uid: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the Service and the Jobs of a job of this load."""
    metadata = {
        "namespace": jobs.NAMESPACE,
        "labels": {_LABEL: name},
        "ownerReferences": [
            {
                "apiVersion": load.resource.api_version,
                "kind": load.resource.kind,
                "name": name,
                "uid": uid,
                "controller": True,
            }
        ],
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata, "name": name},
        "spec": {
            "clusterIP": "None",
            "selector": {_LABEL: name},
            "publishNotReadyAddresses": True,
        },
    }
    return service, [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {**metadata, "name": f"{name}-{role}-0"},
            "spec": {
                "completionMode": "Indexed",
                "parallelism": replicas["replicas"],
                "completions": replicas["replicas"],
                "backoffLimit": 0,
                "template": {
                    "metadata": {"labels": {_LABEL: name}},
                    "spec": {
                        **replicas["template"]["spec"],
                        "restartPolicy": "Never",
                        "subdomain": name,
                    },
                },
            },
        }
        for role, replicas in roles(load).items()
    ]


async def _run(runner: HistoryRunner, count: int) -> Run:
    async with BareClient(runner.cluster.kubeconfig) as user:
        pods = jobs.RunningPods(user, runner.load.pods * count)
        following = asyncio.create_task(pods.follow())
        await pods.listening.wait()
        tasks: list[asyncio.Task[None]] = []
        last_write = 0.0

        async def write(name: str, uid: str) -> None:
            nonlocal last_write
            service, wanted = children(runner.load, name, uid)
            await user.send("POST", SERVICES.path(jobs.NAMESPACE), dump(service))
            path = JOBS.path(jobs.NAMESPACE)
            await asyncio.gather(*(user.send("POST", path, dump(job)) for job in wanted))
            last_write = time.monotonic()

        async def created(number: int, answer: bytes) -> None:
            uid = _decode(answer).metadata.uid
            tasks.append(asyncio.create_task(write(jobs.name(number), uid)))

        meter = Meter(runner.pids())
        requests = runner.requests()
        started = time.monotonic()
        await jobs.create(user, runner.load, count, created)
        done = time.monotonic()
        await asyncio.gather(*tasks)
        running = await pods.all(patience(count))
        effort = meter.read().total
        await asyncio.sleep(QUIET)  # the operator's run is idle for as long
        used = meter.read()
        following.cancel()
    return Run(
        done - started,
        pods.half() - started,
        running - started,
        running - started,
        last_write - started,
        effort,
        used,
        runner.requests() - requests,
    )
