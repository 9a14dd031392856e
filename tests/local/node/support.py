"""A node with a real API server in memory; all images are this machine's own tools."""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from inprocess import config_of
from traincrew.engine.client import Client
from traincrew.engine.errors import NotFoundError
from traincrew.engine.events import EventRecorder
from traincrew.engine.resources import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICE_ACCOUNTS,
)
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage
from traincrew.local.images import Environment, ImagePullError
from traincrew.local.images.pulls import Lookup
from traincrew.local.images.reference import parse_reference
from traincrew.local.images.sources import Choice
from traincrew.local.node import Node, NodeSpec, detect
from waiting import until_written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from traincrew.engine.resources import Resource
    from traincrew.local.images.pulls import PullRequest

Document = dict[str, Any]
Answer = TypeVar("Answer")
DEADLINE = 60.0

CAPABILITIES = detect()
"""What this machine can do; to find it out takes a tenth of a second."""
needs_own_proc = pytest.mark.skipif(
    not CAPABILITIES.own_proc, reason="the kernel refuses pods a /proc of their own: a container's?"
)


class AnyImage:
    """Maps every image to this machine's tools, except unknown names, and those in `named`."""

    def __init__(self) -> None:
        self.environment = Environment("host")
        self.named: dict[str, Environment] = {}
        self.pulled: list[str] = []
        self.requests: list[PullRequest] = []

    def look(self, image: str, _source: object = None) -> Lookup:
        present = image in self.pulled
        return Lookup(parse_reference(image), Choice.ENVIRONMENT, None, present)

    async def pull(
        self,
        image: str,
        progress: Callable[[str], None],
        request: PullRequest,
        _found: Lookup | None = None,
    ) -> Environment:
        self.requests.append(request)
        if image.startswith("unknown"):
            raise ImagePullError("ErrImagePull", f"no environment is defined for {image}")
        progress("collecting")
        self.pulled.append(image)
        return self.named.get(image, self.environment)


class World:
    """A node and its API server, with helpers for tests."""

    def __init__(self, server: ApiServer, client: Client, images: AnyImage, state: Path) -> None:
        self.server, self.client, self.images, self.state = server, client, images, state
        self.node: Node

    async def create(self, resource: Resource, obj: Document, **kwargs: Any) -> Document:
        document = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self.client.create(resource, document, "default", **kwargs)

    async def pod(self, spec: Document | str, name: str = "p", **metadata: Any) -> Document:
        """Create a bound pod; a string is a shell script for one container, never restarted."""
        if isinstance(spec, str):
            spec = {"containers": [shell("main", spec)], "restartPolicy": "Never"}
        spec = {"nodeName": "local", "terminationGracePeriodSeconds": 5, **spec}
        return await self.create(PODS, {"metadata": {"name": name, **metadata}, "spec": spec})

    async def claim(self, name: str, **spec: Any) -> Document:
        """Create a claim and bind it, as controllers would."""
        wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}
        claim = {"metadata": {"name": name}, "spec": wanted | spec}
        await self.create(PERSISTENT_VOLUME_CLAIMS, claim)
        patch = {"status": {"phase": "Bound"}}
        return await self.client.patch(
            PERSISTENT_VOLUME_CLAIMS, name, "default", patch=patch, subresource="status"
        )

    async def delete(self, name: str = "p") -> None:
        """Delete a pod, within its termination grace period."""
        await self.client.delete(PODS, name, "default")

    async def delete_claim(self, name: str) -> None:
        """Delete a claim that is not protected, or not any more."""
        patch = {"metadata": {"finalizers": None}}
        await self.client.patch(PERSISTENT_VOLUME_CLAIMS, name, "default", patch=patch)
        await self.client.delete(PERSISTENT_VOLUME_CLAIMS, name, "default")

    async def get(self, name: str = "p") -> Document | None:
        try:
            return await self.client.get(PODS, name, "default")
        except NotFoundError:
            return None

    async def status(self, name: str = "p") -> Document:
        return ((await self.get(name)) or {}).get("status") or {}

    async def until(
        self, condition: Callable[[], Awaitable[Answer | None]], what: str = ""
    ) -> Answer:
        """Wait until `condition` returns a true value, and return it."""
        deadline = time.monotonic() + DEADLINE
        while not (answer := await condition()):
            if time.monotonic() > deadline:
                pods = (await self.client.list(PODS))["items"]
                shown = {pod["metadata"]["name"]: pod.get("status") for pod in pods}
                raise AssertionError(f"not within {DEADLINE} s: {what or condition}; {shown}")
            await until_written(self.server._storage, at_most=0.05)
        return answer

    async def phase(self, *wanted: str, name: str = "p") -> Document:
        """Wait for a phase; return the status."""

        async def reached() -> Document | None:
            status = await self.status(name)
            return status if status.get("phase") in wanted else None

        return await self.until(reached, f"pod {name} {'/'.join(wanted)}")

    async def ready(self, name: str = "p") -> Document:
        async def reached() -> Document | None:
            status = await self.status(name)
            return status if condition(status, "Ready") == "True" else None

        return await self.until(reached, f"pod {name} ready")

    async def gone(self, name: str = "p") -> None:
        async def reached() -> bool:
            return await self.get(name) is None

        await self.until(reached, f"pod {name} gone")

    async def container(self, test: Callable[[Document], Any], pod: str = "p") -> Document:
        """Wait until the status of the first container passes a test."""

        async def reached() -> Document | None:
            statuses = (await self.status(pod)).get("containerStatuses") or [None]
            return statuses[0] if statuses[0] is not None and test(statuses[0]) else None

        return await self.until(reached, "container status")

    async def logs(self, name: str = "p", container: str | None = None, **kwargs: Any) -> str:
        chunks = self.client.logs(name, "default", container=container, **kwargs)
        return b"".join([chunk async for chunk in chunks]).decode()

    async def output(self, name: str = "p") -> str:
        """Wait until there is output, and return it: a container is ready before it writes."""

        async def written() -> str:
            return await self.logs(name)

        text: str = await self.until(written, f"output of pod {name}")
        return text

    async def result(self, script: Document | str, name: str = "p", **metadata: Any) -> str:
        """Return the output of a pod that has to succeed."""
        await self.pod(script, name, **metadata)
        status = await self.phase("Succeeded", "Failed", name=name)
        text = await self.logs(name)
        assert status["phase"] == "Succeeded", (text, status)
        return text

    async def event(self, reason: str, pod: str = "") -> Document:
        """Wait for an event, of this pod or of any."""

        async def reached() -> Document | None:
            events = (await self.client.list(EVENTS, "default"))["items"]
            fits = [event for event in events if event["reason"] == reason]
            named = [event for event in fits if pod in {"", event["involvedObject"]["name"]}]
            return named[0] if named else None

        return await self.until(reached, f"event {reason}")


def shell(name: str, script: str, **more: Any) -> Document:
    return {"name": name, "image": "any:1", "command": ["sh", "-c", script], **more}


def condition(status: Document, kind: str) -> str:
    for each in status.get("conditions") or ():
        if each["type"] == kind:
            return str(each["status"])
    return ""


@asynccontextmanager
async def control_plane(state: Path, storage: Storage | None = None) -> AsyncIterator[World]:
    """An API server without a node."""
    server = ApiServer(storage or Storage(None), secret="s" * 24)
    await server.start()
    try:
        async with Client(config_of(server)) as client:
            world = World(server, client, AnyImage(), state)
            # In a complete cluster a controller creates it. Pods here do not need its token.
            account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
            await world.create(SERVICE_ACCOUNTS, account)
            yield world
    finally:
        await server.stop()


@asynccontextmanager
async def running_node(world: World, *, kill: bool = True, **options: Any) -> AsyncIterator[Node]:
    """A node that runs pods."""
    events = EventRecorder(world.client, "traincrew-local")
    node = Node(
        world.client,
        world.images,  # type: ignore[arg-type]  # the part of it the node uses
        world.state,
        nodes=options.pop("nodes", (NodeSpec(name="local"),)),
        kubeconfig=world.server.kubeconfig,
        events=events,
        **options,
    )
    world.server.node = node.backend
    world.node = node
    await node.start()
    tasks = [asyncio.create_task(events.run()), asyncio.create_task(node.run())]
    try:
        yield node
    finally:
        await node.stop(kill)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def node_world(state: Path, **options: Any) -> AsyncIterator[World]:
    """An API server and a node."""
    async with control_plane(state) as world, running_node(world, **options):
        yield world
