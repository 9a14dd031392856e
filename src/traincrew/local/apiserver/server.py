"""The API server: one socket on the loopback interface in front of the verbs."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from typing import TYPE_CHECKING, Any

from aiohttp import web

from . import answers
from .addresses import DEFAULT_RANGE, Addresses
from .auth import Gate
from .builtins import builtin_resources
from .definitions import Definitions
from .dispatch import Dispatcher
from .errors import StatusError, internal
from .faults import AuditRecord
from .housekeeping import Housekeeping
from .kubeconfig import kubeconfig
from .own_service import announce
from .registry import Registry
from .requests import split_path
from .storage import StorageError
from .tokens import Tokens
from .verbs import Verbs
from .watch import WatchHub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from ipaddress import IPv4Network
    from ssl import SSLContext

    from .faults import Audit, Fault, FaultHook
    from .storage import Storage
    from .streams import NodeBackend

__all__ = ["ApiServer"]

_log = logging.getLogger(__name__)

# Upstream's limit, in bytes.
_LARGEST_BODY = 3 * 1024 * 1024

_ADDRESS = "127.0.0.1"

# For requests that are being served when the server stops.
_SHUTDOWN_SECONDS = 1.0


def _listen(port: int) -> socket.socket:
    return socket.create_server((_ADDRESS, port), backlog=1024)


def _make_request(
    message: Any, payload: Any, protocol: Any, writer: Any, task: Any
) -> web.BaseRequest:
    """A request whose body may be as large as upstream allows."""
    loop = asyncio.get_running_loop()
    return web.BaseRequest(
        message, payload, protocol, writer, task, loop, client_max_size=_LARGEST_BODY
    )


class ApiServer:
    """A Kubernetes-compatible API on 127.0.0.1.

    Args:
        storage: the cluster's state; the caller closes it after `stop`.
        secret: first part of every path, or bearer token; at least 16 characters.
        node: where logs and commands are; may be set later.
        clock: seconds since the epoch, for timestamps.
        service_network: loopback addresses Services get.
        hosts: further names clients may know the server by.

    Attributes:
        faults: decides what is to go wrong with each request, for tests of clients.
        audit: hears of every answered request.
        port: the server listens on, after `start`.
        secure_port: likewise, with TLS; 0 without.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        secret: str,
        node: NodeBackend | None = None,
        clock: Callable[[], float] = time.time,
        service_network: IPv4Network = DEFAULT_RANGE,
        hosts: Iterable[str] = (),
    ) -> None:
        self._secret = secret
        self._gate = Gate(secret, hosts=hosts)
        self._tokens = Tokens(secret, clock)
        self._storage = storage
        registry = Registry(builtin_resources())
        verbs = Verbs(storage, registry, Addresses(storage, service_network), clock)
        self._hub = WatchHub(storage)
        self._verbs = verbs
        self._definitions = Definitions(storage, registry, self._hub, verbs.deleter, clock)
        self._housekeeping = Housekeeping(verbs)
        self._dispatcher = Dispatcher(verbs, self._hub, self._definitions, self._tokens)
        self._dispatcher.node = node
        self._runner: web.ServerRunner | None = None
        self._busy: set[asyncio.Task[Any]] = set()
        self.port = self.secure_port = 0
        self.faults: FaultHook | None = None
        self.audit: Audit | None = None

    @property
    def node(self) -> NodeBackend | None:
        """Where logs and commands are."""
        return self._dispatcher.node

    @node.setter
    def node(self, node: NodeBackend | None) -> None:
        self._dispatcher.node = node

    @property
    def url(self) -> str:
        """Address of the API, the secret included: whoever knows it may do everything."""
        return f"http://{_ADDRESS}:{self.port}/{self._secret}"

    def kubeconfig(self, namespace: str = "default") -> dict[str, Any]:
        """A kubeconfig document for this server."""
        return kubeconfig(self.url, namespace=namespace)

    async def start(
        self, port: int = 0, *, tls: SSLContext | None = None, secure_port: int = 0
    ) -> None:
        """Listen; on return the API answers.

        Args:
            port: 0 picks a free one.
            tls: to listen with on a second port, for clients that insist on TLS.
            secure_port: which one; 0 picks a free one.

        Raises:
            OSError: a port is taken.
        """
        self._definitions.start()
        self._housekeeping.start()
        server = web.Server(
            self._handle,
            request_factory=_make_request,
            handler_cancellation=True,
            access_log=None,
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        listener = _listen(port)
        self.port = listener.getsockname()[1]
        secure = None if tls is None else _listen(secure_port)
        if secure is not None:
            self.secure_port = secure.getsockname()[1]
        announce(self._verbs, _ADDRESS, self.port, self.secure_port)
        await web.SockSite(self._runner, listener).start()
        if secure is not None:
            await web.SockSite(self._runner, secure, ssl_context=tls).start()

    async def stop(self) -> None:
        """Stop listening; watches, logs and commands end at once, writes are finished."""
        self._hub.close()
        self._definitions.stop()
        await self._housekeeping.stop()
        runner, self._runner = self._runner, None
        if runner is not None:
            await asyncio.sleep(0)
            for task in tuple(self._busy):
                task.cancel()
            await runner.cleanup()

    # -- one request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        segments, query = split_path(request.raw_path)
        try:
            inner = self._gate.admit(segments, request.headers, self._tokens)
        except StatusError as error:
            return answers.refusal(error)
        prefix = "" if inner is segments else "/" + request.raw_path.split("/", 2)[1]
        if self.faults is None and self.audit is None:
            return await self._answer(request, inner, query, prefix, None)
        return await self._watched(request, inner, query, prefix)

    async def _watched(
        self, request: web.BaseRequest, segments: list[str], query: str, prefix: str
    ) -> web.StreamResponse:
        path = "/" + "/".join(segments) + (f"?{query}" if query else "")
        agent = request.headers.get("User-Agent", "")
        fault = self.faults(request.method, path, agent) if self.faults is not None else None
        code = 0
        try:
            response = await self._answer(request, segments, query, prefix, fault)
            code = 0 if _is_cut(request) else response.status
        finally:
            if self.audit is not None:
                self.audit(AuditRecord(request.method, path, agent, code))
        return response

    async def _answer(
        self,
        request: web.BaseRequest,
        segments: list[str],
        query: str,
        prefix: str,
        fault: Fault | None,
    ) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        try:
            limit = None
            if fault is not None:
                await asyncio.sleep(fault.delay)
                if fault.error is not None:
                    return answers.refusal(fault.error)
                if fault.cut == "before":
                    return _cut(request)
                limit = fault.cut_after_bytes
            response = await self._dispatcher.respond(
                request, segments, query, prefix=prefix, stream_limit=limit
            )
            if fault is not None and fault.cut == "after":
                return _cut(request)
        except StatusError as error:
            return answers.refusal(error)
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {_LARGEST_BODY}"
            return answers.refusal(StatusError(413, "RequestEntityTooLarge", message))
        except StorageError as error:
            return answers.refusal(internal(str(error)))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception as error:  # noqa: BLE001 - the server outlives its own mistakes
            _log.exception("%s /%s", request.method, "/".join(segments))
            return answers.refusal(internal(f"{type(error).__name__}: {error}"))
        finally:
            self._busy.discard(task)
        return response


def _is_cut(request: web.BaseRequest) -> bool:
    return request.transport is None or request.transport.is_closing()


def _cut(request: web.BaseRequest) -> web.Response:
    """Close the connection; what is returned goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
