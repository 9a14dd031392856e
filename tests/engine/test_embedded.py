"""The engine against the embedded API server: the same wire protocol from both ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from traincrew.engine.cache import Informer
from traincrew.engine.client import Client
from traincrew.engine.config import from_kubeconfig
from traincrew.engine.controller import (
    Controller,
    Manager,
    Request,
    WriteTracker,
    own_key,
    owner_key,
)
from traincrew.engine.election import LeaderElector
from traincrew.engine.errors import (
    AlreadyExistsError,
    ConflictError,
    GoneError,
    InvalidError,
    NotFoundError,
    UnreachableError,
)
from traincrew.engine.events import EventRecorder
from traincrew.engine.objects import AnyObject, MetadataOnly
from traincrew.engine.resources import CONFIG_MAPS, EVENTS, LEASES, NAMESPACES, PODS
from traincrew.engine.testing import until
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage

SECRET = "0123456789abcdef"


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class Server:
    """An API server that can be stopped and started again on the same port."""

    def __init__(self) -> None:
        self.storage = Storage(history=50)
        self.port = 0

    async def start(self) -> None:
        self.api = ApiServer(self.storage, secret=SECRET)
        await self.api.start(self.port)
        self.port = self.api.port

    def client(self) -> Client:
        return Client(from_kubeconfig(self.api.kubeconfig()))


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    await server.start()
    yield server
    await server.api.stop()
    server.storage.close()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with server.client() as client:
        yield client


async def test_the_life_of_an_object(client: Client) -> None:
    version = await client.server_version()
    assert version["major"] == "1"
    created = await client.create(CONFIG_MAPS, config_map("c", a="1"))
    with pytest.raises(AlreadyExistsError, match='configmaps "c" already exists'):
        await client.create(CONFIG_MAPS, config_map("c"))
    await client.create(CONFIG_MAPS, config_map("dry"), dry_run=True)
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "dry")

    applied = await client.apply(CONFIG_MAPS, config_map("c", b="2"), field_manager="m")
    assert applied["data"] == {"a": "1", "b": "2"}
    patched = await client.patch(CONFIG_MAPS, "c", patch={"data": {"a": None}})
    assert patched["data"] == {"b": "2"}
    replaced = patched | {"data": {"c": "3"}}
    await client.replace(CONFIG_MAPS, replaced)
    with pytest.raises(ConflictError):
        await client.replace(CONFIG_MAPS, replaced)
    with pytest.raises(InvalidError, match=r"metadata\.name"):
        await client.create(CONFIG_MAPS, config_map("Not A Name"))
    with pytest.raises(ConflictError):
        await client.delete(CONFIG_MAPS, "c", uid="another")
    await client.delete(CONFIG_MAPS, "c", uid=created["metadata"]["uid"])
    with pytest.raises(NotFoundError) as caught:
        await client.get(CONFIG_MAPS, "c")
    assert caught.value.details["name"] == "c"


async def test_a_write_to_an_object_that_is_gone(client: Client) -> None:
    first = await client.create(CONFIG_MAPS, config_map("c"))
    uid, version = first["metadata"]["uid"], first["metadata"]["resourceVersion"]

    def delete(version: str | None = None) -> Awaitable[dict[str, Any] | None]:
        delete = client.delete(CONFIG_MAPS, "c", uid=uid, resource_version=version)
        return client.unless_gone(delete, CONFIG_MAPS, "c", uid=uid)

    await client.patch(CONFIG_MAPS, "c", patch={"data": {"x": "1"}})
    with pytest.raises(ConflictError):  # it exists, the write only lost a race
        await delete(version)
    assert await delete() is not None
    assert await delete() is None
    await client.create(CONFIG_MAPS, config_map("c"))
    assert await delete() is None
    assert await client.get(CONFIG_MAPS, "c")


async def test_lists_in_pages(client: Client) -> None:
    for number in range(25):
        await client.create(CONFIG_MAPS, config_map(f"c{number:02}"))
    whole = await client.list(CONFIG_MAPS, "default", limit=7)
    names = [item["metadata"]["name"] for item in whole["items"]]
    assert [name for name in names if name.startswith("c")] == [f"c{n:02}" for n in range(25)]
    assert (await client.list(NAMESPACES, field_selector="metadata.name=default"))["items"]


@pytest.mark.parametrize("streams", [True, False], ids=["streamed-list", "paged-list"])
async def test_a_cache_stays_correct_through_restart_and_compaction(
    server: Server, client: Client, streams: bool
) -> None:
    await client.create(CONFIG_MAPS, config_map("one"))
    informer: Informer[AnyObject] = Informer(client, CONFIG_MAPS, namespace="default")
    informer._reflector._streams_lists = streams
    metadata = Informer(client, CONFIG_MAPS, MetadataOnly, metadata_only=True)
    tasks = [asyncio.create_task(i.run()) for i in (informer, metadata)]
    await asyncio.gather(informer.wait_synced(), metadata.wait_synced())

    def names() -> set[str]:
        return {o.metadata.name for o in informer.store.list()} - {"kube-root-ca.crt"}

    assert names() == {"one"}
    kept = informer.store.get("default", "one")
    assert kept is not None
    assert (kept.kind, kept.api_version) == ("ConfigMap", "v1")
    await client.create(CONFIG_MAPS, config_map("two"))
    await client.patch(CONFIG_MAPS, "one", patch={"data": {"x": "y"}})
    await until(lambda: names() == {"one", "two"}, 10)
    await until(lambda: len(metadata.store) >= 2, 10)

    await server.api.stop()
    await until(lambda: informer._reflector._pace._connected_at is None, 10)
    await server.start()
    async with server.client() as other:
        await other.delete(CONFIG_MAPS, "two")
        # More changes than the server remembers: the watch cannot resume.
        for number in range(60):
            await other.patch(CONFIG_MAPS, "one", patch={"data": {"x": str(number)}})
        await other.create(CONFIG_MAPS, config_map("three"))
    await until(lambda: names() == {"one", "three"}, 20)
    kept = informer.store.get("default", "one")
    assert kept is not None
    assert kept.data == {"x": "59"}
    for task in tasks:
        assert not task.done()
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_an_old_version_is_gone(client: Client) -> None:
    created = await client.create(CONFIG_MAPS, config_map("c"))
    for number in range(60):
        await client.patch(CONFIG_MAPS, "c", patch={"data": {"x": str(number)}})
    informer: Informer[AnyObject] = Informer(client, CONFIG_MAPS)
    informer._reflector._resource_version = created["metadata"]["resourceVersion"]
    with pytest.raises(GoneError, match="too old resource version"):
        await informer._reflector._watch(initial=False)


async def test_controller_lease_events_and_tracker_together(server: Server) -> None:
    """A controller that maintains one ConfigMap per Pod, run by two processes in turn."""

    async def process(identity: str) -> tuple[Client, asyncio.Task[None], list[Request]]:
        client = server.client()
        # Long enough that a slow machine does not lose the lease, which is handed over by release.
        elector = LeaderElector(
            client, "default", "lock", identity, duration=15, renew_deadline=10, retry_period=0.1
        )
        manager = Manager(client, elector=elector)
        pods = manager.informer(PODS, MetadataOnly, metadata_only=True)
        maps = manager.informer(CONFIG_MAPS)
        recorder = EventRecorder(client, "test")
        manager.add_runnable(recorder.run)
        tracker = WriteTracker()
        seen: list[Request] = []

        async def reconcile(request: Request) -> None:
            seen.append(request)
            pod = pods.store.get(*request)
            if pod is None or tracker.stale(maps, request):
                return
            if maps.store.by_index("owner", pod.metadata.uid):
                return
            child = config_map(f"{request.name}-map")
            child["metadata"]["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": request.name,
                    "uid": pod.metadata.uid,
                    "controller": True,
                }
            ]
            tracker.note(CONFIG_MAPS, await client.create(CONFIG_MAPS, child))
            reference = {"apiVersion": "v1", "kind": "Pod", "namespace": "default"}
            identity_of = {"name": request.name, "uid": pod.metadata.uid}
            recorder.event(reference | identity_of, "Normal", "Created", "made a ConfigMap")

        controller = Controller("test", reconcile)
        controller.watch(pods, own_key)
        controller.watch(maps, owner_key("Pod", ""))
        manager.add(controller)
        return client, asyncio.create_task(manager.run()), seen

    container = {"name": "c", "image": "i"}

    async def make_pod(client: Client, name: str) -> None:
        metadata = {"name": name, "namespace": "default"}
        await client.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": {"containers": [container]},
            },
        )

    async def maps_are(client: Client, *names: str) -> None:
        async with asyncio.timeout(60):
            while True:
                found = await client.list(CONFIG_MAPS, "default")
                if {i["metadata"]["name"] for i in found["items"]} >= set(names):
                    return
                await asyncio.sleep(0.02)

    async def events_are(client: Client, wanted: list[tuple[str, int]]) -> None:
        """Wait for the events: one in flight when its process ends may be written twice."""
        created: list[tuple[str, int]] = []
        deadline = asyncio.get_running_loop().time() + 60
        while sorted(created) != wanted:
            assert asyncio.get_running_loop().time() < deadline, created
            events = (await client.list(EVENTS, "default"))["items"]
            created = [(e["involvedObject"]["name"], e["count"]) for e in events]
            await asyncio.sleep(0.02)

    async with server.client() as user:
        await make_pod(user, "a")
        first, running, seen = await process("one")
        await maps_are(user, "a-map")
        second, standby, idle = await process("two")
        await user.delete(CONFIG_MAPS, "a-map")
        await maps_are(user, "a-map")
        assert seen
        assert idle == []

        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await make_pod(user, "b")
        await maps_are(user, "b-map")
        assert idle
        lease = await user.get(LEASES, "lock")
        assert lease["spec"]["holderIdentity"] == "two"
        await events_are(user, [("a", 2), ("b", 1)])
        standby.cancel()
        await asyncio.gather(standby, return_exceptions=True)
        lease = await user.get(LEASES, "lock")
        assert not lease["spec"].get("holderIdentity")
    for client in (first, second):
        await client.close()


async def test_a_stopped_server_is_unreachable(server: Server, client: Client) -> None:
    await server.api.stop()
    with pytest.raises(UnreachableError) as caught:
        await client.server_version()
    assert SECRET not in str(caught.value)
