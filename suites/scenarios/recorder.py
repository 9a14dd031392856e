"""Records everything that happens in a scenario's namespace, through the public API only.

One watch for each resource serves all scenarios of a cluster; its events are stored by namespace.
Every intermediate state that the API server has shown is kept, in the order of resource versions,
which are comparable across kinds in etcd as well as in the embedded cluster's store. A gap in a
watch is an error, because an incomplete recording proves nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Self

import msgspec

from traincrew.engine.errors import ApiError, TooManyRequestsError
from traincrew.engine.resources import (
    CONFIG_MAPS,
    CONTROLLER_REVISIONS,
    EVENTS,
    JOBS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from traincrew.operator.kinds import INSTALLED_RESOURCES as JOBS_OF_ALL_KINDS

from .recording import OLDER_GROUPS, Observation, Recording, version_of

if TYPE_CHECKING:
    from types import TracebackType

    from traincrew.engine.client import Client

RESOURCES = (
    *JOBS_OF_ALL_KINDS,
    JOBS,
    STATEFUL_SETS,
    CONTROLLER_REVISIONS,
    PODS,
    SERVICES,
    CONFIG_MAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    ROLES,
    ROLE_BINDINGS,
    POD_DISRUPTION_BUDGETS,
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    EVENTS,
)


def kind_name(resource: Resource) -> str:
    """Return the name of a kind in recordings; an older group of a kind has a name of its own."""
    return OLDER_GROUPS.get(resource.group, resource.kind)


class Recorder:
    """Watches a cluster.

    Args:
        client: The cluster's API, with the rights to watch all of `RESOURCES`.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._recordings: dict[str, Recording] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        versions = await asyncio.gather(*(self._version(resource) for resource in RESOURCES))
        self._tasks = [
            asyncio.create_task(self._watch(resource, version), name=f"watch {resource.plural}")
            for resource, version in zip(RESOURCES, versions, strict=True)
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def record(self, namespace: str) -> Recording:
        """Begin to record a namespace, without the objects already in it."""
        recording = self._recordings[namespace] = Recording(namespace)
        return recording

    def recording(self, namespace: str) -> Recording:
        """Return the latest recording of a namespace."""
        return self._recordings[namespace]

    async def catch_up(self, recording: Recording, seconds: float = 30.0) -> None:
        """Wait until the recording has caught up with the API server.

        Raises:
            AssertionError: It does not catch up in time.
        """

        for resource in RESOURCES:
            listed = await self._client.list(resource, recording.namespace)
            check = partial(recording.shows, kind_name(resource), listed)
            await recording.until(f"the watch of {resource.plural} is current", check, seconds)

    async def _version(self, resource: Resource) -> str:
        return str((await self._client.list(resource))["metadata"]["resourceVersion"])

    async def _watch(self, resource: Resource, version: str) -> None:
        try:
            while True:
                try:
                    version = await self._follow(resource, version)
                except TooManyRequestsError:
                    # It has not begun: a kind's storage is being created, or the server is busy.
                    await asyncio.sleep(0.5)
        except ApiError as error:
            for recording in self._recordings.values():
                recording.lose(f"the watch of {resource.plural} broke: {error}")

    async def _follow(self, resource: Resource, version: str) -> str:
        """Follow one watch to its end; return the version to resume from."""
        parameters = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        async with self._client.stream(resource.path(), parameters) as chunks:
            rest = b""
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    version = self._file(resource, line) or version
        return version

    def _file(self, resource: Resource, line: bytes) -> str | None:
        if not line.strip():
            return None
        event = msgspec.json.decode(line)
        change, document = event["type"], event["object"]
        if change == "ERROR":
            raise ApiError.from_status(document.get("code", 500), document)
        version = version_of(document)
        if change != "BOOKMARK":
            recording = self._recordings.get(document["metadata"]["namespace"])
            if recording is not None:
                seen = Observation(int(version), change, kind_name(resource), document)
                recording.add(seen)
        return version
