"""LIST: selectors, pages, older revisions."""

import base64
import json
from typing import Any

import pytest

from local.apiserver.support import (
    DEFINITIONS,
    MAPS,
    PODS,
    WIDGETS,
    Api,
    config_map,
    definition,
    pod,
    running_server,
    widget,
)


async def fill(api: Api, count: int = 5) -> None:
    for number in range(count):
        labels = {"parity": "even" if number % 2 == 0 else "odd"}
        (await api.post(MAPS, config_map(f"map-{number}", labels=labels))).ok(201)


def names(document: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in document["items"]]


async def test_an_empty_list_is_a_list(api: Api) -> None:
    document = (await api.get(MAPS)).ok()
    assert document["kind"] == "ConfigMapList"
    assert document["apiVersion"] == "v1"
    assert document["items"] == []
    assert int(document["metadata"]["resourceVersion"]) > 0


async def test_items_of_built_in_kinds_have_no_kind_as_on_a_real_server(api: Api) -> None:
    first = config_map("a")
    (await api.post(MAPS, first)).ok(201)
    (await api.post(MAPS, dict(reversed(config_map("b").items())))).ok(201)  # kind at the end
    (await api.post(MAPS, {"metadata": {"name": "c"}})).ok(201)
    for answer in (await api.get(MAPS), await api.get(MAPS, limit="2"), await api.delete(MAPS)):
        document = answer.ok()
        assert document["kind"] == "ConfigMapList"
        assert all({"kind", "apiVersion"}.isdisjoint(item) for item in document["items"])
    assert first["data"] == document["items"][0]["data"]
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("w"))).ok(201)
    (item,) = (await api.get(WIDGETS)).ok()["items"]
    assert (item["apiVersion"], item["kind"]) == ("example.com/v1", "Widget")
    (item,) = (await api.get(DEFINITIONS)).ok()["items"]
    assert "kind" not in item
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    (await api.post(MAPS, config_map("a"))).ok(201)
    rows = (await api.get(MAPS, headers=table, includeObject="Object")).ok()["rows"]
    assert rows[0]["object"]["kind"] == "ConfigMap"


async def test_selectors(api: Api) -> None:
    await fill(api)
    assert names((await api.get(MAPS, labelSelector="parity=odd")).ok()) == ["map-1", "map-3"]
    assert names((await api.get(MAPS, labelSelector="parity notin (odd)")).ok()) == [
        "map-0",
        "map-2",
        "map-4",
    ]
    assert names((await api.get(MAPS, fieldSelector="metadata.name=map-2")).ok()) == ["map-2"]
    assert names((await api.get(MAPS, fieldSelector="metadata.name!=map-2")).ok())[2] == "map-3"
    both = await api.get(MAPS, fieldSelector="metadata.name=map-2", labelSelector="parity=odd")
    assert names(both.ok()) == []
    everywhere = await api.get("/api/v1/configmaps", fieldSelector="metadata.namespace=default")
    assert len(names(everywhere.ok())) == 5


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("Event", "involvedObject.kind"),
        ("Job", "status.successful"),
        ("Namespace", "status.phase"),
        ("Node", "spec.unschedulable"),
        ("Pod", "spec.nodeName"),
        ("ReplicaSet", "status.replicas"),
        ("ReplicationController", "status.replicas"),
        ("Secret", "type"),
        ("Service", "spec.clusterIP"),
    ],
)
async def test_a_kind_of_another_group_has_not_the_field_labels_of_the_built_in_one(
    api: Api, kind: str, field: str
) -> None:
    names = {"plural": f"{kind.lower()}s", "singular": kind.lower(), "kind": kind}
    (await api.post(DEFINITIONS, definition(names["plural"], names=names))).ok(201)
    path = f"/apis/example.com/v1/namespaces/default/{names['plural']}"
    (await api.get(path, fieldSelector="metadata.name=x")).ok()
    refused = await api.get(path, fieldSelector=f"{field}=x")
    refused.refused(400, "BadRequest", f"field label not supported: {field}")


async def test_an_absent_selectable_field_of_a_custom_resource_is_empty(api: Api) -> None:
    document = definition()
    (version,) = document["spec"]["versions"]
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["hostNetwork"] = {"type": "boolean"}
    version["selectableFields"] = [{"jsonPath": ".spec.hostNetwork"}]
    (await api.post(DEFINITIONS, document)).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    assert names((await api.get(WIDGETS, fieldSelector="spec.hostNetwork=")).ok()) == ["a"]
    assert names((await api.get(WIDGETS, fieldSelector="spec.hostNetwork=false")).ok()) == []


@pytest.mark.parametrize(
    "query",
    [
        {"labelSelector": "a in"},
        {"labelSelector": "=x"},
        {"fieldSelector": "data.key=x"},
        {"fieldSelector": "nonsense"},
        {"limit": "many"},
        {"continue": "nonsense"},
        {"continue": base64.urlsafe_b64encode(b"{}").decode()},
        {"resourceVersion": "-1"},
        {"continue": "x", "resourceVersion": "5"},
    ],
)
async def test_invalid_options_are_rejected(api: Api, query: dict[str, str]) -> None:
    (await api.get(MAPS, **query)).refused(400, "BadRequest")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
            'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        (
            {"resourceVersionMatch": "Maybe", "resourceVersion": "1"},
            'Unsupported value: "Maybe"',
        ),
        (
            {"resourceVersionMatch": "Exact", "resourceVersion": "1", "continue": "x"},
            "resourceVersionMatch is forbidden when continue is provided",
        ),
        ({"sendInitialEvents": "true"}, "sendInitialEvents is forbidden for list"),
    ],
)
async def test_contradictory_options_are_rejected(
    api: Api, query: dict[str, str], text: str
) -> None:
    assert text in (await api.get(MAPS, **query)).refused(422, "Invalid")["message"]


async def test_pages_show_one_revision(api: Api) -> None:
    await fill(api)
    first = (await api.get(MAPS, limit="2")).ok()
    assert names(first) == ["map-0", "map-1"]
    assert first["metadata"]["remainingItemCount"] == 3
    (await api.delete(f"{MAPS}/map-2")).ok()
    (await api.patch(f"{MAPS}/map-3", {"data": {"key": "changed"}})).ok()
    (await api.post(MAPS, config_map("map-30"))).ok(201)
    second = (await api.get(MAPS, **{"limit": "2", "continue": first["metadata"]["continue"]})).ok()
    assert names(second) == ["map-2", "map-3"]
    assert second["items"][1]["data"] == {"key": "value"}
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    third = (await api.get(MAPS, **{"limit": "2", "continue": second["metadata"]["continue"]})).ok()
    assert names(third) == ["map-4"]
    assert "continue" not in third["metadata"]
    assert names((await api.get(MAPS)).ok()) == ["map-0", "map-1", "map-3", "map-30", "map-4"]


async def test_pages_of_a_selection_have_no_remaining_item_count(api: Api) -> None:
    await fill(api)
    first = (await api.get(MAPS, limit="2", labelSelector="parity=even")).ok()
    assert names(first) == ["map-0", "map-2"]
    assert "remainingItemCount" not in first["metadata"]
    query = {"continue": first["metadata"]["continue"], "labelSelector": "parity=even"}
    assert names((await api.get(MAPS, limit="2", **query)).ok()) == ["map-4"]


async def test_an_exact_revision_shows_the_past(api: Api) -> None:
    await fill(api, 2)
    then = (await api.get(MAPS)).ok()["metadata"]["resourceVersion"]
    (await api.delete(f"{MAPS}/map-0")).ok()
    past = (await api.get(MAPS, resourceVersion=then, resourceVersionMatch="Exact")).ok()
    assert names(past) == ["map-0", "map-1"]
    assert past["metadata"]["resourceVersion"] == then
    newer = (await api.get(MAPS, resourceVersion=then, resourceVersionMatch="NotOlderThan")).ok()
    assert names(newer) == ["map-1"]


async def test_an_expired_page_can_be_continued_at_the_current_revision() -> None:
    async with running_server(history=10) as api:
        await fill(api)
        first = (await api.get(MAPS, limit="2")).ok()
        for number in range(20):
            (await api.patch(f"{MAPS}/map-4", {"data": {"n": str(number)}})).ok()
        query = {"limit": "2", "continue": first["metadata"]["continue"]}
        status = (await api.get(MAPS, **query)).refused(410, "Expired")
        assert status["message"].startswith("The provided continue parameter is too old")
        query["continue"] = status["metadata"]["continue"]
        assert names((await api.get(MAPS, **query)).ok()) == ["map-2", "map-3"]
        old = {"resourceVersion": "5", "resourceVersionMatch": "Exact"}
        (await api.get(MAPS, **old)).refused(410, "Expired")


async def test_all_namespaces_in_order(api: Api) -> None:
    (await api.post("/api/v1/namespaces", {"metadata": {"name": "a-first"}})).ok(201)
    await fill(api, 1)
    (await api.post("/api/v1/namespaces/a-first/configmaps", config_map("z"))).ok(201)
    document = (await api.get("/api/v1/configmaps")).ok()
    assert [(i["metadata"]["namespace"], i["metadata"]["name"]) for i in document["items"]] == [
        ("a-first", "z"),
        ("default", "map-0"),
        ("kube-system", "extension-apiserver-authentication"),
    ]
    page = (await api.get("/api/v1/configmaps", limit="1")).ok()
    query = {"continue": page["metadata"]["continue"]}
    assert names((await api.get("/api/v1/configmaps", **query)).ok())[0] == "map-0"


async def test_lists_as_yaml_and_tables(api: Api) -> None:
    await fill(api, 2)
    yaml = await api.get(MAPS, headers={"Accept": "application/yaml"})
    assert yaml.body.startswith(b"kind: ConfigMapList\napiVersion: v1\n")
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    document = (await api.get(MAPS, headers=table, limit="1")).ok()
    assert document["metadata"]["remainingItemCount"] == 1
    assert [row["cells"][0] for row in document["rows"]] == ["map-0"]


async def test_absent_fields_of_pods_match_their_zero_value(api: Api) -> None:
    (await api.post(PODS, pod("a"))).ok(201)
    assert names((await api.get(PODS, fieldSelector="spec.nodeName=")).ok()) == ["a"]
    node = {"metadata": {"name": "n"}}
    (await api.post("/api/v1/nodes", node)).ok(201)
    found = await api.get("/api/v1/nodes", fieldSelector="spec.unschedulable=false")
    assert names(found.ok()) == ["n"]


async def test_delete_collection_deletes_the_selected_objects(api: Api) -> None:
    await fill(api)
    deleted = (await api.delete(MAPS, labelSelector="parity=odd")).ok()
    assert deleted["kind"] == "ConfigMapList"
    assert names(deleted) == ["map-1", "map-3"]
    assert len(names((await api.get(MAPS)).ok())) == 3
    (await api.delete(MAPS)).ok()
    assert names((await api.get(MAPS)).ok()) == []


async def test_continue_tokens_are_validated(api: Api) -> None:
    await fill(api, 3)
    token = (await api.get(MAPS, limit="1")).ok()["metadata"]["continue"]
    decoded = json.loads(base64.urlsafe_b64decode(token + "=="))
    assert decoded["v"] == "meta.k8s.io/v1"
    decoded["rv"] = 10**9
    forged = base64.urlsafe_b64encode(json.dumps(decoded).encode()).decode()
    (await api.get(MAPS, **{"continue": forged})).refused(504, "Timeout")
