"""The kubelet's side of the API server's log, exec, attach and port-forward requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.http.node_backend import StreamRefusedError
from traincrew.local.node.machine.loopback import LOOPBACK
from traincrew.local.node.runtime.attaching import attach
from traincrew.local.node.runtime.commands import run_interactive
from traincrew.local.node.runtime.instances import Instance, instances_of
from traincrew.local.node.runtime.logs import read_log
from traincrew.local.node.runtime.processes import StartFailedError

if TYPE_CHECKING:
    from traincrew.local.apiserver.http.node_backend import ExecStreams, LogOptions, Usage
    from traincrew.local.node.machine.paths import Paths
    from traincrew.local.node.runtime.forkserver import ForkServer
    from traincrew.local.node.runtime.usage import UsageMeter

__all__ = ["Backend"]

Document = Mapping[str, Any]

_CONNECT_SECONDS = 5.0
_READ_AHEAD = 256 * 1024


def _reason(error: Exception | None) -> str:
    """Return why a connection failed, in Go's words."""
    if isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    return f"connect: {str(getattr(error, 'strerror', None) or error).lower()}"


class Backend:
    """Logs, commands and ports of this node's pods; see `apiserver.http.node_backend.NodeBackend`.

    Args:
        paths: Directories of the containers.
        fork_server: Returns the server that starts commands.
        meter: Measures running containers.
    """

    def __init__(
        self, paths: Paths, fork_server: Callable[[], ForkServer], meter: UsageMeter
    ) -> None:
        self._paths = paths
        self._meter = meter
        self._fork_server = fork_server

    async def logs(
        self, pod: dict[str, Any], container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        """Yield the log of a container.

        Raises:
            StreamRefusedError: The container has no log.
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
        """Run a command in a container; cancellation kills it.

        Raises:
            StreamRefusedError: The container is not running, or the command cannot be started.
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

    async def attach(self, pod: dict[str, Any], container: str, streams: ExecStreams) -> None:
        """Connect a client to the output and input of a container until either side ends.

        Raises:
            StreamRefusedError: The container is not running.
        """
        metadata = pod["metadata"]
        known = self._instances(pod, container)
        if not known or not known[-1].is_alive():
            raise StreamRefusedError(
                f"container {container} not found in pod {metadata['name']}_{metadata['namespace']}"
            )
        spec = pod["spec"]
        lists = ("containers", "initContainers", "ephemeralContainers")
        found = [each for kind in lists for each in spec.get(kind) or ()]
        wanted = next(each for each in found if each["name"] == container)
        ends_input = bool(wanted.get("stdinOnce")) and not wanted.get("tty")
        try:
            await attach(known[-1], streams, ends_input=ends_input)
        except OSError as error:
            raise StreamRefusedError(
                f"container {container} cannot be attached to: {error.strerror}"
            ) from error

    async def connect(
        self, pod: dict[str, Any], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to a port of a pod.

        A program that listens on localhost only is reached there, unless the ports of localhost
        are the pod's own.

        Raises:
            StreamRefusedError: The pod is not running, or nothing listens on the port.
        """
        status = pod.get("status") or {}
        address = status.get("podIP")
        if not address or status.get("phase") not in {"Pending", "Running"}:
            raise StreamRefusedError("sandbox container is not running")
        addresses = [address]
        if not self._has_own(pod, port):
            addresses.append(LOOPBACK)
        failure: Exception | None = None
        for candidate in dict.fromkeys(addresses):
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(candidate, port, limit=_READ_AHEAD)
            except OSError as error:
                failure = failure or error
        reason = "i/o timeout" if isinstance(failure, TimeoutError) else _reason(failure)
        raise StreamRefusedError(
            f"failed to connect to localhost:{port} inside namespace "
            f'"{pod["metadata"]["uid"]}", IPv4: dial tcp4 {address}:{port}: {reason}'
        ) from failure

    async def usage(self) -> Usage | None:
        """Return what running containers use; None where that cannot be measured."""
        return await self._meter.measure()

    def _has_own(self, pod: Document, port: int) -> bool:
        """Return whether a container of the pod has this localhost port to itself."""
        spec = pod["spec"]
        for container in (*spec["containers"], *(spec.get("initContainers") or ())):
            for instance in self._instances(pod, container["name"])[-1:]:
                own = instance.launch().own_ports
                if own is not None and (own.ports is None or port in own.ports):
                    return True
        return False

    def _instances(self, pod: Document, container: str) -> list[Instance]:
        """Return the instances of a container that have started."""
        directory = self._paths.containers(pod["metadata"]["uid"]) / container
        return [each for each in instances_of(directory) if each.log.exists()]


def _waiting_reason(pod: Document, container: str) -> str:
    status = pod.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for each in status.get(kind) or ():
            if each.get("name") == container:
                waiting = (each.get("state") or {}).get("waiting") or {}
                return str(waiting.get("reason") or "ContainerCreating")
    return "ContainerCreating"
