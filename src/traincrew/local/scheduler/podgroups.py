"""The PodGroups of the cluster: caches of both kinds, the pods of each group, and their status."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from traincrew.engine.cache import Informer
from traincrew.engine.errors import ApiError, NotFoundError
from traincrew.engine.objects import AnyObject, MetadataOnly
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS
from traincrew.local.controllers.common import format_time
from traincrew.local.controllers.informers import informer
from traincrew.local.scheduler import groups
from traincrew.local.scheduler.groups import COSCHEDULING, NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping

    from traincrew.engine.controller import Manager
    from traincrew.local.scheduler.groups import Group, GroupKey

FIELD_MANAGER = "kube-scheduler"
RETRY = 1.0
"""Seconds until the definition of coscheduling's PodGroup is asked for again after a failure."""
_DEFINITION = f"{COSCHEDULING.plural}.{COSCHEDULING.group}"


class PodGroups:
    """Finds the PodGroup of a pod.

    The label of the coscheduling plugin means nothing while the PodGroup that it names is not
    served, as on a cluster without the plugin.

    Args:
        manager: Runs the caches.
        changed: Called when a PodGroup, or a pod of a group, has changed.
    """

    def __init__(self, manager: Manager, changed: Callable[[], None]) -> None:
        self._manager, self._changed = manager, changed
        self.native = informer(manager, NATIVE)
        self.native.add_handler(lambda _old, _new: changed())
        self.definitions = manager.informer(
            CUSTOM_RESOURCE_DEFINITIONS, MetadataOnly, metadata_only=True
        )
        self.definitions.add_handler(self._definition_changed)
        self._served = False
        self._other: Informer[AnyObject] | None = None
        self._wake = asyncio.Event()
        self._members: dict[GroupKey, dict[str, AnyObject]] = {}
        manager.add_runnable(self._run)

    # -- coscheduling's PodGroup, which may come and go ---------------------------------------

    def _definition_changed(self, old: MetadataOnly | None, new: MetadataOnly | None) -> None:
        changed = new or old
        if changed is not None and changed.metadata.name == _DEFINITION:
            self._wake.set()

    async def _run(self) -> None:
        """Watch coscheduling's PodGroups while they are served."""
        task: asyncio.Task[None] | None = None
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                try:
                    await self._look()
                except ApiError:
                    await asyncio.sleep(RETRY)
                    self._wake.set()
                    continue
                if self._served and self._other is None:
                    self._other = Informer(
                        self._manager.client, COSCHEDULING, metrics=self._manager.metrics
                    )
                    self._other.add_handler(lambda _old, _new: self._changed())
                    task = asyncio.create_task(self._other.run(), name="informer-coscheduling")
                    await self._filled(self._other)
                elif not self._served and task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                    task = self._other = None
                self._changed()
        finally:
            self._other, self._served = None, False
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _filled(self, cache: Informer[AnyObject]) -> None:
        """Wait until a cache is filled, or the definition has changed again."""
        waits = [
            asyncio.create_task(cache.wait_synced()),
            asyncio.create_task(self._wake.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _look(self) -> bool:
        """Ask the API server whether it serves coscheduling's PodGroup, and return it.

        Raises:
            ApiError: It did not say.
        """
        try:
            found = await self._manager.client.get(CUSTOM_RESOURCE_DEFINITIONS, _DEFINITION)
        except NotFoundError:
            self._served = False
            return False
        self._served = served = any(
            version.get("name") == COSCHEDULING.version and bool(version.get("served"))
            for version in found.get("spec", {}).get("versions") or ()
        )
        return served

    async def look(self, pods: Iterable[AnyObject]) -> None:
        """Find out whether labels of pods mean a PodGroup, before they are scheduled without it.

        Raises:
            ApiError: The API server did not say.
        """
        if self._served:
            return
        keys = (groups.membership(pod) for pod in pods)
        labelled = any(key is not None and key.api == COSCHEDULING.group for key in keys)
        if labelled and await self._look():
            self._wake.set()

    # -- groups ------------------------------------------------------------------------------

    def pod_changed(self, old: AnyObject | None, new: AnyObject | None) -> bool:
        """Keep track of the pods of groups; return whether a pod of a group has changed."""
        pod = new or old
        key = groups.membership(pod) if pod is not None else None
        if pod is None or key is None:
            return False
        if new is not None:
            self._members.setdefault(key, {})[pod.metadata.uid] = pod
        elif key in self._members:
            self._members[key].pop(pod.metadata.uid, None)
            if not self._members[key]:
                del self._members[key]
        return True

    def is_unknown(self, pod: AnyObject) -> bool:
        """Return whether the PodGroups to which this pod may belong are not read yet."""
        key = groups.membership(pod)
        return (
            key is not None
            and key.api == COSCHEDULING.group
            and self._served
            and (self._other is None or not self._other.synced)
        )

    def of(self, pod: AnyObject) -> Group | None:
        """Return the group of a pod; None if it is in none."""
        key = groups.membership(pod)
        if key is None or (key.api == COSCHEDULING.group and not self._served):
            return None
        found = self._find(key)
        return groups.missing(key) if found is None else groups.read(key, found)

    def _find(self, key: GroupKey) -> AnyObject | None:
        cache = self.native if key.api == NATIVE.group else self._other
        return None if cache is None else cache.store.get(key.namespace, key.name)

    # -- status ------------------------------------------------------------------------------

    def status_writes(
        self, reasons: Mapping[GroupKey, str], standing: Callable[[GroupKey], int], now: float
    ) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield the writes of statuses that have changed.

        Args:
            reasons: Why groups are not scheduled.
            standing: Returns the number of pods of a group on nodes.
            now: Seconds since the epoch.
        """
        time = format_time(now)
        for key, members in self._members.items():
            found = self._find(key)
            if found is None:
                continue
            if key.api == COSCHEDULING.group:
                status = groups.coscheduling_status(found, members.values())
                if status is not None:
                    yield self._write(found, key, status)
                continue
            scheduled = standing(key) >= max(1, groups.read(key, found).minimum)
            if scheduled or key in reasons:
                reason = "" if scheduled else reasons[key]
                condition = groups.native_condition(found, reason, time)
                if condition is not None:
                    yield self._write(found, key, {"conditions": [condition]})

    async def _write(self, found: AnyObject, key: GroupKey, status: dict[str, Any]) -> None:
        native = key.api == NATIVE.group
        try:
            await self._manager.client.patch(
                NATIVE if native else COSCHEDULING,
                key.name,
                key.namespace,
                patch={"metadata": {"uid": found.metadata.uid}, "status": status},
                kind="strategic" if native else "merge",
                subresource="status",
                field_manager=FIELD_MANAGER,
            )
        except NotFoundError:
            return
