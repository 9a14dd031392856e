"""The two servers as a pair that gets the same requests."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import aiohttp

from local.apiserver.recordings import texts_of
from traincrew.engine.config import load_config
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage

from .requests import HUNG_UP, Answer, Document, Resource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

DEADLINE = 60.0
"""Seconds in which the real server has to serve a new definition."""


class Server:
    """One API server over HTTP."""

    def __init__(
        self,
        name: str,
        url: str,
        session: aiohttp.ClientSession,
        *,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.name = name
        self._url = url
        self._session = session
        self._headers = headers or {}
        self._options = options

    def acting_as(self, user: str) -> Server:
        """Return the same server, with requests on behalf of another user."""
        headers = self._headers | {"Impersonate-User": user}
        return Server(self.name, self._url, self._session, headers=headers, **self._options)

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "",
        *,
        accept: str = "",
    ) -> Answer:
        headers = self._headers
        if accept:
            headers = headers | {"Accept": accept}
        if content_type and body is not None:
            headers = headers | {"Content-Type": content_type}
        try:
            async with self._session.request(
                method, self._url + path, data=body, headers=headers, **self._options
            ) as response:
                warnings = tuple(texts_of(response.headers.getall("Warning", [])))
                return Answer(response.status, await response.text(), warnings)
        except aiohttp.ServerDisconnectedError:
            return Answer(HUNG_UP, "")


class Pair:
    """A real API server and the embedded one."""

    def __init__(self, real: Server, embedded: Server) -> None:
        self.real = real
        self.embedded = embedded

    async def create(self, resource: Resource, namespace: str, document: Document) -> None:
        """Create the same object in both, where it does not exist yet."""
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = json.dumps(head | document).encode()
        path = resource.path(namespace)
        for server in (self.real, self.embedded):
            answer = await server.send("POST", path, body, "application/json")
            assert answer.code in {201, 409}, f"{server.name}: {answer.text}"

    def acting_as(self, user: str) -> Pair:
        """Return the same servers, with requests on behalf of another user."""
        return Pair(self.real.acting_as(user), self.embedded.acting_as(user))

    async def offer(self, resource: Resource, document: Document) -> list[Answer]:
        """Create an object in both; return the responses of the real and the embedded one."""
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        body = json.dumps(head | document).encode()
        servers = (self.real, self.embedded)
        path = resource.path("")
        return [await each.send("POST", path, body, "application/json") for each in servers]

    async def serving(self, path: str) -> None:
        """Wait until both servers serve a path."""
        async with asyncio.timeout(DEADLINE):
            for server in (self.real, self.embedded):
                while (await server.send("GET", path)).code != 200:
                    await asyncio.sleep(0.05)


@asynccontextmanager
async def serve_pair(kubeconfig: Path) -> AsyncIterator[Pair]:
    """Yield the server of a kubeconfig and a new embedded one."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0), headers={"User-Agent": "differential"}
            )
        )
        config = load_config(str(kubeconfig))
        authorization = await config.authorization()
        real = Server(
            "real",
            config.server,
            session,
            headers={"Authorization": authorization} if authorization else None,
            **({"ssl": config.tls.context()} if config.server.startswith("https") else {}),
        )
        storage = Storage()
        stack.callback(storage.close)
        # The same range as the real one, so that requests can specify addresses.
        server = ApiServer(
            storage, secret="differential-suite", service_network=IPv4Network("10.0.0.0/16")
        )
        await server.start()
        stack.push_async_callback(server.stop)
        headers = {"Authorization": f"Bearer {server.token}"}
        yield Pair(real, Server("embedded", server.url, session, headers=headers))
