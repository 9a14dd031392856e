"""Wait for the pods that a manifest creates besides its job, such as the etcd of a rendezvous.

`kubectl create` does not wait: a worker that starts before such a pod answers fails, and may fail
the job. A run creates its jobs once these pods are ready, or are known not to become so by
themselves. Called by `session`; knows neither the view nor the job.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from traincrew.cli.display.objects import Pod, decode
from traincrew.cli.display.states import PASSING
from traincrew.engine.errors import NotFoundError
from traincrew.engine.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traincrew.engine.client import Client

SECONDS = 60.0
"""How long a pod may run before it is ready."""
_POLL_SECONDS = 0.1


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
            pod = decode(await client.get(PODS, name, namespace), Pod)
        except NotFoundError as error:
            if error.is_about(name):
                return
            raise
        if is_ready_or_ended(pod):
            return
        now = time.monotonic()
        if running_since is None and pod.status.phase == "Running":
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


def is_ready_or_ended(pod: Pod) -> bool:
    """Whether there is nothing to wait for."""
    return pod.status.ended or pod.status.true("Ready") is not None


def obstacle(pod: Pod) -> str:
    """Return what keeps a pod from becoming ready until somebody acts; empty if nothing does."""
    status = pod.status
    if (unscheduled := status.false("PodScheduled")) is not None:
        return unscheduled.reason or "Unschedulable"
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is not None and waiting.reason not in PASSING:
            return waiting.reason
    return ""
