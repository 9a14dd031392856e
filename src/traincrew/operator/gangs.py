"""Reads and writes the PodGroups of jobs, and finds out which schedulers of gangs a cluster has.

Nothing is asked before a job asks for a gang. There is no cache of PodGroups: a cluster may begin
or cease to serve them at any time, and neither the start of the operator nor a change of leadership
waits for that. The PodGroup of a job is read when its job is reconciled, at most every few seconds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field

from traincrew.engine.errors import ApiError, ForbiddenError, NotFoundError
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import Resource
from traincrew.operator.children import ChildWriter
from traincrew.plan.shared.gangs import groups
from traincrew.plan.shared.model import ChildKey, GangState, Refusal
from traincrew.plan.shared.schedulers import ENGINES, PLURAL, POD_GROUP, Served
from traincrew.plan.shared.views import PodGroupView

if TYPE_CHECKING:
    from traincrew.engine.client import Client
    from traincrew.engine.clock import Clock
    from traincrew.engine.gate import Gate
    from traincrew.operator.jobstate import JobState
    from traincrew.plan.shared.model import GroupQuery, GroupWrite
    from traincrew.plan.shared.schedulers import Engine, Mode

LOOK_SECONDS = 60.0
"""Seconds after which the APIs that a cluster serves are looked up again."""
GROUP_GONE_SECONDS = 1.0
"""Seconds after which a PodGroup that was deleted, so that another replaces it, may be gone."""
READ_SECONDS = 5.0
"""Seconds for which the PodGroup of a job that was read is used."""


class _Resource(Struct):
    name: str = ""


class _Resources(Struct):
    """A list of the resources of one version of a group, as far as it is read."""

    resources: list[_Resource] = field(default_factory=list)


def resource_of(served: Served) -> Resource:
    """Return the resource of the PodGroups of a scheduler."""
    return Resource(ENGINES[served.name].group, served.version, PLURAL, POD_GROUP)


class GangSchedulers:
    """The schedulers of gangs whose API a cluster serves; one for all kinds.

    Args:
        client: The API server.
        mode: ``--gang-scheduling``.
        clock: Source of time.
    """

    def __init__(self, client: Client, mode: Mode, clock: Clock) -> None:
        self._client = client
        self._mode = mode
        self._clock = clock
        self._log = get_logger()
        self._served: dict[str, Served] = {}
        self._due = 0.0
        self._looking = asyncio.Lock()

    def choose(self, scheduler: str) -> Served | None:
        """Return the scheduler of gangs of a new attempt; see `groups.choose`."""
        return groups.choose(self._mode, list(self._served.values()), scheduler)

    def named(self, name: str) -> Served | None:
        """Return a scheduler by its name, if its API is served."""
        return self._served.get(name)

    def look_again(self) -> None:
        """Look up with the next question which APIs are served."""
        self._due = 0.0

    async def look(self) -> None:
        """Look up which APIs are served, unless that was done a short while ago.

        An API is gone only if the server says so; while it does not answer, what is known stays.
        """
        if self._mode == "none":
            return
        async with self._looking:  # a job that asks meanwhile waits for the answer, too
            if (now := self._clock.monotonic()) < self._due:
                return
            await self._look()
            self._due = now + LOOK_SECONDS

    async def _look(self) -> None:
        for engine in ENGINES.values():
            if self._mode not in {"auto", engine.name}:
                continue
            try:
                found = await self._served_version(engine)
            except ApiError as error:
                self._log.info(
                    "gang schedulers not looked up", group=engine.group, error=str(error)
                )
                continue
            if found is None:
                self._served.pop(engine.name, None)
            else:
                self._served[engine.name] = found

    async def _served_version(self, engine: Engine) -> Served | None:
        for version in engine.versions:
            try:
                answer = await self._client.request("GET", f"/apis/{engine.group}/{version}")
            except NotFoundError:
                continue
            listed = msgspec.json.decode(answer, type=_Resources)
            if any(each.name == PLURAL for each in listed.resources):
                return Served(name=engine.name, version=version)
        return None


class Gangs:
    """The PodGroups of the jobs of one kind.

    Args:
        client: The API server.
        known: The schedulers that the cluster has.
        gate: Defers other requests during urgent writes.
        clock: Source of time.
    """

    def __init__(self, client: Client, known: GangSchedulers, gate: Gate, clock: Clock) -> None:
        self._client = client
        self._known = known
        self._gate = gate
        self._clock = clock

    async def answer(self, query: GroupQuery, namespace: str, memory: JobState) -> GangState:
        """Return what is known about the gang of a job.

        Raises:
            ApiError: The PodGroup could not be read.
        """
        await self._known.look()
        served = (
            self._known.named(query.engine) if query.engine else self._known.choose(query.scheduler)
        )
        if served is None:
            return GangState()
        now = self._clock.monotonic()
        if memory.gang is not None and now < memory.gang_due and memory.gang_of == served:
            return memory.gang
        resource, name = resource_of(served), groups.name_of(query.owner, served.name)
        try:
            found = await self._client.get(resource, name, namespace)
        except NotFoundError as error:
            if not error.is_about(name):  # its API is not served any more
                self._known.look_again()
                raise
            state = GangState(served=served)
        except ForbiddenError as error:
            state = GangState(problem=_without_rights(served, error.message))
        else:
            view = msgspec.convert(found, PodGroupView, strict=False)
            state = GangState(served=served, group=view)
        memory.gang, memory.gang_of, memory.gang_due = state, served, now + READ_SECONDS
        return state

    async def write(self, group: GroupWrite, memory: JobState) -> Refusal | GangState | None:
        """Create, change or delete a PodGroup.

        Returns:
            Why the API refuses it, or what is known if the operator has no right to write it; None
            if it was written.

        Raises:
            ApiError: The request failed.
        """
        memory.gang = None
        writer = ChildWriter(self._client, {POD_GROUP: resource_of(group.served)}, self._gate)
        if group.delete is not None:
            metadata = group.delete.metadata
            key = ChildKey(POD_GROUP, metadata.name)
            version = metadata.resource_version
            try:
                await writer.delete(key, metadata.namespace, metadata.uid, version)
            except ForbiddenError as error:
                return GangState(problem=_without_rights(group.served, error.message))
            return None
        assert group.write is not None
        if group.write.create is not None:
            answer = await writer.create(group.write.create)
        else:
            assert group.write.patch is not None
            assert group.found is not None
            answer = await writer.patch(group.write.patch, group.found.metadata.resource_version)
        refusal = answer.result
        if not isinstance(refusal, Refusal):
            return None
        if not (refusal.permanent or refusal.foreign or refusal.leftover) and (
            f'resource "{PLURAL}"' in refusal.message
        ):
            return GangState(problem=_without_rights(group.served, refusal.message))
        return refusal


def _without_rights(served: Served, message: str) -> str:
    engine = ENGINES[served.name]
    return (
        f"the operator may not use PodGroups of {served.name}, so the pods are scheduled one by"
        f" one: {message}; add to its role: apiGroups [{engine.group}], resources [{PLURAL}], verbs"
        f" [{', '.join(engine.verbs)}]"
    )
