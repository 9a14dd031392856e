"""`traincrew orphans`: what an older mxnet-operator left behind."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from predecessors.mxnet_leftovers import NEW, OLD, World, definition, started
from traincrew.engine.client import Client
from traincrew.engine.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBS
from traincrew.local.apiserver.http.faults import Fault, refuse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    """A server with the namespaces `team` and `other`, without definitions."""
    async with started(tmp_path) as found:
        yield found


GONE = {
    "Job team/gone-scheduler-1kkf-0",
    "Job team/gone-worker-1kkf-0",
    "Service team/gone-scheduler-1kkf-0",
}


@pytest.mark.parametrize("groups", [[NEW, OLD], [NEW], [OLD]], ids=["both", "new", "old"])
async def test_only_what_belongs_to_no_job_is_deleted(world: World, groups: list[str]) -> None:
    for number, group in enumerate(groups):
        await world.define(group)
        await world.job(f"live{number}", f"aa{number}", group)
        await world.left(f"live{number}", f"aa{number}")
    await world.left("gone", "1kkf")
    before = await world.names()

    listed = await world.run("-n", "team")
    assert listed.exit_code == 0, listed.output
    assert "orphaned in namespace team: 3 objects; nothing was deleted" in listed.stderr
    assert f"orphans --kubeconfig {world.kubeconfig} --namespace team --delete" in listed.stderr
    assert f"kept in namespace team: {3 * len(groups)} objects" in listed.stderr
    lines = [line.split(maxsplit=4) for line in listed.stdout.splitlines()]
    assert lines[0] == ["KIND", "NAMESPACE", "NAME", "CREATED", "WHY"]
    assert {f"{line[0]} {line[1]}/{line[2]}" for line in lines[1:]} == GONE
    assert {line[4] for line in lines[1:]} == {"no MxJob has RuntimeId 1kkf"}
    assert await world.names() == before

    deleted = await world.run("-n", "team", "--delete")
    assert deleted.exit_code == 0, deleted.output
    assert "Job team/gone-worker-1kkf-0: deleted" in deleted.stdout
    assert "3 objects deleted" in deleted.stderr
    assert await world.names() == before - GONE
    again = await world.run("-n", "team", "--delete")
    assert again.exit_code == 0
    assert "nothing is orphaned in namespace team" in again.stderr


async def test_without_definitions_there_are_no_jobs(world: World) -> None:
    """The user has removed mxnet-operator with its definition, and so all MxJobs."""
    await world.left("gone", "1kkf")

    result = await world.run("-A", "--delete")
    assert result.exit_code == 0, result.output
    assert await world.names() == set()


async def test_a_group_may_serve_other_kinds(world: World) -> None:
    """`mlkube.io` was the group of TfJob before."""
    other = definition(OLD)
    other["metadata"]["name"] = f"tfjobs.{OLD}"
    other["spec"]["names"] = {"kind": "TfJob", "plural": "tfjobs"}
    await world.client.create(CUSTOM_RESOURCE_DEFINITIONS, other)
    await world.left("gone", "1kkf")

    assert "orphaned in all namespaces: 3 objects" in (await world.run("-A")).stderr


async def test_namespaces(world: World) -> None:
    """A RuntimeId counts in its own namespace only."""
    await world.define(NEW)
    await world.job("same", "1kkf", namespace="other")
    await world.left("same", "1kkf", namespace="other")
    await world.left("same", "1kkf", namespace="team")

    assert "nothing is orphaned in namespace other" in (await world.run("-n", "other")).stderr
    assert "nothing is orphaned in namespace default" in (await world.run()).stderr
    await world.run("-A", "--delete")
    assert {name.split()[1].split("/")[0] for name in await world.names()} == {"other"}


@pytest.mark.parametrize("key", ["RuntimeId", "runtimeId", "runtimeid"])
async def test_the_runtime_id_in_any_case(world: World, key: str) -> None:
    await world.define(NEW)
    await world.job("live", "1kkf", key=key)
    await world.left("live", "1kkf")

    result = await world.run("-A")
    assert "kept in all namespaces: 3 objects of an MxJob" in (result.stderr)


async def test_a_job_of_the_same_name_is_another_one(world: World) -> None:
    await world.define(NEW)
    await world.job("again", "new1")
    await world.left("again", "old1")

    result = await world.run("-A")
    assert "no MxJob has RuntimeId old1; that of MxJob again is new1" in result.stdout


async def test_a_job_without_a_runtime_id_keeps_what_has_its_name(world: World) -> None:
    await world.define(NEW)
    await world.job("new", None)
    await world.left("new", "old1")

    result = await world.run("-A", "--delete")
    assert "perhaps of an MxJob that has no RuntimeId yet" in result.stderr
    assert len(await world.names()) == 3


async def test_an_object_with_any_owner_is_never_touched(world: World) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1-2-3"}
    await world.left("owned", "1kkf", ownerReferences=[owner])
    await world.pod("bare-worker-1kkf-0-x7k2p", "1kkf")
    await world.pod("bare-worker-1kkf-0-abcde", "1kkf", ownerReferences=[owner])

    result = await world.run("-A", "--delete")
    assert "kept in all namespaces: 4 objects with an owner" in result.stderr
    assert "Pod team/bare-worker-1kkf-0-x7k2p: deleted" in result.stdout
    assert result.stdout.count("deleted") == 1
    assert len(await world.names()) == 4


async def test_the_users_own_objects_with_these_labels_stay(world: World) -> None:
    await world.pod("debug", "1kkf")
    await world.pod("gone-worker-1kkf-0", "1kkf")

    result = await world.run("-A", "--delete")
    assert "kept in all namespaces: 2 objects with its labels" in (result.stderr)
    assert len(await world.names()) == 2


async def test_what_is_being_deleted_is_left_to_it(world: World) -> None:
    await world.left("gone", "1kkf", workers=0, finalizers=["example.com/wait"])
    await world.client.delete(JOBS, "gone-scheduler-1kkf-0", "team")

    result = await world.run("-A", "--delete")
    assert "kept in all namespaces: 1 object in deletion" in (result.stderr)
    assert "Service team/gone-scheduler-1kkf-0: deleted" in result.stdout


# -- absent is not gone -----------------------------------------------------------------------


@pytest.mark.parametrize("code", [401, 403, 404, 500, 503])
@pytest.mark.parametrize(
    "path",
    [
        f"/apis/{NEW}/v1beta1/namespaces/team/mxjobs",
        f"/apis/{OLD}/v1beta1/namespaces/team/mxjobs",
        f"/apis/{OLD}/v1beta1?",
        "/apis?",
        "/apis/batch/v1/namespaces/team/jobs",
        "/api/v1/namespaces/team/services",
        "/api/v1/namespaces/team/pods",
    ],
)
async def test_nothing_is_orphaned_if_anything_cannot_be_listed(
    world: World, path: str, code: int
) -> None:
    for group in (NEW, OLD):
        await world.define(group)
    await world.job("live", "1kkf")
    await world.left("live", "1kkf")
    await world.left("gone", "dead")
    before = await world.names()
    world.server.faults = lambda method, url, _: (
        refuse(code, "not \x1b[2Jtoday") if f"{url}?".startswith(path) and method == "GET" else None
    )

    result = await world.run("-n", "team", "--delete")
    world.server.faults = None
    assert result.exit_code == 1, result.output
    assert "cannot " in result.stderr
    assert "not ?[2Jtoday" in result.stderr
    assert "nothing was deleted" in result.stderr
    assert await world.names() == before


async def test_a_definition_that_discovery_does_not_show_yet(world: World) -> None:
    """Discovery lags behind; the jobs count all the same."""
    await world.define(NEW)
    await world.job("live", "1kkf")
    await world.left("live", "1kkf")
    groups = {"kind": "APIGroupList", "apiVersion": "v1", "groups": []}

    class Lagging(Client):
        async def request(self, method: str, path: str, **options: Any) -> bytes:
            if path == "/apis":
                return json.dumps(groups).encode()
            return await super().request(method, path, **options)

    from traincrew.predecessors.orphans import find

    async with Lagging(world.client.config, user_agent="test") as client:
        assert (await find(client, None)).orphans == ()


async def test_long_lists_are_read_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traincrew.predecessors.orphans._PAGE", 2)
    await world.define(NEW)
    for number in range(5):
        await world.job(f"live{number}", f"aa{number}")
        await world.left(f"live{number}", f"aa{number}", workers=2)
    await world.left("gone", "dead", workers=5)
    lists: list[str] = []
    world.server.faults = lambda method, path, _: (
        lists.append(path) if method == "GET" and "labelSelector" in path else None
    )

    result = await world.run("-n", "team")
    assert "orphaned in namespace team: 7 objects" in result.stderr
    assert all("limit=2" in path for path in lists)
    assert sum("continue=" in path for path in lists) > 10


@pytest.mark.parametrize(("expirations", "code"), [(1, 0), (1000, 1)])
async def test_a_list_that_expires_is_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch, expirations: int, code: int
) -> None:
    monkeypatch.setattr("traincrew.predecessors.orphans._PAGE", 2)
    await world.left("gone", "dead", workers=5)
    remaining = expirations

    def expire(_method: str, path: str, _agent: str) -> Fault | None:
        nonlocal remaining
        if "continue=" not in path or not remaining:
            return None
        remaining -= 1
        return refuse(410)

    world.server.faults = expire
    result = await world.run("-n", "team")
    assert result.exit_code == code
    said = "orphaned in namespace team: 7 objects" if code == 0 else "it expired 3 times"
    assert said in result.stderr


async def test_what_has_changed_since_is_kept(world: World) -> None:
    """Deletions name the version that was found, so nothing that was changed or replaced goes."""
    await world.left("gone", "dead", workers=0)
    touched = False
    loop = asyncio.get_running_loop()

    def touch(method: str, path: str, agent: str) -> Fault | None:
        nonlocal touched
        if method == "DELETE" and "/jobs/" in path and not touched:
            touched = True
            change = {"metadata": {"annotations": {"a": "b"}}}
            task = world.client.patch(JOBS, "gone-scheduler-dead-0", "team", patch=change)
            changes.append(loop.create_task(task))
            return Fault(delay=0.5)
        return None

    changes: list[asyncio.Task[Any]] = []
    world.server.faults = touch
    result = await world.run("-n", "team", "--delete")
    await asyncio.gather(*changes)
    assert result.exit_code == 1
    assert "Job team/gone-scheduler-dead-0: kept: it has changed since" in result.stdout
    assert "1 object could not be deleted" in result.stderr
    assert await world.names() == {"Job team/gone-scheduler-dead-0"}


async def test_a_refused_deletion_does_not_stop_the_others(world: World) -> None:
    await world.left("gone", "dead", workers=2)
    world.server.faults = lambda method, path, _: (
        refuse(403, "no \x1b]0;title\x07deletions")
        if method == "DELETE" and "worker" in path
        else None
    )

    result = await world.run("-n", "team", "--delete")
    assert result.exit_code == 1
    assert "Job team/gone-worker-dead-0: refused: no ?]0;title?deletions" in result.stdout
    assert "2 objects deleted" in result.stderr
    assert "2 objects could not be deleted" in result.stderr


async def test_options_that_exclude_each_other(world: World) -> None:
    result = await world.run("-n", "team", "-A")
    assert result.exit_code == 2
    assert "choose one of them" in result.stderr
