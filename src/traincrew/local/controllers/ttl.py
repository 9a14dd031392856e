"""Deletes finished Jobs after `ttlSecondsAfterFinished` (KEP-592)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from traincrew.engine.controller import Controller, Request, Result, own_key
from traincrew.engine.errors import ConflictError, NotFoundError
from traincrew.engine.resources import JOBS
from traincrew.local.controllers.common import has_condition, parse_time
from traincrew.local.controllers.context import ControllerContext
from traincrew.local.controllers.informers import informer

if TYPE_CHECKING:
    from collections.abc import Callable

    from traincrew.engine.controller import Manager
    from traincrew.engine.events import EventRecorder
    from traincrew.engine.objects import AnyObject


def expires_at(job: AnyObject) -> float | None:
    """Return when a Job expires, in seconds since the epoch; None if it does not (yet)."""
    ttl = job.spec.get("ttlSecondsAfterFinished")
    if ttl is None or job.metadata.deletion_timestamp is not None:
        return None
    for condition in job.status.get("conditions") or ():
        kind = condition.get("type", "")
        if kind in {"Complete", "Failed"} and has_condition([condition], kind):
            return parse_time(condition["lastTransitionTime"]) + float(ttl)
    return None


def add_ttl_controller(
    manager: Manager, events: EventRecorder, clock: Callable[[], float] = time.time
) -> Callable[[], None]:
    """Delete finished Jobs when they expire.

    Returns:
        What to call when the clock was moved.
    """
    jobs = informer(manager, JOBS)
    reporter = events.reporter("ttl-after-finished-controller")
    context = ControllerContext(manager.client, reporter, JOBS, clock)

    async def reconcile(request: Request) -> Result | None:
        job = jobs.store.get(*request)
        moment = expires_at(job) if job is not None else None
        if job is None or moment is None:
            return None
        left = moment - context.now()
        if left > 0:
            return Result(requeue_after=left + 0.001)
        try:
            await context.client.delete(
                JOBS,
                request.name,
                request.namespace,
                propagation="Foreground",
                uid=job.metadata.uid,
                resource_version=job.metadata.resource_version,
            )
        except NotFoundError:
            return None
        except ConflictError:
            return Result(requeue_after=1.0)  # the Job changed, perhaps its lifetime, too
        return None

    controller = Controller("ttl-after-finished", reconcile, workers=2)
    controller.watch(jobs, own_key)
    manager.add(controller)

    def look_again() -> None:
        for job in jobs.store.list():
            for request in own_key(job):
                controller.enqueue(request)

    return look_again
