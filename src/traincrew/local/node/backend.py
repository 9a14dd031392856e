"""What the API server asks of the node: logs and commands of running containers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.streams import StreamRefusedError
from traincrew.local.node.commands import run_interactive
from traincrew.local.node.instances import Instance, instances_of
from traincrew.local.node.launcher import StartFailedError
from traincrew.local.node.logs import read_log

if TYPE_CHECKING:
    from traincrew.local.apiserver.streams import ExecStreams, LogOptions
    from traincrew.local.node.context import Paths
    from traincrew.local.node.launcher import ForkServer

__all__ = ["Backend"]

Document = Mapping[str, Any]


class Backend:
    """Logs and commands of this node's pods; see `apiserver.streams.NodeBackend`.

    Args:
        paths: Where containers are found.
        fork_server: Who starts commands.
    """

    def __init__(self, paths: Paths, fork_server: Callable[[], ForkServer]) -> None:
        self._paths = paths
        self._fork_server = fork_server

    async def logs(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        """The log of a container.

        Raises:
            StreamRefusedError: There is none.
        """
        name = pod["metadata"]["name"]
        known = self._instances(pod, container)
        if options.previous:
            known = known[:-1]
            if not known:
                raise StreamRefusedError(
                    f'previous terminated container "{container}" in pod "{name}" not found'
                )
        elif not known:
            raise StreamRefusedError(
                f'container "{container}" in pod "{name}" is waiting to start: '
                f"{_waiting_reason(pod, container)}"
            )
        instance = known[-1]

        def ended() -> bool:
            return instance.exit() is not None or not instance.is_alive()

        def now() -> datetime:
            return datetime.now(UTC)

        try:
            async for data in read_log(instance.log, options, ended, now):
                yield data
        except FileNotFoundError:
            return

    async def exec(
        self, pod: dict[str, Any], container: str, command: list[str], streams: ExecStreams
    ) -> int:
        """Run a command in a container; cancelling kills it.

        Raises:
            StreamRefusedError: The container does not run, or the command cannot be started.
        """
        known = self._instances(pod, container)
        if not known or not known[-1].is_alive():
            raise StreamRefusedError(
                f'container "{container}" in pod "{pod["metadata"]["name"]}" is not running'
            )
        try:
            return await run_interactive(self._fork_server(), known[-1], command, streams)
        except StartFailedError as error:
            raise StreamRefusedError(error.message) from error

    def _instances(self, pod: Document, container: str) -> list[Instance]:
        """Those that have begun."""
        directory = self._paths.containers(pod["metadata"]["uid"]) / container
        return [each for each in instances_of(directory) if each.log.exists()]


def _waiting_reason(pod: Document, container: str) -> str:
    status = pod.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses"):
        for each in status.get(kind) or ():
            if each.get("name") == container:
                waiting = (each.get("state") or {}).get("waiting") or {}
                return str(waiting.get("reason") or "ContainerCreating")
    return "ContainerCreating"
