"""A minimal client: aiohttp, prepared bytes, and none of an operator's logic."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import aiohttp
import msgspec
from msgspec import Struct, field
from yarl import URL

from traincrew.engine.config import load_config

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

JSON = "application/json"


T = TypeVar("T", bound="Watched")


class Metadata(Struct, rename="camel"):
    """The part of an object's metadata that the benchmark needs."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = field(default_factory=dict)


class Watched(Struct):
    """A watched object; each kind adds the fields it needs."""

    metadata: Metadata = field(default_factory=Metadata)


class _Event(Struct, Generic[T]):
    type: str
    object: T


class RefusedError(Exception):
    """The API server refused a request that it accepted in the recording."""


class BareClient:
    """Sends bytes and reads responses.

    Args:
        kubeconfig: Kubeconfig of the user.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._config = load_config(str(kubeconfig))
        self._tls = self._config.tls.context()
        self._headers: dict[str, str] = {}
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        authorization = await self._config.authorization()
        self._headers = {"Authorization": authorization} if authorization else {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls), read_bufsize=2**18
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(
        self, method: str, path: str, body: bytes = b"", content_type: str = JSON
    ) -> bytes:
        """Send a request and return the body of its response.

        Raises:
            RefusedError: The response is an error.
        """
        headers = {**self._headers, "Accept-Encoding": "identity"}
        if body:
            headers["Content-Type"] = content_type
        url = URL(self._config.server + path, encoded=True)
        async with self._session.request(method, url, data=body or None, headers=headers) as answer:
            data = await answer.read()
            if answer.status >= 300:
                raise RefusedError(f"{method} {path}: {answer.status} {data[:500]!r}")
            return data

    async def watch(
        self,
        path: str,
        kind: type[T],
        selector: str = "",
        listening: asyncio.Event | None = None,
    ) -> AsyncIterator[T]:
        """Yield objects of a watch from now on, until cancelled.

        The API server ends a watch whose reader is too slow, as happens on a machine under full
        load; the watch is then resumed.

        Args:
            path: Path of the collection.
            kind: Type to decode the objects into.
            selector: Further query parameters, beginning with ``&``.
            listening: Set once no change can be missed any more.

        Raises:
            RefusedError: The watch was refused, or could not be resumed.
        """
        timeout = aiohttp.ClientTimeout(total=None)
        decode: Callable[[bytes], _Event[T]]
        decode = msgspec.json.Decoder(_Event[kind]).decode  # type: ignore[valid-type]
        listed = json.loads(await self.send("GET", f"{path}?limit=1{selector}"))
        version = listed["metadata"]["resourceVersion"]
        while True:
            query = f"?watch=true&timeoutSeconds=3600&resourceVersion={version}{selector}"
            url = URL(self._config.server + path + query, encoded=True)
            async with self._session.get(url, headers=self._headers, timeout=timeout) as answer:
                if answer.status == 429:  # the storage of a new definition takes a moment
                    await asyncio.sleep(1)
                    continue
                if answer.status != 200:
                    raise RefusedError(f"watch {path}: {answer.status} {await answer.text()}")
                if listening is not None:
                    listening.set()
                rest = b""
                while chunk := await answer.content.readany():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = decode(line)
                        if event.type == "ERROR":
                            raise RefusedError(f"watch {path}: {line!r}")
                        version = event.object.metadata.resource_version
                        yield event.object
                    await asyncio.sleep(0)


def dump(document: dict[str, Any]) -> bytes:
    """Encode a document as compact JSON."""
    return json.dumps(document, separators=(",", ":")).encode()
