"""CustomResourceDefinitions: from their creation to the deletion of their last object."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from local.apiserver.support import (
    DEFINITIONS,
    JSON_PATCH,
    MAPS,
    WIDGETS,
    Api,
    config_map,
    definition,
    running_server,
    widget,
)

WIDGET_DEFINITION = f"{DEFINITIONS}/widgets.example.com"


def conditions(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {
        each["type"]: (each["status"], each["reason"])
        for each in document.get("status", {}).get("conditions", ())
    }


async def test_a_definition_is_served_once_it_is_created(api: Api) -> None:
    (await api.get(WIDGETS)).refused(404)
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    established = (await api.get(WIDGET_DEFINITION)).ok()
    assert conditions(established) == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert established["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert established["status"]["storedVersions"] == ["v1"]
    listed = (await api.get(WIDGETS)).ok()
    assert (listed["kind"], listed["apiVersion"]) == ("WidgetList", "example.com/v1")


async def test_objects_are_pruned_defaulted_and_validated(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    created = (await api.post(WIDGETS, widget("a", 3, extra=1))).ok(201)
    assert created["spec"] == {"size": 3, "color": "red", "replicas": 1}
    strict = await api.post(WIDGETS, widget("b", 3, extra=1), fieldValidation="Strict")
    assert 'unknown field "spec.extra"' in strict.refused(400)["message"]
    invalid = (await api.post(WIDGETS, widget("b", 0))).refused(422, "Invalid")
    assert invalid["details"]["kind"] == "Widget"
    assert invalid["details"]["group"] == "example.com"
    assert invalid["details"]["causes"][0]["field"] == "spec.size"
    assert invalid["message"].startswith('Widget.example.com "b" is invalid: spec.size: ')
    wrong = await api.post(WIDGETS, widget("b") | {"spec": {"size": "big"}})
    assert wrong.refused(422)["details"]["causes"][0]["reason"] == "FieldValueTypeInvalid"


async def test_generation_of_custom_objects(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    path = f"{WIDGETS}/a"
    assert (await api.post(WIDGETS, widget("a"))).ok(201)["metadata"]["generation"] == 1
    labelled = (await api.patch(path, {"metadata": {"labels": {"a": "b"}}})).ok()
    assert labelled["metadata"]["generation"] == 1
    status = (await api.patch(f"{path}/status", {"status": {"phase": "On"}})).ok()
    assert status["metadata"]["generation"] == 1
    assert (await api.patch(path, {"spec": {"size": 4}})).ok()["metadata"]["generation"] == 2


async def test_scale(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    status = {"status": {"replicas": 1, "selector": "app=a"}}
    (await api.patch(f"{WIDGETS}/a/status", status)).ok()
    scale = (await api.get(f"{WIDGETS}/a/scale")).ok()
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 1}
    assert scale["status"] == {"replicas": 1, "selector": "app=a"}
    scaled = (await api.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 5}})).ok()
    assert scaled["spec"] == {"replicas": 5}
    assert (await api.get(f"{WIDGETS}/a")).ok()["spec"]["replicas"] == 5


async def test_scale_without_a_number_can_be_written_but_not_read(api: Api) -> None:
    body = definition()
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["replicas"]["default"]
    (await api.post(DEFINITIONS, body)).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)

    refused = (await api.get(f"{WIDGETS}/a/scale")).refused(500, "InternalError")
    assert 'the spec replicas field ".spec.replicas" does not exist' in refused["message"]
    scaled = (await api.patch(f"{WIDGETS}/a/scale", {"spec": {"replicas": 5}})).ok()
    assert scaled["spec"] == {"replicas": 5}


async def test_a_version_without_subresources_has_none(api: Api) -> None:
    body = definition()
    del body["spec"]["versions"][0]["subresources"]
    (await api.post(DEFINITIONS, body)).ok(201)
    created = (await api.post(WIDGETS, widget("a") | {"status": {"phase": "On"}})).ok(201)
    assert created["status"] == {"phase": "On"}
    (await api.get(f"{WIDGETS}/a/status")).refused(404)
    (await api.get(f"{WIDGETS}/a/scale")).refused(404)
    changed = (await api.patch(f"{WIDGETS}/a", {"status": {"phase": "Off"}})).ok()
    assert changed["metadata"]["generation"] == 2


async def test_conflicting_names_are_accepted_once_they_are_free(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    second = definition("gadgets")
    second["spec"]["names"]["shortNames"] = ["wi"]
    (await api.post(DEFINITIONS, second)).ok(201)
    path = f"{DEFINITIONS}/gadgets.example.com"
    assert conditions((await api.get(path)).ok()) == {
        "NamesAccepted": ("False", "ShortNamesConflict"),
        "Established": ("False", "NotAccepted"),
    }
    gadgets = "/apis/example.com/v1/namespaces/default/gadgets"
    (await api.get(gadgets)).refused(404)
    (await api.delete(WIDGET_DEFINITION)).ok()
    assert conditions((await api.get(path)).ok())["Established"][0] == "True"
    (await api.get(gadgets)).ok()


async def test_several_versions_show_the_same_object(api: Api) -> None:
    body = definition()
    version = body["spec"]["versions"][0]
    body["spec"]["versions"] = [
        version | {"name": "v1beta1", "storage": False},
        version,
        version | {"name": "v1alpha1", "storage": False, "served": False},
    ]
    (await api.post(DEFINITIONS, body)).ok(201)
    beta = WIDGETS.replace("/v1/", "/v1beta1/")
    old = widget("a") | {"apiVersion": "example.com/v1beta1"}
    created = (await api.post(beta, old)).ok(201)
    assert created["apiVersion"] == "example.com/v1beta1"
    shown = (await api.get(f"{WIDGETS}/a")).ok()
    assert shown["apiVersion"] == "example.com/v1"
    assert shown["metadata"]["uid"] == created["metadata"]["uid"]
    async with api.watch(beta) as watching:
        assert (await watching.next())["object"]["apiVersion"] == "example.com/v1beta1"
        (await api.patch(f"{WIDGETS}/a", {"spec": {"size": 5}})).ok()
        event = await watching.next()
        assert event["object"]["apiVersion"] == "example.com/v1beta1"
        assert event["object"]["spec"]["size"] == 5
    patched = (await api.patch(f"{beta}/a", {"spec": {"size": 6}})).ok()
    assert patched["apiVersion"] == "example.com/v1beta1"
    (await api.get(WIDGETS.replace("/v1/", "/v1alpha1/"))).refused(404)
    group = (await api.get("/apis/example.com")).ok()
    assert [each["version"] for each in group["versions"]] == ["v1", "v1beta1"]


async def test_a_changed_schema_takes_effect_at_once(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    body = (await api.get(WIDGET_DEFINITION)).ok()
    properties = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["extra"] = {"type": "string"}
    (await api.put(WIDGET_DEFINITION, body)).ok()
    assert (await api.post(WIDGETS, widget("a", 3, extra="x"))).ok(201)["spec"]["extra"] == "x"


async def test_deleting_a_definition_deletes_its_objects(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("plain"))).ok(201)
    held = widget("held")
    held["metadata"]["finalizers"] = ["x/y"]
    (await api.post(WIDGETS, held)).ok(201)
    going = (await api.delete(WIDGET_DEFINITION)).ok()
    assert going["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(going)["Terminating"][0] == "True"
    names = [item["metadata"]["name"] for item in (await api.get(WIDGETS)).ok()["items"]]
    assert names == ["held"]
    (await api.post(WIDGETS, widget("new"))).refused(
        405,
        "MethodNotAllowed",
        "create not allowed while custom resource definition is terminating",
    )
    (await api.get(WIDGET_DEFINITION)).ok()
    (await api.patch(f"{WIDGETS}/held", {"metadata": {"finalizers": None}})).ok()
    (await api.get(WIDGET_DEFINITION)).refused(404)
    (await api.get(WIDGETS)).refused(404)
    (await api.post(DEFINITIONS, definition())).ok(201)  # and it may come again
    assert (await api.get(WIDGETS)).ok()["items"] == []


async def test_cluster_scoped_objects(api: Api) -> None:
    (await api.post(DEFINITIONS, definition(scope="Cluster"))).ok(201)
    path = "/apis/example.com/v1/widgets"
    created = (await api.post(path, widget("a"))).ok(201)
    assert "namespace" not in created["metadata"]
    (await api.get(f"{path}/a")).ok()
    (await api.delete(f"{path}/a")).ok()


async def test_printer_columns_and_categories(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("a", 7))).ok(201)
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    document = (await api.get(WIDGETS, headers=table)).ok()
    names = [column["name"] for column in document["columnDefinitions"]]
    assert names == ["Name", "Size"]
    assert document["rows"][0]["cells"] == ["a", 7]
    resources = (await api.get("/apis/example.com/v1")).ok()["resources"]
    entry = next(each for each in resources if each["name"] == "widgets")
    assert (entry["categories"], entry["shortNames"]) == (["all"], ["wi"])
    assert {each["name"] for each in resources} == {
        "widgets",
        "widgets/scale",
        "widgets/status",
    }


async def test_declared_fields_can_be_selected(api: Api) -> None:
    body = definition()
    body["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.color"}]
    (await api.post(DEFINITIONS, body)).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    (await api.post(WIDGETS, widget("b", color="blue"))).ok(201)
    listed = (await api.get(WIDGETS, fieldSelector="spec.color=blue")).ok()["items"]
    assert [item["metadata"]["name"] for item in listed] == ["b"]
    (await api.get(WIDGETS, fieldSelector="spec.size=3")).refused(
        400, "BadRequest", "field label not supported: spec.size"
    )


async def test_definitions_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with running_server(path) as api:
        (await api.post(DEFINITIONS, definition())).ok(201)
        created = (await api.post(WIDGETS, widget("a"))).ok(201)
        held = definition("gadgets")
        held["metadata"]["finalizers"] = ["x/y"]
        (await api.post(DEFINITIONS, held)).ok(201)
        (await api.delete(f"{DEFINITIONS}/gadgets.example.com")).ok()
    async with running_server(path) as api:
        assert (await api.get(f"{WIDGETS}/a")).ok() == created
        terminating = (await api.get(f"{DEFINITIONS}/gadgets.example.com")).ok()
        assert terminating["metadata"]["finalizers"] == ["x/y"]


async def test_a_stored_rule_that_does_not_compile_refuses_every_write(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    body = definition()
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"] = [{"rule": "type(self) != int"}]
    async with running_server(path) as api:
        (await api.post(DEFINITIONS, body)).ok(201)
        (await api.post(WIDGETS, widget("a"))).ok(201)
    with closing(sqlite3.connect(path)) as database, database:
        (data,) = database.execute(
            "SELECT data FROM objects WHERE resource LIKE '%definitions%'"
        ).fetchone()
        data = data.replace(b"type(self) !=", b"gone(self) !=")
        database.execute("UPDATE objects SET data = ? WHERE resource LIKE '%definitions%'", (data,))
    async with running_server(path) as api:
        for answer in (
            await api.post(WIDGETS, widget("b")),
            await api.patch(f"{WIDGETS}/a", {"metadata": {"labels": {"x": "y"}}}),
        ):
            (cause,) = answer.refused(422, "Invalid")["details"]["causes"]
            assert cause["field"] == "spec"
            assert cause["message"].startswith(
                'Invalid value: "object": rule compile error: compilation failed: ERROR:'
            )
        labeled = await api.patch(WIDGET_DEFINITION, {"metadata": {"labels": {"x": "y"}}})
        (cause,) = labeled.refused(422, "Invalid")["details"]["causes"]
        assert cause["field"].endswith("properties[spec].x-kubernetes-validations[0].rule")
        (await api.delete(f"{WIDGETS}/a")).ok()
        (await api.delete(WIDGET_DEFINITION)).ok()


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
async def test_definitions_do_not_affect_other_resources(api: Api, method: str) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(MAPS, config_map("a"))).ok(201)
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await api.request(method, f"{MAPS}/a", config_map("a"), content_type=kind)
    answer.ok()


async def test_new_defaults_apply_to_stored_objects(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    before = (await api.post(WIDGETS, widget("a"))).ok(201)
    operation: dict[str, Any] = {
        "op": "add",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/shape",
        "value": {"type": "string", "default": "round"},
    }
    (await api.patch(WIDGET_DEFINITION, [operation], kind=JSON_PATCH)).ok()

    after = (await api.get(f"{WIDGETS}/a")).ok()
    assert after["spec"] == before["spec"] | {"shape": "round"}
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    path = operation["path"] + "/default"
    (await api.patch(WIDGET_DEFINITION, [{"op": "remove", "path": path}], kind=JSON_PATCH)).ok()
    assert (await api.get(f"{WIDGETS}/a")).ok()["spec"]["shape"] == "round"


async def test_invalid_conditions_of_a_definition_are_tolerated(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    odd = [{"op": "add", "path": "/status/conditions", "value": [{"message": "mine"}]}]
    (await api.patch(f"{WIDGET_DEFINITION}/status", odd, kind=JSON_PATCH)).ok()

    (await api.post(WIDGETS, widget("a"))).ok(201)
    (await api.delete(WIDGET_DEFINITION)).ok()
    (await api.get(WIDGET_DEFINITION)).refused(404)


async def test_a_definition_that_stands_in_gives_way_to_other_versions(api: Api) -> None:
    mine = definition()
    mine["metadata"]["annotations"] = {"traincrew.dev/installed": "true"}
    (await api.post(DEFINITIONS, mine)).ok(201)
    theirs = (await api.get(WIDGET_DEFINITION)).ok()
    theirs["metadata"]["annotations"] = {}
    theirs["spec"]["versions"][0]["name"] = "v2"
    (await api.put(WIDGET_DEFINITION, theirs)).ok()
    (await api.get(WIDGETS)).refused(404)
    (await api.get(WIDGETS.replace("v1", "v2"))).ok()
    theirs = (await api.get(WIDGET_DEFINITION)).ok()
    assert theirs["status"]["storedVersions"] == ["v2"]
    theirs["spec"]["versions"][0]["name"] = "v3"
    (await api.put(WIDGET_DEFINITION, theirs)).refused(422)
