"""The MxJobs of the scenarios, whose replicas run only a shell, and what happens to them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from traincrew.engine.resources import JOBS

from .context import is_ready, uid
from .manifests import GATE, IMAGE

if TYPE_CHECKING:
    from .context import ScenarioContext
    from .recording import Document

GROUP, OLDER_GROUP = "mxnet.mlkube.io", "mlkube.io"
SHOW_ROLE = "env | grep -E '^(DMLC|PS)_' | sort\n"
"""Prints how MXNet would find the other replicas."""
_NAME, _ATTEMPT = "mxnet.mlkube.io/job-name", "mxnet.mlkube.io/attempt"


def template(script: str = GATE, **fields: Any) -> Document:
    """Return a pod template with a container that runs a shell script."""
    container = {"name": "mxnet", "image": IMAGE, "command": ["sh", "-c", script], **fields}
    return {"spec": {"containers": [container]}}


def local(name: str, script: str = GATE, *, group: str = GROUP, **spec: Any) -> Document:
    """Return a job with one replica, ``worker-0``.

    Args:
        name: Its name.
        script: Its program.
        group: Its API group.
        spec: Further fields.
    """
    return {
        "apiVersion": f"{group}/v1beta1",
        "kind": "MxJob",
        "metadata": {"name": name},
        "spec": {"jobMode": "local", "replicaSpecs": [{"template": template(script)}], **spec},
    }


def distributed(name: str, script: str = GATE, *, workers: int = 2, **spec: Any) -> Document:
    """Return a job with a scheduler, a server and some workers; further fields are the spec's."""
    job = local(name)
    numbers = {"SCHEDULER": 1, "SERVER": 1, "WORKER": workers}
    job["spec"] = {
        "jobMode": "dist",
        "replicaSpecs": [
            {"mxReplicaType": kind, "replicas": number, "template": template(script)}
            for kind, number in numbers.items()
        ],
        **spec,
    }
    return job


def replicas(context: ScenarioContext, job: str) -> dict[str, Document]:
    """Return the newest pods of a job by type and index, such as ``worker-0``."""
    found = {}
    for pod in context.recording.all("Pod"):
        labels = pod["metadata"].get("labels", {})
        if labels.get(_NAME) == job:
            found[f"{labels['job_type'].lower()}-{labels['task_index']}"] = pod
    return found


async def running(
    context: ScenarioContext, job: str, count: int, *, attempt: str = "0"
) -> dict[str, Document]:
    """Wait until this many replicas of an attempt run; return their pods by type and index."""

    def found() -> dict[str, Document] | None:
        pods = {
            key: pod
            for key, pod in replicas(context, job).items()
            if pod["metadata"]["labels"][_ATTEMPT] == attempt and is_ready(pod)
        }
        return pods if len(pods) == count else None

    what = f"{count} replicas of attempt {attempt} of {job} run"
    pods: dict[str, Document] = await context.until(what, found)
    return pods


async def end(context: ScenarioContext, pods: dict[str, Document], code: int = 0) -> None:
    """Let all of these replicas end with an exit code."""
    await asyncio.gather(*(context.end(pod, code) for pod in pods.values()))


async def at_rest(context: ScenarioContext) -> None:
    """Wait until no pod runs and nothing changes any more."""

    def active() -> bool:
        phases = {pod.get("status", {}).get("phase") for pod in context.recording.all("Pod")}
        return bool(phases - {"Succeeded", "Failed"})

    await context.until("no pod runs", lambda: not active())
    await context.at_rest()


async def delete_job(context: ScenarioContext, pod: Document) -> None:
    """Delete the batch Job of a replica as kubectl does."""
    name = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
    await context.client.delete(JOBS, name, context.namespace)


def assert_others(before: dict[str, Document], after: dict[str, Document]) -> None:
    """Check that all pods were replaced.

    Raises:
        AssertionError: There is one in both.
    """
    kept = set(map(uid, before.values())) & set(map(uid, after.values()))
    assert not kept, f"not replaced: {kept}"
