"""A control plane without pods that run: the real API server in memory, controllers, a kubelet
that only writes what a kubelet would write."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from inprocess import config_of
from traincrew.engine.client import Client
from traincrew.engine.controller import Manager
from traincrew.engine.errors import ApiError, NotFoundError
from traincrew.engine.events import EventRecorder
from traincrew.engine.resources import EVENTS, NODES, PODS
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage
from traincrew.local.controllers import add_controllers
from traincrew.local.scheduler import add_scheduler
from waiting import until_written

if TYPE_CHECKING:
    import builtins
    from collections.abc import AsyncIterator, Awaitable, Callable

    from traincrew.engine.objects import AnyObject
    from traincrew.engine.resources import Resource

DEADLINE = 60.0
Document = dict[str, Any]
Answer = TypeVar("Answer")


def timestamp(offset: float = 0.0) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + offset))


class World:
    """The control plane as tests use it."""

    def __init__(self, server: ApiServer, client: Client, control: Control) -> None:
        self.server, self.client, self.control = server, client, control
        self.recorder: EventRecorder
        self.kubelet: FakeKubelet | None = None

    async def start(self) -> None:
        """Start controllers and scheduler."""
        self.recorder = await self.control.start()

    async def restart(self) -> None:
        """Kill controllers and scheduler, and restart them."""
        await self.control.kill()
        await self.start()

    async def create(
        self, resource: Resource, obj: Document, namespace: str = "default"
    ) -> Document:
        document = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return await self.client.create(resource, document, namespace)

    async def get(
        self, resource: Resource, name: str, namespace: str = "default"
    ) -> Document | None:
        try:
            return await self.client.get(resource, name, namespace)
        except NotFoundError:
            return None

    async def list(self, resource: Resource, namespace: str = "default") -> builtins.list[Document]:
        items: builtins.list[Document] = (await self.client.list(resource, namespace))["items"]
        return items

    async def pods(self, namespace: str = "default", **labels: str) -> builtins.list[Document]:
        found = [
            pod
            for pod in await self.list(PODS, namespace)
            if labels.items() <= (pod["metadata"].get("labels") or {}).items()
        ]
        return sorted(found, key=lambda pod: pod["metadata"]["name"])

    async def until(
        self, condition: Callable[[], Awaitable[Answer | None]], what: str = ""
    ) -> Answer:
        """Wait until `condition` returns something true, and return that."""
        deadline = time.monotonic() + DEADLINE
        while not (answer := await condition()):
            if time.monotonic() > deadline:
                pods = {
                    pod["metadata"]["name"]: pod.get("status", {}).get("phase")
                    for pod in (await self.client.list(PODS))["items"][:20]
                }
                raise AssertionError(f"not within {DEADLINE} s: {what or condition}; {pods}")
            await until_written(self.server._storage, at_most=0.05)
        return answer

    async def until_gone(self, resource: Resource, name: str, namespace: str = "default") -> None:
        async def gone() -> bool:
            return await self.get(resource, name, namespace) is None

        await self.until(gone, f"{resource.plural}/{name} gone")

    async def until_pods(
        self, number: int, phase: str = "Running", **labels: str
    ) -> builtins.list[Document]:
        async def enough() -> builtins.list[Document] | None:
            pods = await self.pods(**labels)
            matching = [pod for pod in pods if pod["status"]["phase"] == phase]
            return (pods or [{}]) if len(matching) == len(pods) == number else None

        await self.until(enough, f"{number} pods {phase}")
        return await self.pods(**labels)

    async def until_status(
        self, resource: Resource, name: str, namespace: str = "default", **fields: Any
    ) -> Document:
        async def matching() -> Document | None:
            obj = await self.get(resource, name, namespace)
            status = (obj or {}).get("status") or {}
            return obj if all(status.get(key) == value for key, value in fields.items()) else None

        return await self.until(matching, f"{resource.plural}/{name} {fields}")

    async def until_condition(self, resource: Resource, name: str, kind: str) -> Document:
        async def matching() -> Document | None:
            obj = await self.get(resource, name) or {}
            conditions: builtins.list[Document] = obj.get("status", {}).get("conditions") or []
            for condition in conditions:
                if condition["type"] == kind and condition["status"] == "True":
                    return condition
            return None

        return await self.until(matching, f"{resource.plural}/{name} is {kind}")

    async def status(self, pod: Document, status: Document) -> Document:
        """Write a pod's status as the kubelet would."""
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        return await self.client.patch(
            PODS, name, namespace, patch={"status": status}, kind="strategic", subresource="status"
        )

    async def finish(self, pod: Document, code: int = 0) -> None:
        """Terminate its containers with this exit code."""
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {
                    "terminated": {
                        "exitCode": code,
                        "reason": "Error" if code else "Completed",
                        "startedAt": timestamp(),
                        "finishedAt": timestamp(),
                    }
                },
            }
            for container in pod["spec"]["containers"]
        ]
        ready = {"type": "Ready", "status": "False", "lastTransitionTime": timestamp()}
        await self.status(
            pod,
            {
                "phase": "Failed" if code else "Succeeded",
                "containerStatuses": containers,
                "conditions": [ready],
            },
        )

    async def events(self, name: str, namespace: str = "default") -> builtins.list[tuple[str, str]]:
        """Return (reason, message) of the events of an object, in order."""
        await self.recorder.flush()
        found = [
            event
            for event in await self.list(EVENTS, namespace)
            if event["involvedObject"]["name"] == name
        ]
        found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [(event["reason"], event["message"]) for event in found]


class FakeKubelet:
    """Runs nothing: bound pods become Running and Ready, terminating ones are removed."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._tasks: set[asyncio.Task[None]] = set()
        self._started: set[str] = set()
        self.starts = True
        self.ends = True
        manager.informer(PODS).add_handler(self._changed)

    def _changed(self, _: AnyObject | None, pod: AnyObject | None) -> None:
        if pod is None:
            return
        if pod.metadata.deletion_timestamp is not None:
            if self.ends and pod.metadata.deletion_grace_period_seconds:
                self._do(self._remove(pod))
        elif self.starts and pod.spec.get("nodeName") and pod.metadata.uid not in self._started:
            self._started.add(pod.metadata.uid)
            self._do(self._start(pod, len(self._started)))

    def _do(self, action: Any) -> None:
        task = asyncio.ensure_future(self._quietly(action))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _quietly(self, action: Awaitable[Any]) -> None:
        try:
            await action
        except ApiError as error:
            if error.code not in {404, 409}:
                raise

    async def _start(self, pod: AnyObject, number: int) -> None:
        status = {
            "phase": "Running",
            "podIP": f"127.0.{number // 250}.{number % 250 + 1}",
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": timestamp()}
                for kind in ("Initialized", "Ready", "ContainersReady")
            ],
        }
        await self._client.patch(
            PODS,
            pod.metadata.name,
            pod.metadata.namespace,
            patch={"metadata": {"uid": pod.metadata.uid}, "status": status},
            kind="strategic",
            subresource="status",
        )

    async def _remove(self, pod: AnyObject) -> None:
        await self._client.delete(
            PODS,
            pod.metadata.name,
            pod.metadata.namespace,
            propagation=None,
            uid=pod.metadata.uid,
            grace_period=0,
        )

    async def stop(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def node(name: str = "local", **more: Any) -> Document:
    allocatable = {"cpu": "8", "memory": "16Gi", "pods": "110"} | more.pop("allocatable", {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name} | more.pop("labels", {}),
        },
        "spec": more.pop("spec", {}),
        "status": {
            "allocatable": allocatable,
            "capacity": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


class Control:
    """Controllers and scheduler with a client of their own; can be killed and restarted."""

    def __init__(self, server: ApiServer, *, controllers: bool) -> None:
        self._server, self._controllers = server, controllers
        self._stack = AsyncExitStack()

    async def start(self) -> EventRecorder:
        config = config_of(self._server)
        client = await self._stack.enter_async_context(Client(config, user_agent="control"))
        events = EventRecorder(client, "test")
        manager = Manager(client)
        if self._controllers:
            add_controllers(manager, events)
        add_scheduler(manager, events)
        manager.add_runnable(events.run)
        await self._stack.enter_async_context(running(manager))
        return events

    async def kill(self) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[None]:
    """Run a manager; if it ends early, the test ends."""
    task = asyncio.create_task(manager.run())
    ready = asyncio.ensure_future(manager.wait_synced())
    try:
        await asyncio.wait({ready, task}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield
    finally:
        for waiting in (ready, task):
            waiting.cancel()
        await asyncio.gather(ready, task, return_exceptions=True)


@asynccontextmanager
async def control_plane(
    *, nodes: tuple[Document, ...] | None = None, controllers: bool = True, kubelet: bool = True
) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        storage = Storage(None)
        stack.callback(storage.close)
        server = ApiServer(storage, secret="0123456789abcdef0123")
        await server.start()
        stack.push_async_callback(server.stop)
        config = config_of(server)
        client = await stack.enter_async_context(Client(config, user_agent="test"))
        for document in (node(),) if nodes is None else nodes:
            await add_node(client, document)
        world = World(server, client, Control(server, controllers=controllers))
        if kubelet:
            manager = Manager(client)
            world.kubelet = FakeKubelet(manager)
            stack.push_async_callback(world.kubelet.stop)
            await stack.enter_async_context(running(manager))
        stack.push_async_callback(world.control.kill)
        await world.start()
        yield world


async def add_node(client: Client, document: Document) -> None:
    created = await client.create(NODES, document)
    if not created.get("status", {}).get("allocatable"):
        name = document["metadata"]["name"]
        await client.patch(NODES, name, patch={"status": document["status"]}, subresource="status")


def template(restart: str = "Always", **spec: Any) -> Document:
    labels = spec.pop("labels", {"app": "a"})
    containers = spec.pop("containers", [{"name": "main", "image": "busybox"}])
    return {
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": restart, "containers": containers, **spec},
    }
