"""Reads what an explanation needs: the job, and everything around it that may be read."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from traincrew.api.reasons import QUEUE_PENDING
from traincrew.cli.display.objects import Event, Pod, Queue, Workload
from traincrew.cli.jobview.jobstate import job_state
from traincrew.cli.jobview.objects import Node, Queued, Quota
from traincrew.cli.jobview.why import Facts
from traincrew.cli.watching.jobwatch import listed
from traincrew.cli.watching.kinds import WORKLOADS, find
from traincrew.cli.watching.outputs import outputs_of
from traincrew.cli.watching.queueplace import place_in_queue
from traincrew.cli.watching.rights import missing_right
from traincrew.engine.errors import ApiError, ForbiddenError, NotFoundError
from traincrew.engine.objects import View, controller_of
from traincrew.engine.resources import (
    EVENTS,
    JOBS,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
)
from traincrew.operator.kinds import between
from traincrew.plan.shared.queueing import kueue

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from traincrew.cli.display.objects import Job
    from traincrew.cli.watching.kinds import Served
    from traincrew.engine.client import Client
    from traincrew.engine.resources import Resource

__all__ = ["Gathered", "gather"]

T = TypeVar("T", bound=View)

MOST = 5000
"""Maximum number of objects read of a resource: an explanation needs a few of them."""


class Gathered(NamedTuple):
    """Facts, and which rights were missing to read more."""

    facts: Facts
    notes: list[str]


async def gather(client: Client, word: str, namespace: str) -> Gathered:
    """Read a job and what is around it.

    Raises:
        BadInput: The job is not named clearly.
        CommandFailed: There is no such job, or it may not be read.
    """
    served, job = await find(client, word, namespace)
    selector = served.selector_of(job.metadata.name)
    notes: list[str] = []

    async def optional(
        resource: Resource, view: type[T], labels: str | None = None
    ) -> list[T] | None:
        where = namespace if resource.namespaced else None
        try:
            return await _first(listed(client, resource, view, where, labels))
        except ForbiddenError as error:
            notes.append(missing_right("list", resource, where, error=error))
        except NotFoundError:
            pass  # nobody has installed the kind
        except (ApiError, msgspec.MsgspecError) as error:
            notes.append(f"{resource.plural} could not be read: {error}")
        return None

    pods, events, jobs, sets, nodes, quotas = await asyncio.gather(
        optional(PODS, Pod, selector),
        optional(EVENTS, Event),
        optional(JOBS, Workload),
        optional(STATEFUL_SETS, Workload, selector),
        optional(NODES, Node),
        optional(RESOURCE_QUOTAS, Quota),
    )
    for each in between(served.resource):
        sets = [*(sets or []), *(await optional(each, Workload, selector) or [])]
    outputs, place, workload, state = {}, None, None, job_state(job)
    if state.phase == "Suspended" and not job.status.queue and kueue.QUEUE in job.metadata.labels:
        for resource in WORKLOADS:
            found = await optional(resource, Queued, f"{kueue.JOB_UID}={job.metadata.uid}")
            workload = next(iter(found or ()), None)
            if workload is not None:
                queue = Queue(name=workload.stated.queue, workload=workload.metadata.name)
                place = await place_in_queue(client, queue, namespace)
                break
    if state.reason == QUEUE_PENDING and job.status.queue is not None:
        place = await place_in_queue(client, job.status.queue, namespace)
    if state.phase == "Running":
        try:
            outputs = await outputs_of(client, pods or [])
        except ForbiddenError as error:
            notes.append(missing_right("get", PODS, namespace, "log", error=error))
    facts = Facts(
        kind=served.kind,
        job=job,
        pods=pods or [],
        pods_known=pods is not None,
        now=datetime.now(UTC),
        events=sorted(events or [], key=_version),
        children=[*(each for each in jobs or () if _belongs(each, served, job)), *(sets or [])],
        nodes=nodes,
        quotas=quotas,
        outputs=outputs,
        workload=workload,
        place=place,
    )
    return Gathered(facts, notes)


def _belongs(child: Workload, served: Served, job: Job) -> bool:
    """Return whether a Job is of a job: mpi-operator gives its launcher's no label that says it."""
    owner = controller_of(child)
    if owner is not None and owner.uid == job.metadata.uid:
        return True
    return child.metadata.labels.get(served.kind.label) == job.metadata.name


async def _first(objects: AsyncGenerator[T]) -> list[T]:
    """Return at most `MOST` objects."""
    found: list[T] = []
    async with contextlib.aclosing(objects):
        async for each in objects:
            found.append(each)
            if len(found) >= MOST:
                break
    return found


def _version(event: Event) -> int:
    version = event.metadata.resource_version
    return int(version) if version.isdecimal() else 0
