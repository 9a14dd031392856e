"""The API server: serves the verbs on one port of the loopback interface."""
# Over 400 lines: the server's parts are built, started and ended in one place.

from __future__ import annotations

import asyncio
import socket
import time
from typing import TYPE_CHECKING, Any

from aiohttp import web

from traincrew.engine.serving.http import HttpServer
from traincrew.engine.serving.limits import Limits
from traincrew.engine.serving.serverlog import server_logger
from traincrew.local.apiserver.authorization import Authorizer, Policies
from traincrew.local.apiserver.kinds.builtin import builtin_resources
from traincrew.local.apiserver.kinds.core.addresses import DEFAULT_RANGE, Addresses
from traincrew.local.apiserver.reads.watch import WatchHub
from traincrew.local.apiserver.registry import Registry
from traincrew.local.apiserver.requests import split_path
from traincrew.local.apiserver.requests.user import ANONYMOUS
from traincrew.local.apiserver.storage import StorageError
from traincrew.local.apiserver.values.errors import StatusError, expired, internal
from traincrew.local.apiserver.writes.bootstrap import create_bootstrap_roles
from traincrew.local.apiserver.writes.definitions import Definitions
from traincrew.local.apiserver.writes.extension_authentication import (
    add_client_authority,
    publish_extension_authentication,
)
from traincrew.local.apiserver.writes.housekeeping import Housekeeping
from traincrew.local.apiserver.writes.own_service import publish_own_service
from traincrew.local.apiserver.writes.policystatus import PolicyStatus
from traincrew.local.apiserver.writes.snapshot import Snapshot
from traincrew.local.apiserver.writes.verbs import Verbs
from traincrew.local.authority import accept_clients

from . import answers
from .auth import Authenticator
from .bodies import MAX_BODY_BYTES, as_text, too_large
from .certificates import user_of
from .dispatch import Dispatcher
from .documents.metrics import RequestMetrics
from .faults import AuditRecord
from .kubeconfig import kubeconfig
from .listening import listen
from .tokens import Tokens
from .users import Users

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable
    from ipaddress import IPv4Network
    from pathlib import Path

    from traincrew.local.apiserver.storage import Storage
    from traincrew.local.apiserver.values.documents import Document
    from traincrew.local.authority import Certificate

    from .faults import Audit, Fault, FaultHook
    from .node_backend import NodeBackend

__all__ = ["ApiServer"]

LIMITS = Limits(
    "apiserver",
    connections=256,
    share=1 / 4,
    least=1.0,
    answer=None,
    idle=180.0,
    body=MAX_BODY_BYTES,
)
"""Of clients without a valid token. `idle` is that of all clients, and includes the headers of the
next request: Go clients keep idle connections for 90 seconds, the operator for 50."""

_log = server_logger("apiserver.errors")

_ADDRESS = "127.0.0.1"

# For running requests to finish when the server stops.
_SHUTDOWN_SECONDS = 1.0

# How long a rejected body is still read and dropped, for clients that send it before they read.
_LINGERING_SECONDS = 2.0


class ApiServer:
    """A Kubernetes-compatible API on 127.0.0.1.

    Args:
        storage: the cluster's state; the caller closes it after `stop`.
        secret: the bearer token of the administrator; at least 16 characters.
        node: serves logs and commands; may be set later.
        clock: returns seconds since the epoch, for timestamps.
        service_network: range of cluster IPs; loopback addresses.
        hosts: additional host names of the server.
        anonymous: whether requests without credentials are those of ``system:anonymous``, who may
            do what Roles grant; else they get 401.
        service_accounts: whether pods get an account, which has to exist, and its token.

    Attributes:
        faults: chooses a fault to inject into each request, for tests of clients.
        audit: called with every finished request.
        port: port of the server, after `start`.
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
        anonymous: bool = False,
        service_accounts: bool = True,
    ) -> None:
        self._secret = secret
        tokens = Tokens(secret, clock)
        users = Users(secret, tokens, storage)
        self._authenticator = Authenticator(users, hosts=hosts, anonymous=anonymous)
        self._storage = storage
        resources = builtin_resources()
        self._measured = [each for each in resources if each.measures]
        registry = Registry(resources)
        addresses = Addresses(storage, service_network)
        verbs = Verbs(storage, registry, addresses, clock, service_accounts=service_accounts)
        self._hub = WatchHub(storage)
        self._verbs = verbs
        self._definitions = Definitions(storage, registry, self._hub, verbs.deleter, clock)
        self._policy_status = PolicyStatus(storage, registry)
        self._housekeeping = Housekeeping(verbs)
        self._policies = Policies(storage)
        authorizer = Authorizer(self._policies)
        self._metrics = RequestMetrics(storage, registry)
        self._dispatcher = Dispatcher(
            verbs,
            self._hub,
            self._definitions,
            tokens,
            users=users,
            authorizer=authorizer,
            metrics=self._metrics,
        )
        self.node = node
        self._connections: HttpServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._authority = ""
        self._tls: ssl.SSLContext | None = None
        self._client_authority = ""
        self._has_client_certificates = False
        self._active_requests: set[asyncio.Task[Any]] = set()
        self.port = 0
        self.faults: FaultHook | None = None
        self.audit: Audit | None = None

    @property
    def node(self) -> NodeBackend | None:
        """The node backend, which serves logs and commands."""
        return self._dispatcher.responder.node

    @node.setter
    def node(self, node: NodeBackend | None) -> None:
        self._dispatcher.responder.node = node
        self._serve_measured()

    def _serve_measured(self) -> None:
        """Serve what the node measures while there is one; upstream: with metrics-server."""
        node = self._dispatcher.responder.node
        for each in self._measured:
            versions = [] if node is None else [each]
            self._verbs.registry.replace_group_resource(each.group, each.plural, versions)

    @property
    def url(self) -> str:
        """The URL of the API."""
        scheme = "https" if self._authority else "http"
        return f"{scheme}://{_ADDRESS}:{self.port}"

    @property
    def token(self) -> str:
        """The bearer token of the administrator."""
        return self._secret

    @property
    def authority(self) -> str:
        """The certificate of the CA that clients have to trust (PEM); empty without TLS."""
        return self._authority

    def kubeconfig(self, namespace: str = "default") -> dict[str, Any]:
        """Return a kubeconfig document for this server."""
        return kubeconfig(
            self.url, token=self._secret, authority=self._authority, namespace=namespace
        )

    async def start(
        self,
        port: int = 0,
        *,
        certificate: Certificate | None = None,
        client_authority: Path | None = None,
    ) -> None:
        """Start serving; on return the API is available.

        Args:
            port: 0 chooses a free one.
            certificate: serving certificate for HTTPS; without one the server uses plain HTTP, for
                tests only: any program that has taken the port could read a token sent over HTTP.
            client_authority: file with the CAs of client certificates (PEM), whose common name is
                the user and whose organizations are the groups; without it none is asked for.

        Raises:
            PortInUseError: another program listens on the port.
            OSError: the certificate cannot be used, or the port cannot be listened on.
        """
        tls = None if certificate is None else certificate.context(client_authority)
        self._tls = tls
        self._has_client_certificates = tls is not None and client_authority is not None
        if client_authority is not None:
            self._client_authority = await asyncio.to_thread(client_authority.read_text, "ascii")
        listener = listen(_ADDRESS, port)
        self._definitions.start()
        self._policy_status.start()
        self._policies.start()
        self.port = listener.getsockname()[1]
        is_new = self._storage.revision == 0
        self._authority = "" if certificate is None else certificate.authority
        self._create_own_objects(tls=tls is not None)
        self._housekeeping.start()
        self._own = Snapshot(self._storage, empty=not is_new)
        self._loop = asyncio.get_running_loop()
        self._connections = HttpServer(
            LIMITS,
            self._handle,
            handler_cancellation=True,
            lingering_time=_LINGERING_SECONDS,
            max_line_size=64 * 1024,
            max_field_size=64 * 1024,
        )
        self._connections.listen_on(listener, tls)

    def _create_own_objects(self, *, tls: bool) -> None:
        """Create what every server has, as far as it is missing."""
        create_bootstrap_roles(self._verbs)
        self._housekeeping.create_namespaces()
        publish_own_service(self._verbs, _ADDRESS, self.port, tls=tls)
        publish_extension_authentication(self._verbs, self._authority, self._client_authority)

    def accept_clients(self, authority: Path) -> None:
        """Accept client certificates of further CAs, from the next connection on.

        Args:
            authority: file with the CAs (PEM); one that is accepted already has no effect.

        Raises:
            OSError: the file cannot be read or is invalid.
        """
        text = authority.read_text("ascii")
        if text in self._client_authority:
            return
        if self._tls is not None:
            accept_clients(self._tls, authority)
            self._has_client_certificates = True
        self._client_authority += text
        add_client_authority(self._verbs, text)

    # -- for tests of clients

    def reset(self) -> None:
        """Delete all objects, whatever their finalizers; what a new server has is as it was then.

        Watches report that, and go on. Controllers create again what they are for.
        """
        self._own.restore(self._storage)
        self._create_own_objects(tls=bool(self._authority))
        self._storage.flush()

    def remove_expired(self) -> None:
        """Delete the Events that have expired by the server's clock, without waiting."""
        self._housekeeping.remove_expired_events()

    def expire_watches(self, resource: str | None = None) -> int:
        """End watches as if their revision were too old: clients have to list again.

        Args:
            resource: plural name, or with its group, as in ``deployments.apps``; None for all.

        Returns:
            The number of watches.
        """
        error = expired("The resourceVersion for the provided watch is too old.")
        found = [
            watch
            for watch, identifier in self._hub.running().items()
            if resource in {None, identifier, identifier.partition(".")[0]}
        ]
        for watch in found:
            watch.fail(error)
        return len(found)

    def connect(self) -> socket.socket:
        """Open a connection within this process, without the network; callable from any thread.

        It uses plain HTTP: no other process can read or answer it.

        Raises:
            ConnectionRefusedError: the server is not running.
        """
        connections, loop = self._connections, self._loop
        if connections is None or loop is None:
            raise ConnectionRefusedError("the API server is not running")
        theirs, ours = socket.socketpair()
        theirs.setblocking(False)
        ours.setblocking(False)
        try:
            loop.call_soon_threadsafe(connections.serve, theirs)
        except RuntimeError:  # the loop is closed
            theirs.close()
            ours.close()
            raise ConnectionRefusedError("the API server is not running") from None
        return ours

    async def stop(self) -> None:
        """Stop serving; watches, logs and commands end at once, writes are completed."""
        self._hub.close()
        self._definitions.stop()
        self._policy_status.stop()
        self._policies.stop()
        await self._housekeeping.stop()
        connections, self._connections = self._connections, None
        if connections is not None:
            await asyncio.sleep(0)
            for task in tuple(self._active_requests):
                task.cancel()
            await connections.close(_SHUTDOWN_SECONDS)

    # -- requests

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        segments, query = split_path(as_text(request.raw_path))
        certified = user_of(request.transport) if self._has_client_certificates else None
        try:
            user = self._authenticator.authenticate(request.method, request.headers, certified)
        except StatusError as error:
            return answers.failure(error)
        if self._connections is not None and user is not ANONYMOUS:
            self._connections.mark_authenticated(request)
        started, code = time.perf_counter(), 0
        try:
            if self.faults is None and self.audit is None:
                response = await self._answer(request, user, segments, query, None)
            else:
                response = await self._answer_audited(request, user, segments, query)
            code = 0 if _is_cut(request) else response.status
        finally:
            seconds = time.perf_counter() - started
            self._metrics.observe(request.method, segments, query, code=code, seconds=seconds)
        return response

    async def _answer_audited(
        self, request: web.BaseRequest, user: Document, segments: list[str], query: str
    ) -> web.StreamResponse:
        path = "/" + "/".join(segments) + (f"?{query}" if query else "")
        agent = as_text(request.headers.get("User-Agent", ""))
        fault = self.faults(request.method, path, agent) if self.faults is not None else None
        code, answer = 0, b""
        try:
            response = await self._answer(request, user, segments, query, fault)
            code = 0 if _is_cut(request) else response.status
            if request.method not in {"GET", "HEAD"} and code in {200, 201, 202}:
                answer = _body(response)
        finally:
            if self.audit is not None:
                name = user.get("username", "")
                self.audit(AuditRecord(request.method, path, agent, code, name, answer))
        return response

    async def _answer(
        self,
        request: web.BaseRequest,
        user: Document,
        segments: list[str],
        query: str,
        fault: Fault | None,
    ) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._active_requests.add(task)
        try:
            limit = None
            if fault is not None:
                await asyncio.sleep(fault.delay)
                if fault.error is not None:
                    return answers.failure(fault.error)
                if fault.cut == "before":
                    return _cut(request)
                limit = fault.cut_after_bytes
            response = await self._dispatcher.respond(
                request, user, segments, query, stream_limit=limit
            )
            if fault is not None and fault.cut == "after":
                return _cut(request)
        except StatusError as error:
            return answers.failure(error)
        except web.HTTPRequestEntityTooLarge:
            return answers.failure(too_large())
        except StorageError as error:
            return answers.failure(internal(str(error)))
        except asyncio.CancelledError:
            raise
        except ConnectionError:
            return _cut(request)  # the client has disconnected
        except Exception as error:  # noqa: BLE001 - a bug in one request must not stop the server
            _log.exception("%s /%s", request.method, "/".join(segments))
            return answers.failure(internal(f"{type(error).__name__}: {error}"))
        finally:
            self._active_requests.discard(task)
        return response


def _body(response: web.StreamResponse) -> bytes:
    body = response.body if isinstance(response, web.Response) else None
    return bytes(body) if isinstance(body, bytes | bytearray) else b""


def _is_cut(request: web.BaseRequest) -> bool:
    return request.transport is None or request.transport.is_closing()


def _cut(request: web.BaseRequest) -> web.Response:
    """Close the connection; the returned response is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
