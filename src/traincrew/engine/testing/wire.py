"""The HTTP side of the fake server: paths, selectors, responses, streams."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from msgspec import Struct

from traincrew.engine.client import HttpResponse
from traincrew.engine.errors import UnreachableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

Key = tuple[str, str, str]
"""Collection without namespace, namespace, name."""


class Target(Struct):
    """The object or collection that a path names."""

    collection: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """The key of the object."""
        return self.collection, self.namespace, self.name


class FakeStream:
    """`HttpStream` fed by a list and then by a queue."""

    def __init__(
        self,
        status: int,
        headers: dict[str, str],
        chunks: list[bytes],
        queue: asyncio.Queue[bytes | Exception | None] | None = None,
        read_timeout: float | None = None,
    ) -> None:
        self.status = status
        self.headers = headers
        self._chunks = chunks
        self._queue = queue
        self._read_timeout = read_timeout

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as the test sends it."""
        for chunk in self._chunks:
            yield chunk
        while self._queue is not None:
            try:
                async with asyncio.timeout(self._read_timeout):
                    item = await self._queue.get()
            except TimeoutError as error:
                raise UnreachableError("no answer in time") from error
            if item is None:
                return
            if isinstance(item, Exception):
                raise UnreachableError(str(item)) from item
            yield item

    async def read(self) -> bytes:
        """Return the whole body of a response that is not a watch."""
        return b"".join(self._chunks)


def parse_path(path: str) -> Target:
    """Split a path into collection, namespace, name and subresource."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    prefix, rest = (parts[:2], parts[2:]) if parts[0] == "api" else (parts[:3], parts[3:])
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "", "")[:3]
    return Target("/" + "/".join([*prefix, plural]), namespace, name, subresource)


def covers(target: Target, key: Key) -> bool:
    """Return whether an object belongs to a collection."""
    return target.collection == key[0] and target.namespace in {"", key[1]}


def selector(query: dict[str, str]) -> Callable[[dict[str, Any]], bool]:
    """Return a predicate for equality selectors of labels, and of fields given as paths."""
    labels = [pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair]
    fields = [pair.split("=", 1) for pair in query.get("fieldSelector", "").split(",") if pair]

    def select(obj: dict[str, Any]) -> bool:
        present = obj["metadata"].get("labels") or {}
        return all(present.get(key) == value for key, value in labels) and all(
            _field(obj, path) == value for path, value in fields
        )

    return select


def _field(obj: Any, path: str) -> str:
    for part in path.split("."):
        obj = obj.get(part) if isinstance(obj, dict) else None
    return "" if obj is None else str(obj)


def event_line(kind: str, obj: dict[str, Any]) -> bytes:
    """Encode a watch event; like Go, it escapes only quotes and control characters."""
    return json.dumps({"type": kind, "object": obj}, ensure_ascii=False).encode() + b"\n"


def status(code: int, reason: str, message: str) -> dict[str, Any]:
    """Return a ``metav1.Status``."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }


def respond(code: int, obj: dict[str, Any]) -> HttpResponse:
    """Return a response with a JSON body."""
    return HttpResponse(code, {"content-type": "application/json"}, json.dumps(obj).encode())


def missing(target: Target) -> HttpResponse:
    """Return the response for an object that does not exist."""
    plural = target.collection.rpartition("/")[2]
    return respond(404, status(404, "NotFound", f'{plural} "{target.name}" not found'))
