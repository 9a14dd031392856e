"""Reads what an explanation needs: the job, and everything around it that may be read."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from traincrew.api.reasons import QUEUE_PENDING
from traincrew.cli.display.objects import Event, Pod, Workload
from traincrew.cli.jobview.jobstate import job_state
from traincrew.cli.jobview.objects import Node, Quota
from traincrew.cli.jobview.why import Facts
from traincrew.cli.watching.jobwatch import listed
from traincrew.cli.watching.kinds import find
from traincrew.cli.watching.outputs import outputs_of
from traincrew.cli.watching.queueplace import place_in_queue
from traincrew.cli.watching.rights import missing_right
from traincrew.engine.errors import ApiError, ForbiddenError
from traincrew.engine.objects import View
from traincrew.engine.resources import (
    EVENTS,
    JOBS,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    STATEFUL_SETS,
)
from traincrew.operator.kinds import between

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

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
        except (ApiError, msgspec.MsgspecError) as error:
            notes.append(f"{resource.plural} could not be read: {error}")
        return None

    pods, events, jobs, sets, nodes, quotas = await asyncio.gather(
        optional(PODS, Pod, selector),
        optional(EVENTS, Event),
        optional(JOBS, Workload, selector),
        optional(STATEFUL_SETS, Workload, selector),
        optional(NODES, Node),
        optional(RESOURCE_QUOTAS, Quota),
    )
    for each in between(served.resource):
        sets = [*(sets or []), *(await optional(each, Workload, selector) or [])]
    outputs, place, state = {}, None, job_state(job)
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
        children=[*(jobs or []), *(sets or [])],
        nodes=nodes,
        quotas=quotas,
        outputs=outputs,
        place=place,
    )
    return Gathered(facts, notes)


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
