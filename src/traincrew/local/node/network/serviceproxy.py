"""The proxy of ClusterIP Services: it listens on their loopback addresses and forwards to pods.

There is one server per address and port. Connections are distributed round robin over
the ready endpoints, or go to the client's previous one (`sessionAffinity`). A NodePort is also
served on 127.0.0.1; so are host ports of pods (`hostports.py`).

Every user of this machine can connect, so connections are limited in number, and each listener gets
half of them at most.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.engine.serving.limits import Limits
from traincrew.engine.serving.streams import StreamServer
from traincrew.local.node.machine.loopback import LOOPBACK
from traincrew.local.sockets import holder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from traincrew.engine.objects import AnyObject

__all__ = ["Backend", "Listener", "Served", "ServiceProxy", "listeners"]

_SERVICE_LABEL = "kubernetes.io/service-name"
_CHUNK = 262144
_CONNECT_SECONDS = 5.0
_AFFINITY_SECONDS = 10800
_MAX_CLIENTS = 4096
"""Clients of a listener whose last backend is remembered (`sessionAffinity`)."""

IDLE_SECONDS = 86400.0
"""A connection without data in either direction is closed after this; as kube-proxy does."""

_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0


LIMITS = Limits(
    "services",
    connections=1 << 18,
    share=1 / 4,
    descriptors=2,
    head=None,
    answer=_CONNECT_SECONDS,
    idle=IDLE_SECONDS,
    body=1 << 16,
)
"""Of all Services together, half of them for one port. `body` is what is buffered of a connection;
`answer` is the time for a pod to accept the connection."""


class Listener(NamedTuple):
    """An address and port to listen on."""

    address: str
    port: int


class Backend(NamedTuple):
    """An address and port of a pod."""

    address: str
    port: int


class Served(NamedTuple):
    """The backends of a listener, and its Service or pod.

    Attributes:
        backends: The ports of ready pods.
        namespace: Of the Service or pod.
        name: Of the Service or pod.
        affinity: Seconds for which connections of one client go to the same pod; 0 for none.
        kind: "Service", or "Pod" for a host port.
    """

    backends: tuple[Backend, ...]
    namespace: str
    name: str
    affinity: float = 0.0
    kind: str = "Service"


class _Choice(NamedTuple):
    """The last backend of a client, and its time (monotonic clock)."""

    backend: Backend
    at: float


def listeners(services: Iterable[AnyObject], slices: Iterable[AnyObject]) -> dict[Listener, Served]:
    """Return the listeners of the Services with their backends. Pure."""
    by_service: dict[tuple[str, str], list[AnyObject]] = {}
    for each in slices:
        name = each.metadata.labels.get(_SERVICE_LABEL, "")
        by_service.setdefault((each.metadata.namespace, name), []).append(each)
    wanted: dict[Listener, Served] = {}
    for service in services:
        address = service.spec.get("clusterIP") or ""
        if not address.startswith("127."):
            continue
        namespace, name = service.metadata.namespace, service.metadata.name
        for port in service.spec.get("ports") or ():
            if port.get("protocol", "TCP") != "TCP":
                continue
            backends = tuple(_backends(by_service.get((namespace, name), []), port))
            served = Served(backends, namespace, name, _affinity(service))
            wanted[Listener(address, port["port"])] = served
            if port.get("nodePort"):
                wanted[Listener(LOOPBACK, port["nodePort"])] = served
    return wanted


def _affinity(service: AnyObject) -> float:
    if service.spec.get("sessionAffinity") != "ClientIP":
        return 0.0
    config = (service.spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    return float(config.get("timeoutSeconds") or _AFFINITY_SECONDS)


def _backends(slices: Iterable[AnyObject], port: Mapping[str, Any]) -> Iterable[Backend]:
    seen = set()
    for each in slices:
        target = next(
            (
                declared.get("port")
                for declared in each.ports
                if (declared.get("name") or "") == (port.get("name") or "")
            ),
            None,
        )
        if target is None:
            continue
        for endpoint in each.endpoints:
            if not (endpoint.get("conditions") or {}).get("ready", True):
                continue
            for address in endpoint.get("addresses") or ():
                backend = Backend(address, int(target))
                if backend not in seen:
                    seen.add(backend)
                    yield backend


class ServiceProxy:
    """Serves all Services.

    Args:
        on_refused: (Service or pod, message): listening on an address has failed, or connections
            are refused.
    """

    def __init__(self, on_refused: Callable[[Served, str], None]) -> None:
        self._on_refused = on_refused
        self._wanted: dict[Listener, Served] = {}
        self._servers: dict[Listener, StreamServer] = {}
        self._refused: set[Listener] = set()
        self._next_index: dict[Listener, int] = {}
        self._choices: dict[Listener, dict[str, _Choice]] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._open: Counter[Listener] = Counter()
        self._crowded: set[Listener] = set()
        self._retry_seconds = _FIRST_RETRY_SECONDS
        self._lock = asyncio.Lock()
        self._closed = False

    async def serve(self, wanted: dict[Listener, Served]) -> None:
        """Listen on exactly these; open connections stay. Has no effect once closed."""
        async with self._lock:
            if self._closed:
                return
            self._wanted = wanted
            for listener in self._choices.keys() - {
                each for each, served in wanted.items() if served.affinity
            }:
                del self._choices[listener]
            for listener in self._servers.keys() - wanted.keys():
                self._servers.pop(listener).close()
            self._refused &= wanted.keys()
            for listener in wanted.keys() - self._servers.keys() - self._refused:
                await self._listen(listener)

    @property
    def retry_seconds(self) -> float | None:
        """Seconds after which to call `retry`; None if all addresses are served."""
        return self._retry_seconds if self._refused else None

    async def retry(self) -> None:
        """Try again to listen where it has failed; another program may have ended."""
        async with self._lock:
            if self._closed:
                return
            for listener in tuple(self._refused):
                await self._listen(listener)
            seconds = min(2 * self._retry_seconds, _LAST_RETRY_SECONDS)
            self._retry_seconds = seconds if self._refused else _FIRST_RETRY_SECONDS

    async def _listen(self, listener: Listener) -> None:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._is_full(listener):
                writer.transport.abort()
                return
            task = asyncio.create_task(self._forward(listener, reader, writer))
            self._connections.add(task)
            self._open[listener] += 1
            task.add_done_callback(lambda task: self._ended(listener, task))

        try:
            server = StreamServer(LIMITS, accept, strangers=False)
            server.listen(listener.address, listener.port)
            self._servers[listener] = server
            self._refused.discard(listener)
        except OSError as error:
            if listener in self._refused:
                return
            self._refused.add(listener)
            served = self._wanted[listener]
            reason = error.strerror or str(error)
            holder = ""
            if error.errno == errno.EADDRINUSE:
                holder = await asyncio.to_thread(holder_of, listener.port, listener.address)
            self._on_refused(
                served,
                f"{listener.address}:{listener.port} cannot be served on this machine: {reason}"
                + (f", by {holder}, which answers who connects there" if holder else "")
                + "; it is tried again until it can",
            )

    def _is_full(self, listener: Listener) -> bool:
        """Return whether a further connection is too many; say so once, until there is room."""
        most = LIMITS.most // 2
        if self._open[listener] < most and self._open.total() < LIMITS.most:
            return False
        if listener not in self._crowded and (served := self._wanted.get(listener)):
            self._crowded.add(listener)
            self._on_refused(
                served,
                f"{listener.address}:{listener.port} has {self._open[listener]} open connections, "
                "the most that are served on this machine; more are closed",
            )
        return True

    def _ended(self, listener: Listener, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._open[listener] -= 1
        if self._open[listener] <= LIMITS.most // 4:
            self._crowded.discard(listener)
        if not self._open[listener]:
            del self._open[listener]

    async def close(self) -> None:
        """Stop listening and close all connections."""
        async with self._lock:
            self._closed = True
            for server in self._servers.values():
                server.close()
            self._servers.clear()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _forward(
        self, listener: Listener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            client = str(writer.get_extra_info("peername", ("",))[0])
            onward = await self._connect(listener, client)
            if onward is None:
                writer.transport.abort()
                return
            back, forth = onward
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(IDLE_SECONDS) as idle, asyncio.TaskGroup() as group:
                        group.create_task(_copy(reader, forth, idle))
                        group.create_task(_copy(back, writer, idle))
            finally:
                forth.close()
        finally:
            writer.close()

    async def _connect(
        self, listener: Listener, client: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to the first pod that answers."""
        served = self._wanted.get(listener)
        if served is None:
            return None
        for backend in self._candidates(listener, served, client):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    found = await asyncio.open_connection(backend.address, backend.port)
                if served.affinity:
                    choices = self._choices.setdefault(listener, {})
                    choices.pop(client, None)
                    choices[client] = _Choice(backend, time.monotonic())
                    if len(choices) > _MAX_CLIENTS:
                        del choices[next(iter(choices))]
                return found
        return None

    def _candidates(self, listener: Listener, served: Served, client: str) -> list[Backend]:
        """Return the backends in the order to try: the client's last one, then round robin."""
        turn = self._next_index.get(listener, 0)
        self._next_index[listener] = turn + 1
        start = turn % max(len(served.backends), 1)
        candidates = [*served.backends[start:], *served.backends[:start]]
        choice = self._choices.get(listener, {}).get(client)
        if (
            choice is not None
            and choice.backend in candidates
            and time.monotonic() - choice.at < served.affinity
        ):
            candidates.remove(choice.backend)
            candidates.insert(0, choice.backend)
        return candidates


async def _copy(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, idle: asyncio.Timeout
) -> None:
    """Copy until end of file, then half-close the receiving connection."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            if not idle.expired():
                idle.reschedule(loop.time() + IDLE_SECONDS)
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
