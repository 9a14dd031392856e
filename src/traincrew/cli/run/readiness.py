"""Wait for the pods that a manifest creates besides its job, such as the etcd of a rendezvous.

`kubectl create` does not wait: a worker that starts before such a pod answers fails, and may fail
the job. A run creates its jobs once these pods are ready, or are known not to become so by
themselves. Called by `session`; knows neither the view nor the job.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.engine.client import Client

SECONDS = 60.0
"""How long a pod may run before it is ready."""
_POLL_SECONDS = 0.1
_STARTING = {"ContainerCreating", "PodInitializing"}


async def until_ready(
    client: Client, pods: Iterable[tuple[str, str]], report: Callable[[str], None]
) -> None:
    """Wait until each pod is ready, has ended, or cannot become ready by itself.

    Args:
        client: The API server.
        pods: Namespace and name of each pod.
        report: Called with one line for each pod that is waited for, and for each that is given up.
    """
    await asyncio.gather(*(_until_ready(client, *pod, report) for pod in pods))


async def _until_ready(
    client: Client, namespace: str, name: str, report: Callable[[str], None]
) -> None:
    running_since: float | None = None
    reported = False
    while True:
        try:
            pod = await client.get(PODS, name, namespace)
        except NotFoundError as error:
            if error.is_about(name):
                return
            raise
        if is_ready_or_ended(pod):
            return
        now = time.monotonic()
        if running_since is None and pod.get("status", {}).get("phase") == "Running":
            running_since = now
        why = obstacle(pod)
        if not why and running_since is not None and now - running_since > SECONDS:
            why = f"not ready after {SECONDS:.0f} s"
        if why:
            report(f"pod {name} is not ready ({why}); continuing without it")
            return
        if not reported:
            report(f"waiting until pod {name} is ready")
            reported = True
        await asyncio.sleep(_POLL_SECONDS)


def is_ready_or_ended(pod: dict[str, Any]) -> bool:
    """Whether there is nothing to wait for."""
    status = pod.get("status", {})
    return status.get("phase") in {"Succeeded", "Failed"} or any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )


def obstacle(pod: dict[str, Any]) -> str:
    """Return what keeps a pod from becoming ready until somebody acts; empty if nothing does."""
    status = pod.get("status", {})
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("reason", "Unschedulable"))
    for container in (
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ):
        reason = container.get("state", {}).get("waiting", {}).get("reason")
        if reason and reason not in _STARTING:
            return str(reason)
    return ""
