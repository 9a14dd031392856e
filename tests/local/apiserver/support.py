"""A running API server and a client that exposes everything of HTTP."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from traincrew.local.apiserver.http.faults import AuditRecord
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage

SECRET = "a-secret-for-tests-only"
AUTHORIZED = {"Authorization": f"Bearer {SECRET}"}
AUTHORIZATION = f"Authorization: Bearer {SECRET}\r\n"
"""The header line for requests that are written by hand."""
DEADLINE = 60.0

Document = dict[str, Any]

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Answer:
    code: int
    body: bytes
    headers: dict[str, str]
    warnings: list[str]

    @property
    def document(self) -> Document:
        document = json.loads(self.body)
        assert isinstance(document, dict)
        return document

    def ok(self, code: int | None = None) -> Document:
        """Return the document of a response that must be a success."""
        assert self.code < 300, self.body.decode()
        if code is not None:
            assert self.code == code, self.body.decode()
        return self.document

    def refused(self, code: int, reason: str = "", message: str | None = None) -> Document:
        """Return the Status of a response that must be an error."""
        document = self.document
        assert (self.code, document["kind"], document["code"]) == (code, "Status", code), document
        if reason:
            assert document["reason"] == reason, document
        if message is not None:
            assert document["message"] == message
        return document


class Watching:
    """An open watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self._lines = b""

    async def next(self, deadline: float = DEADLINE) -> Document:
        """Return the next event; fail if the stream ends first."""
        event = await self.next_or_end(deadline)
        assert event is not None, "the watch ended"
        return event

    async def next_or_end(self, deadline: float = DEADLINE) -> Document | None:
        async with asyncio.timeout(deadline):
            while b"\n" not in self._lines:
                chunk = await self.response.content.readany()
                if not chunk:
                    return None
                self._lines += chunk
        line, _, self._lines = self._lines.partition(b"\n")
        event: Document = json.loads(line)
        return event

    async def names(self, count: int) -> list[tuple[str, str]]:
        """Return the types and names of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    def close(self) -> None:
        self.response.close()


@dataclass
class Api:
    server: ApiServer
    storage: Storage
    session: aiohttp.ClientSession
    clock: Clock
    records: list[AuditRecord] = field(default_factory=list)

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
        **query: str,
    ) -> Answer:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        every = dict(headers or {})
        if data is not None:
            every.setdefault("Content-Type", content_type)
        stream = None if data is None else io.BytesIO(data)
        if data is not None:
            every["Content-Length"] = str(len(data))
        async with self.session.request(
            method, self.server.url + path, data=stream, headers=every, params=query
        ) as response:
            return Answer(
                response.status,
                await response.read(),
                dict(response.headers),
                response.headers.getall("Warning", []),
            )

    async def get(self, path: str, **options: Any) -> Answer:
        return await self.request("GET", path, **options)

    async def post(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.request("POST", path, body, **options)

    async def put(self, path: str, body: Any, **options: Any) -> Answer:
        return await self.request("PUT", path, body, **options)

    async def patch(self, path: str, body: Any, kind: str = MERGE, **options: Any) -> Answer:
        return await self.request("PATCH", path, body, content_type=kind, **options)

    async def delete(self, path: str, body: Any = None, **options: Any) -> Answer:
        return await self.request("DELETE", path, body, **options)

    @asynccontextmanager
    async def watch(
        self, path: str, *, headers: dict[str, str] | None = None, **query: str
    ) -> AsyncIterator[Watching]:
        response = await self.session.get(
            self.server.url + path, params={"watch": "true", **query}, headers=headers
        )
        assert response.status == 200, await response.text()
        try:
            yield Watching(response)
        finally:
            response.close()


@asynccontextmanager
async def running_server(
    path: Path | None = None, *, history: int = 20_000, **options: Any
) -> AsyncIterator[Api]:
    storage = Storage(path, history=history)
    clock = Clock()
    server = ApiServer(storage, secret=SECRET, clock=clock, **options)
    await server.start()
    async with aiohttp.ClientSession(headers=AUTHORIZED) as session:
        api = Api(server, storage, session, clock)
        server.audit = api.records.append
        try:
            yield api
        finally:
            await server.stop()
            storage.close()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """A fresh API server in memory and a thin HTTP client for it."""
    async with running_server() as client:
        yield client


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {"key": "value"},
    }


def pod(name: str, **spec: Any) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}], **spec},
    }


def definition(plural: str = "widgets", **spec: Any) -> Document:
    kind = plural.removesuffix("s").capitalize()
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "color": {"type": "string", "default": "red"},
                    "replicas": {"type": "integer", "default": 1},
                },
            },
            "status": {
                "type": "object",
                "properties": {
                    "replicas": {"type": "integer"},
                    "phase": {"type": "string"},
                    "selector": {"type": "string"},
                },
            },
        },
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {
                "plural": plural,
                "singular": kind.lower(),
                "kind": kind,
                "shortNames": [plural[:2]],
                "categories": ["all"],
            },
            "versions": [version],
            **spec,
        },
    }


def widget(name: str, size: int = 3, **spec: Any) -> Document:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": size, **spec},
    }


MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
