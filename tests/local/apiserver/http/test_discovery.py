"""Discovery, OpenAPI and version: what clients request first."""

import pytest

from local.apiserver.support import DEFINITIONS, Api, definition

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


async def test_the_version_has_the_release_and_a_suffix(api: Api) -> None:
    document = (await api.get("/version")).ok()
    assert (await api.get("/version/")).ok() == document
    assert (document["major"], document["minor"]) == ("1", "36")
    assert document["gitVersion"].startswith("v1.36.")
    assert document["gitVersion"].endswith("+traincrew")


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/healthz", "/readyz/ping"])
async def test_health(api: Api, path: str) -> None:
    assert (await api.get(path)).body == b"ok"


async def test_plain_discovery(api: Api) -> None:
    assert (await api.get("/api")).ok()["versions"] == ["v1"]
    groups = (await api.get("/apis", headers={"Accept": "*/*"})).ok()
    assert groups["kind"] == "APIGroupList"
    by_name = {group["name"]: group for group in groups["groups"]}
    assert by_name["batch"]["preferredVersion"] == {"groupVersion": "batch/v1", "version": "v1"}
    assert (await api.get("/apis/batch")).ok()["kind"] == "APIGroup"
    core = (await api.get("/api/v1")).ok()
    assert core["groupVersion"] == "v1"
    pods = next(each for each in core["resources"] if each["name"] == "pods")
    assert pods == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": [
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
        "shortNames": ["po"],
        "categories": ["all"],
    }
    apps = (await api.get("/apis/apps/v1")).ok()["resources"]
    assert next(each for each in apps if each["name"] == "statefulsets/scale") == {
        "name": "statefulsets/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated_discovery(api: Api, version: str) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    accept = {
        "Accept": AGGREGATED[
            AGGREGATED.index(f"application/json;g=apidiscovery.k8s.io;v={version};") :
        ]
    }
    answer = await api.get("/apis", headers=accept)
    assert answer.headers["Content-Type"] == (
        f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    )
    document = answer.ok()
    assert document["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    items = {item["metadata"]["name"]: item for item in document["items"]}
    widgets = items["example.com"]["versions"][0]["resources"][0]
    assert widgets["resource"] == "widgets"
    assert widgets["scope"] == "Namespaced"
    assert [each["subresource"] for each in widgets["subresources"]] == ["scale", "status"]
    core = (await api.get("/api", headers=accept)).ok()["items"]
    assert [item["metadata"].get("name") for item in core] == [None]


async def test_aggregated_and_plain_discovery_agree(api: Api) -> None:
    document = (await api.get("/apis", headers={"Accept": AGGREGATED})).ok()
    for item in document["items"]:
        group = item["metadata"]["name"]
        for version in item["versions"]:
            plain = (await api.get(f"/apis/{group}/{version['version']}")).ok()["resources"]
            aggregated = set()
            for resource in version["resources"]:
                aggregated.add(resource["resource"])
                for subresource in resource.get("subresources", ()):
                    aggregated.add(f"{resource['resource']}/{subresource['subresource']}")
            assert aggregated == {each["name"] for each in plain}


async def test_every_listed_resource_is_served(api: Api) -> None:
    document = (await api.get("/apis", headers={"Accept": AGGREGATED})).ok()
    core = (await api.get("/api", headers={"Accept": AGGREGATED})).ok()
    for item in [*document["items"], *core["items"]]:
        group = item["metadata"].get("name")
        for version in item["versions"]:
            base = f"/apis/{group}/{version['version']}" if group else "/api/v1"
            for resource in version["resources"]:
                path = f"{base}/{resource['resource']}"
                if "list" in resource["verbs"]:
                    listed = (await api.get(path)).ok()
                    assert listed["kind"] == resource["responseKind"]["kind"] + "List"
                else:
                    (await api.get(path)).refused(405)


async def test_openapi_documents_are_found_by_their_hash(api: Api) -> None:
    paths = (await api.get("/openapi/v3")).ok()["paths"]
    before = paths["apis/apps/v1"]["serverRelativeURL"]
    assert "hash=" in before
    async with api.session.get(api.server.url + before) as answer:
        document = await answer.json()
    assert document["openapi"] == "3.0.0"
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
    }
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    schema = document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"]
    assert schema["description"].startswith("Deployment enables declarative updates")
    references = set(_references(document))
    assert references <= {f"#/components/schemas/{n}" for n in document["components"]["schemas"]}


def _references(value: object) -> list[str]:
    if isinstance(value, dict):
        found = [each for item in value.values() for each in _references(item)]
        return found + ([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
    if isinstance(value, list):
        return [each for item in value for each in _references(item)]
    return []


async def test_every_group_has_a_valid_document(api: Api) -> None:
    for path in (await api.get("/openapi/v3")).ok()["paths"]:
        document = (await api.get(f"/openapi/v3/{path}")).ok()
        schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert set(_references(document)) <= schemas, path


async def test_openapi_changes_with_definitions(api: Api) -> None:
    (await api.get("/openapi/v3/apis/example.com/v1")).refused(404)
    (await api.post(DEFINITIONS, definition())).ok(201)
    first = (await api.get("/openapi/v3")).ok()["paths"]["apis/example.com/v1"]
    document = (await api.get("/openapi/v3/apis/example.com/v1")).ok()
    schema = document["components"]["schemas"]["com.example.v1.Widget"]
    assert "size" in schema["properties"]["spec"]["properties"]
    body = (await api.get(f"{DEFINITIONS}/widgets.example.com")).ok()
    properties = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["extra"] = {"type": "string"}
    (await api.put(f"{DEFINITIONS}/widgets.example.com", body)).ok()
    second = (await api.get("/openapi/v3")).ok()["paths"]["apis/example.com/v1"]
    assert second != first
    document = (await api.get("/openapi/v3/apis/example.com/v1")).ok()
    schema = document["components"]["schemas"]["com.example.v1.Widget"]
    assert "extra" in schema["properties"]["spec"]["properties"]
    (await api.delete(f"{DEFINITIONS}/widgets.example.com")).ok()
    (await api.get("/openapi/v3/apis/example.com/v1")).refused(404)


async def test_the_alpha_kinds_of_groups_come_after_the_stable_version(api: Api) -> None:
    group = (await api.get("/apis/scheduling.k8s.io")).ok()
    assert group["preferredVersion"]["version"] == "v1"
    assert [each["version"] for each in group["versions"]] == ["v1", "v1alpha2"]
    alpha = (await api.get("/apis/scheduling.k8s.io/v1alpha2")).ok()["resources"]
    shown = {each["name"]: each.get("shortNames", []) for each in alpha}
    assert shown == {"podgroups": [], "podgroups/status": [], "workloads": []}


async def test_workloads_of_another_group_keep_their_full_name(api: Api) -> None:
    kueue = definition("workloads")
    kueue["metadata"]["name"] = "workloads.kueue.x-k8s.io"
    kueue["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved"}
    kueue["spec"]["group"] = "kueue.x-k8s.io"
    (await api.post(DEFINITIONS, kueue)).ok(201)
    document = (await api.get("/apis", headers={"Accept": AGGREGATED})).ok()
    having = [
        item["metadata"]["name"]
        for item in document["items"]
        for version in item["versions"]
        if any(each["resource"] == "workloads" for each in version["resources"])
    ]
    assert having == ["scheduling.k8s.io", "kueue.x-k8s.io"]
    version = kueue["spec"]["versions"][0]["name"]
    (await api.get(f"/apis/kueue.x-k8s.io/{version}/workloads")).ok()
