"""The cluster's DNS server: authoritative for the cluster's names, forwards other queries.

It listens on an address of the node's own network, on port 53 where this user may, else on a port
that the kernel chooses, to which pods' connections are redirected (`sandbox.ownports`). Queries for
other names are forwarded to the machine's servers, those of `/etc/resolv.conf`.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from typing import TYPE_CHECKING

from traincrew.engine.serving.limits import Limits
from traincrew.engine.serving.streams import Datagrams, StreamServer
from traincrew.local.node.network.messages import (
    Code,
    MalformedError,
    Query,
    Record,
    ask,
    is_truncated,
    parse,
    read_answers,
    refuse,
    respond,
)
from traincrew.local.node.network.zone import DOMAIN, Zone

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["DNS_PORT", "DnsServer"]

DNS_PORT = 53
# A server that did not answer so many queries in a row is left out for so many seconds: without a
# network, each name of another domain would take a timeout, and mpiexec looks up all its hosts.
_MAX_SILENT = 2
_LEFT_OUT_SECONDS = 5.0
# Seconds that a query about the cluster's names waits until they are known; less than the timeout
# of the C library's resolver.
_SYNC_SECONDS = 4.0
# External names that are aliases of others.
_MAX_ALIASES = 8
# For a message of a stream to arrive, and for its answer to be read.
_IDLE_SECONDS = 10.0
_MAX_MESSAGE_BYTES = 65535
LIMITS = Limits(
    "dns",
    connections=128,
    share=1 / 16,
    descriptors=2,  # the second one forwards the query
    head=None,
    answer=_IDLE_SECONDS,
    idle=_IDLE_SECONDS,
    body=_MAX_MESSAGE_BYTES,
)
DATAGRAM_LIMITS = Limits(
    "dns datagrams", connections=256, share=1 / 32, head=None, idle=0.0, body=_MAX_MESSAGE_BYTES
)
"""Of queries that are forwarded at the same time; more are refused."""
_FORWARD_SECONDS = 2.0
"""For one server of the machine to answer."""
# Attempts to find a port that is free for both TCP and UDP.
_PORT_ATTEMPTS = 10


class DnsServer:
    """Answers DNS queries over UDP and TCP.

    Args:
        address: Address to listen on.
        zone: Returns the cluster's current names; called for each query about one.
        upstream: Returns the addresses of the machine's DNS servers, in order of preference.
        synced: Waits until the zone is complete; None if it always is.
    """

    def __init__(
        self,
        address: str,
        zone: Callable[[], Zone],
        upstream: Callable[[], Sequence[str]],
        synced: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.address = address
        self.port = 0
        """Its port; 0 while it does not listen."""
        self._zone = zone
        self._upstream = upstream
        self._synced = synced
        self._datagrams: Datagrams | None = None
        self._server: StreamServer | None = None
        self._silent: dict[str, tuple[int, float]] = {}
        """By server: how many queries in a row it did not answer, and when the last one was."""
        self._streams: set[asyncio.Task[None]] = set()
        self._forwarding: set[asyncio.Task[None]] = set()

    async def start(self, *ports: int) -> None:
        """Listen on the first port that is available for both UDP and TCP.

        Args:
            ports: In order of preference; 0 lets the kernel choose.

        Raises:
            OSError: None of them is available.
        """
        failure = OSError("no port to listen on")
        for port in ports:
            for _ in range(1 if port else _PORT_ATTEMPTS):
                try:
                    await self._listen(port)
                except OSError as error:
                    failure = error
                    await self.close()
                else:
                    return
        raise failure

    async def _listen(self, port: int) -> None:
        self._server = StreamServer(LIMITS, self._accept)
        port = self._server.listen(self.address, port)
        self._datagrams = Datagrams(DATAGRAM_LIMITS, self._datagram)
        await self._datagrams.listen(self.address, port)
        self.port = port

    def redirects(self) -> dict[str, int]:
        """Return redirections of connections to port 53: "ADDRESS:PORT" -> port."""
        if self.port in {0, DNS_PORT}:
            return {}
        return {f"{self.address}:{DNS_PORT}": self.port}

    async def close(self) -> None:
        """Stop listening and cancel queries in progress."""
        self.port = 0
        if self._datagrams is not None:
            self._datagrams.close()
            self._datagrams = None
        if self._server is not None:
            self._server.close()
            self._server = None
        tasks = [*self._streams, *self._forwarding]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- queries ------------------------------------------------------------------------------

    def _datagram(self, message: bytes, client: tuple[str, int]) -> None:
        answer = self._answer(message, stream=False)
        if isinstance(answer, bytes):
            self._send(answer, client)
        elif answer is not None:
            query = answer

            async def forward() -> None:
                self._send(await self._resolve(message, query, stream=False), client)

            if len(self._forwarding) >= DATAGRAM_LIMITS.most:
                self._send(respond(query, code=Code.SERVER_FAILURE), client)
                return
            task = asyncio.create_task(forward())
            self._forwarding.add(task)
            task.add_done_callback(self._forwarding.discard)

    def _send(self, answer: bytes, client: tuple[str, int]) -> None:
        if self._datagrams is not None:
            self._datagrams.send(answer, client)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one TCP client: each message is preceded by its length."""
        try:
            while True:
                async with asyncio.timeout(_IDLE_SECONDS):
                    length = int.from_bytes(await reader.readexactly(2))
                    message = await reader.readexactly(length)
                answer = self._answer(message, stream=True)
                if answer is None:
                    return
                if not isinstance(answer, bytes):
                    answer = await self._resolve(message, answer, stream=True)
                async with asyncio.timeout(_IDLE_SECONDS):
                    writer.write(len(answer).to_bytes(2) + answer)
                    await writer.drain()
        except (OSError, EOFError, TimeoutError):
            return
        finally:
            writer.close()

    def _answer(self, message: bytes, *, stream: bool) -> bytes | Query | None:
        """Return the answer, the query if it takes time, or None to send no answer."""
        try:
            query = parse(message)
        except MalformedError as error:
            return None if error.code is None else refuse(message, error.code)
        if self._synced is not None or not Zone.is_authority_for(query.name):
            return query
        found = self._zone().find(query.name, query.kind)
        if found.alias:
            return query
        code = Code.NO_ERROR if found.exists else Code.NAME_ERROR
        return respond(query, found.records, code, authority=DOMAIN, stream=stream)

    async def _resolve(self, message: bytes, query: Query, *, stream: bool) -> bytes:
        """Answer a query that takes time: of another server's name, an alias, or an early one."""
        if not Zone.is_authority_for(query.name):
            return await self._forward(message, query, stream=stream)
        if self._synced is not None:
            try:
                async with asyncio.timeout(_SYNC_SECONDS):
                    await self._synced()
            except TimeoutError:
                return respond(query, code=Code.SERVER_FAILURE, stream=stream)
            self._synced = None
        code, records = await self._follow(query)
        return respond(query, records, code, authority=DOMAIN, stream=stream)

    async def _follow(self, query: Query) -> tuple[Code, list[Record]]:
        """Look up a name of the cluster, and what it is an alias of."""
        records: list[Record] = []
        name, owner = query.name, ""
        for _ in range(_MAX_ALIASES):
            if not Zone.is_authority_for(name):
                code, more = await self._ask(name, query.kind)
                return code, records + more
            found = self._zone().find(name, query.kind)
            records += [each._replace(owner=owner) for each in found.records]
            if not found.alias:
                return Code.NO_ERROR if found.exists else Code.NAME_ERROR, records
            name = owner = found.alias
        return Code.SERVER_FAILURE, []

    async def _ask(self, name: str, kind: int) -> tuple[Code, list[Record]]:
        """Look up a name of other servers."""
        message = ask(secrets.randbelow(1 << 16), name, kind)
        try:
            query = parse(message)
            answer = await self._forward(message, query, stream=False)
            if is_truncated(answer):
                answer = await self._forward(message, query, stream=True)
            return read_answers(answer)
        except MalformedError:
            return Code.SERVER_FAILURE, []

    # -- forwarding ---------------------------------------------------------------------

    async def _forward(self, message: bytes, query: Query, *, stream: bool) -> bytes:
        """Query the machine's servers one after the other; return the first answer unchanged."""
        now = asyncio.get_running_loop().time
        for server in self._upstream():
            count, last = self._silent.get(server, (0, 0.0))
            if count >= _MAX_SILENT and now() - last < _LEFT_OUT_SECONDS:
                continue
            try:
                async with asyncio.timeout(_FORWARD_SECONDS):
                    send = _ask_by_stream if stream else _ask_by_datagram
                    answer = await send(server, message)
            except (OSError, EOFError, TimeoutError):
                count, _ = self._silent.get(server, (0, 0.0))
                self._silent[server] = count + 1, now()
                continue
            self._silent.pop(server, None)
            # An answer repeats the number and the question of its query.
            if answer[:2] == message[:2] and query.question.lower() in answer.lower():
                return answer
        return respond(query, code=Code.SERVER_FAILURE, stream=stream)


async def _ask_by_datagram(server: str, message: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as connection:
        connection.setblocking(False)
        # A connected socket accepts answers from this server only and has a port of its own.
        connection.connect((server, DNS_PORT))
        await loop.sock_sendall(connection, message)
        return await loop.sock_recv(connection, _MAX_MESSAGE_BYTES)


async def _ask_by_stream(server: str, message: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(server, DNS_PORT)
    try:
        writer.write(len(message).to_bytes(2) + message)
        length = int.from_bytes(await reader.readexactly(2))
        return await reader.readexactly(length)
    finally:
        writer.close()
