"""Removal of orphaned pods: kills their containers and deletes their files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from traincrew.engine.errors import ApiError
from traincrew.engine.observability import get_logger
from traincrew.engine.resources import PODS
from traincrew.local.directories import discard_tree
from traincrew.local.node.containers.bare import remove_links
from traincrew.local.node.machine.paths import Paths
from traincrew.local.node.runtime.instances import Instance, instances_of
from traincrew.local.node.runtime.written import WrittenFiles
from traincrew.local.node.volumes.shared_memory import claim_directory
from traincrew.local.node.waiting import in_thread

if TYPE_CHECKING:
    from collections.abc import Container
    from pathlib import Path

    from traincrew.engine.client import Client

__all__ = ["Cleanup", "end_pods"]

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
                instances = _instances(self._paths, directory.name)
                await _kill(instances, self._written, self._timeout)
                await in_thread(self._paths.remove_pod, directory.name)

    async def remove_everything(self) -> None:
        """Kill all pods at once and delete their files."""
        await _remove_everything(self._paths, self._written, self._timeout)

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


async def end_pods(state: Path) -> None:
    """Kill the pods of a node that no process runs, and delete their files.

    Nothing but the node's directory is needed: no API server, no port.

    Args:
        state: The node's directory; the caller holds the lock of the cluster.

    Raises:
        OSError: The directory cannot be used.
    """
    memory = claim_directory(state)
    try:
        await _remove_everything(Paths(state, memory.path), WrittenFiles(), _KILL_SECONDS)
    finally:
        memory.close()


async def _remove_everything(paths: Paths, written: WrittenFiles, seconds: float) -> None:
    if paths.pods.is_dir():
        uids = [directory.name for directory in paths.pods.iterdir()]
        await _kill([each for uid in uids for each in _instances(paths, uid)], written, seconds)
    for directory in (paths.pods, paths.hosts, paths.memory):
        await in_thread(discard_tree, directory)


def _instances(paths: Paths, uid: str) -> list[Instance]:
    containers = paths.containers(uid)
    if not containers.is_dir():
        return []
    return [each for name in containers.iterdir() for each in instances_of(name)]


async def _kill(instances: list[Instance], written: WrittenFiles, seconds: float) -> None:
    """Kill containers; after `seconds` their shims as well, which may still copy files."""
    for instance in instances:
        if instance.processes() is None:
            instance.abandon()
        instance.kill()
    ends = [asyncio.ensure_future(instance.wait()) for instance in instances]
    if ends:
        _, late = await asyncio.wait(ends, timeout=seconds)
        for instance in instances if late else ():
            instance.kill_shim()
        for end in late:
            end.cancel()
    for instance in instances:
        written.add(instance)
        try:
            remove_links(instance.launch().links)
        except OSError:
            continue
