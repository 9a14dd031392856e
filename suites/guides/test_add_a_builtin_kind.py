"""A built-in kind is a row, a file and a folder: those of the guide work without other edits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from suites.guidetree import ROOT, Tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(tmp_path_factory.mktemp("tree"), "add-a-builtin-kind.md")


def test_no_existing_file_is_edited_but_for_a_row_in_its_group(tree: Tree) -> None:
    assert tree.folders == {
        ".",
        "src/traincrew/local/apiserver/kinds/batch",
        "src/traincrew/local/controllers/task",
    }
    (group,) = tree.replaced
    assert group == Path("src/traincrew/local/apiserver/kinds/batch/__init__.py")
    before = (ROOT / group).read_text().splitlines()
    after = (tree.directory / group).read_text().splitlines()
    assert [line for line in before if line not in after] == []


def test_it_passes_the_projects_checks(tree: Tree) -> None:
    tree.check("traincrew.local.apiserver.kinds.batch", "traincrew.local.controllers.task")


SCENARIO = """
import asyncio, json, yaml
from local.controlplane import control_plane
from traincrew.engine.errors import ApiError
from traincrew.local.controllers.task.plan import TASKS

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

async def main():
    seen = {}
    async with control_plane() as world:
        get = world.client.request

        async def refused(change):
            task = yaml.safe_load(open("task.yaml"))
            task["metadata"]["name"] = "wrong"
            task["spec"] |= change
            try:
                await world.client.create(TASKS, task, "default")
            except ApiError as error:
                return error.message

        async def names(path):
            items = json.loads(await get("GET", path))["items"]
            return [each["metadata"]["name"] for each in items]

        group = json.loads(await get("GET", "/apis/batch/v1"))
        seen["resources"] = [each for each in group["resources"] if each["kind"] == "Task"]
        seen["openapi"] = "io.k8s" in (await get("GET", "/openapi/v3/apis/batch/v1")).decode()
        seen["refused"] = [await refused({"attempts": 11}), await refused({"image": 1})]
        small = {"metadata": {"name": "small"}, "spec": {"image": "busybox"}}
        seen["defaulted"] = (await world.create(TASKS, small))["spec"]
        await world.client.delete(TASKS, "small", "default")
        await world.until_pods(0)

        task = await world.create(TASKS, yaml.safe_load(open("task.yaml")))
        (first,) = await world.until_pods(1)
        await world.finish(first, 1)

        async def running():
            return [pod for pod in await world.pods() if pod["status"]["phase"] == "Running"]

        (second,) = await world.until(running)
        await world.until_status(TASKS, "report", phase="Running", failed=1)
        path = TASKS.path("default")
        table = json.loads(await get("GET", path, accept=TABLE))
        seen["columns"] = [each["name"] for each in table["columnDefinitions"]]
        seen["row"] = table["rows"][0]["cells"]
        seen["selected"] = await names(path + "?fieldSelector=status.phase=Running")
        seen["not selected"] = await names(path + "?fieldSelector=status.phase=Failed")
        try:
            patch = {"spec": {"image": "other"}}
            await world.client.patch(TASKS, "report", "default", patch=patch)
        except ApiError as error:
            seen["immutable"] = error.message

        await world.restart()
        await world.finish(second)
        await world.until_status(TASKS, "report", phase="Succeeded", failed=1)
        seen["pods"] = len(await world.pods())
        seen["events"] = [reason for reason, _ in await world.events("report")]
        await world.client.delete(TASKS, "report", "default")
        await world.until_pods(0)
    print(json.dumps(seen))

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def seen(tree: Tree) -> dict[str, Any]:
    """What a client of the copy has seen of tasks, from discovery to deletion."""
    answers: dict[str, Any] = json.loads(tree.python("-c", SCENARIO))
    return answers


def test_it_is_discovered_and_described(seen: dict[str, Any]) -> None:
    names = {each["name"]: each for each in seen["resources"]}

    assert set(names) == {"tasks", "tasks/status"}
    assert names["tasks"]["categories"] == ["all"]
    assert names["tasks"]["namespaced"]
    assert seen["openapi"]


def test_it_has_defaults_and_rules(seen: dict[str, Any]) -> None:
    assert seen["defaulted"] == {"image": "busybox", "attempts": 1}
    too_many, wrong_type = seen["refused"]
    assert "spec.attempts: Invalid value: 11: must be between 1 and 10, inclusive" in too_many
    assert "image" in wrong_type
    assert 'spec.image: Invalid value: "other": field is immutable' in seen["immutable"]


def test_it_is_listed_and_selected(seen: dict[str, Any]) -> None:
    assert seen["columns"] == ["Name", "Phase", "Failed", "Age", "Image"]
    assert seen["row"][:3] == ["report", "Running", "1/3"]
    assert seen["row"][4] == "busybox"
    assert seen["selected"] == ["report"]
    assert seen["not selected"] == []


def test_its_controller_acts(seen: dict[str, Any]) -> None:
    """The pod that failed is replaced; the end is seen by a controller that was restarted."""
    assert seen["pods"] == 2
    assert seen["events"] == ["SuccessfulCreate", "SuccessfulCreate", "Ended"]
