"""Removal of orphaned pods: kills their containers and deletes their files."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from traincrew.engine.errors import ApiError
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import PODS
from traincrew.local.node.containers.bare import remove_links
from traincrew.local.node.runtime.instances import Instance, instances_of
from traincrew.local.node.waiting import in_thread

if TYPE_CHECKING:
    from collections.abc import Container

    from traincrew.engine.client import Client
    from traincrew.local.node.machine.paths import Paths
    from traincrew.local.node.runtime.written import WrittenFiles

__all__ = ["Cleanup"]

_KILL_SECONDS = 10.0
_COLLECT_SECONDS = 600.0
_RETRY_SECONDS = 1.0


class Cleanup:
    """Removes pods, as far as their directories on disk show them.

    Args:
        client: The API server.
        paths: Directories of the pods.
        written: Receives the instances that have ended.
        collecting: Whether files of containers are copied when they end, which takes longer.
    """

    def __init__(
        self, client: Client, paths: Paths, written: WrittenFiles, *, collecting: bool
    ) -> None:
        self._client = client
        self._paths = paths
        self._written = written
        self._timeout = _COLLECT_SECONDS if collecting else _KILL_SECONDS
        self._log = get_logger(component="node")

    async def remove_orphans(self, known: Container[str]) -> None:
        """Remove pods that were deleted while no node was running.

        Args:
            known: UIDs of the pods that the node runs; may change meanwhile.
        """
        unknown = [each for each in self._paths.pods.iterdir() if each.name not in known]
        if not unknown:
            return
        live = await self._live_pods()
        for directory in unknown:
            if directory.name not in live and directory.name not in known:
                await self._kill(self._instances(directory.name))
                await in_thread(self._paths.remove_pod, directory.name)

    async def remove_everything(self) -> None:
        """Kill all pods at once and delete their files."""
        if self._paths.pods.is_dir():
            uids = [directory.name for directory in self._paths.pods.iterdir()]
            await self._kill([each for uid in uids for each in self._instances(uid)])
        for directory in (self._paths.pods, self._paths.hosts, self._paths.memory):
            await in_thread(shutil.rmtree, directory, ignore_errors=True)

    async def _live_pods(self) -> set[str]:
        """Return the UIDs of all pods, listed from the API server and not from a cache."""
        while True:
            try:
                pods = await self._client.list(PODS)
            except ApiError as error:
                self._log.warning("pods not listed", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return {pod["metadata"]["uid"] for pod in pods["items"]}

    def _instances(self, uid: str) -> list[Instance]:
        containers = self._paths.containers(uid)
        if not containers.is_dir():
            return []
        return [each for name in containers.iterdir() for each in instances_of(name)]

    async def _kill(self, instances: list[Instance]) -> None:
        for instance in instances:
            if instance.processes() is None:
                instance.abandon()
            instance.kill()
        ends = [asyncio.ensure_future(instance.wait()) for instance in instances]
        if ends:
            _, late = await asyncio.wait(ends, timeout=self._timeout)
            for instance in instances if late else ():
                instance.kill_shim()
            for end in late:
                end.cancel()
        for instance in instances:
            self._written.add(instance)
            try:
                remove_links(instance.launch().links)
            except OSError:
                continue
