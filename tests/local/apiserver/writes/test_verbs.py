"""Create, read, update and patch, as a client sees them."""

import json
from typing import Any

import pytest

from local.apiserver.support import (
    APPLY,
    DEFINITIONS,
    JSON_PATCH,
    MAPS,
    MERGE,
    PODS,
    STRATEGIC,
    WIDGETS,
    Api,
    config_map,
    definition,
    pod,
    widget,
)

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
            },
        },
    }


# -- create


async def test_create_sets_the_server_owned_metadata(api: Api) -> None:
    body = config_map("a", uid="mine", generation=9, creationTimestamp="2001-01-01T00:00:00Z")
    body["metadata"]["deletionTimestamp"] = "2001-01-01T00:00:00Z"
    created = (await api.post(MAPS, body)).ok(201)
    metadata = created["metadata"]
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"] == "2027-01-15T08:00:00Z"
    assert metadata["namespace"] == "default"
    assert int(metadata["resourceVersion"]) > 0
    assert "generation" not in metadata
    assert "deletionTimestamp" not in metadata
    assert (await api.get(f"{MAPS}/a")).ok() == created


async def test_create_of_an_existing_object_is_rejected(api: Api) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    status = (await api.post(MAPS, config_map("a"))).refused(
        409, "AlreadyExists", 'configmaps "a" already exists'
    )
    assert status["details"] == {"name": "a", "kind": "configmaps"}


async def test_generated_names_are_unique(api: Api) -> None:
    body = config_map("", generateName="run-")
    del body["metadata"]["name"]
    names = {(await api.post(MAPS, body)).ok(201)["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    assert all(name.startswith("run-") and len(name) == 9 for name in names)


async def test_an_object_without_a_name_is_rejected(api: Api) -> None:
    body = config_map("")
    del body["metadata"]["name"]
    status = (await api.post(MAPS, body)).refused(422, "Invalid")
    assert status["details"]["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        }
    ]


async def test_create_in_a_missing_namespace_is_rejected(api: Api) -> None:
    answer = await api.post("/api/v1/namespaces/nowhere/configmaps", config_map("a"))
    answer.refused(404, "NotFound", 'namespaces "nowhere" not found')


async def test_create_in_a_terminating_namespace_is_rejected(api: Api) -> None:
    (await api.post("/api/v1/namespaces", {"metadata": {"name": "going"}})).ok(201)
    (await api.delete("/api/v1/namespaces/going")).ok()
    answer = await api.post("/api/v1/namespaces/going/configmaps", config_map("a"))
    status = answer.refused(
        403,
        "Forbidden",
        'configmaps "a" is forbidden: unable to create new content in namespace going because it '
        "is being terminated",
    )
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_a_resource_version_on_create_is_rejected(api: Api) -> None:
    answer = await api.post(MAPS, config_map("a", resourceVersion="5"))
    answer.refused(500, message="resourceVersion should not be set on objects to be created")
    invalid = config_map("a", resourceVersion="5") | {"data": {"/": "x"}}
    (await api.post(MAPS, invalid)).refused(422, "Invalid")
    # A dry run does not reach the storage, which refuses it upstream.
    (await api.post(MAPS, config_map("a", resourceVersion="5"), dryRun="All")).ok(201)


async def test_an_empty_dry_run_is_refused(api: Api) -> None:
    status = (await api.post(MAPS, config_map("a"), dryRun="")).refused(422, "Invalid")
    assert status["details"]["causes"][0]["field"] == "dryRun"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kind": "Secret"},
            (
                'Secret in version "v1" cannot be handled as a ConfigMap: the kind in the data '
                "(Secret) does not match the expected kind (ConfigMap)"
            ),
        ),
        (
            {"apiVersion": "v2"},
            "the API version in the data (v2) does not match the expected API version (v1)",
        ),
        (
            {"metadata": {"name": "a", "namespace": "other"}},
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
async def test_an_object_with_another_namespace_or_kind_is_rejected(
    api: Api, change: dict[str, Any], message: str
) -> None:
    (await api.post(MAPS, config_map("a") | change)).refused(400, "BadRequest", message)


async def test_built_in_objects_may_omit_kind_and_version(api: Api) -> None:
    created = (await api.post(MAPS, {"metadata": {"name": "a"}})).ok(201)
    assert (created["kind"], created["apiVersion"]) == ("ConfigMap", "v1")


async def test_custom_objects_need_kind_and_version(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    body = widget("a")
    del body["kind"]
    (await api.post(WIDGETS, body)).refused(
        400, "BadRequest", "Object 'Kind' is missing in the request body"
    )


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"text"', b"null", b"\xff\xfe", b"{" * 5000, b'{"metadata": 3}']
)
async def test_bodies_that_are_not_objects_are_rejected(api: Api, body: bytes) -> None:
    answer = await api.post(MAPS, body)
    assert answer.code in {400, 422}
    assert answer.document["kind"] == "Status"


@pytest.mark.parametrize("metadata", [{"name": 3}, {"name": "a", "labels": "x"}, {"name": ["a"]}])
async def test_metadata_of_the_wrong_type_is_rejected(api: Api, metadata: dict[str, Any]) -> None:
    (await api.post(MAPS, {"metadata": metadata})).refused(400, "BadRequest")


async def test_yaml_bodies_are_accepted(api: Api) -> None:
    body = b"metadata:\n  name: a\ndata:\n  when: 2001-01-01\n  text: 'yes'\n"
    answer = await api.post(MAPS, body, content_type="application/yaml")
    assert answer.ok(201)["data"] == {"when": "2001-01-01", "text": "yes"}
    shown = await api.get(f"{MAPS}/a", headers={"Accept": "application/yaml"})
    assert b"kind: ConfigMap" in shown.body


# -- strictness


async def test_unknown_and_duplicate_fields(api: Api) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"a":"1","a":"2"},"datum":{}}'
    strict = await api.post(MAPS, body, fieldValidation="Strict")
    strict.refused(
        400,
        "BadRequest",
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'duplicate field "data.a", unknown field "datum"',
    )
    warned = await api.post(MAPS, body, dryRun="All")
    assert warned.warnings == [
        r'299 - "duplicate field \"data.a\""',
        r'299 - "unknown field \"datum\""',
    ]
    silent = await api.post(MAPS, body, fieldValidation="Ignore")
    assert silent.warnings == []
    created = silent.ok(201)
    assert created["data"] == {"a": "2"}
    assert "datum" not in created


async def test_duplicate_yaml_keys_are_reported_with_their_line(api: Api) -> None:
    body = b"metadata:\n  name: a\ndata:\n  a: x\n  a: y\n"
    answer = await api.post(MAPS, body, content_type="application/yaml", fieldValidation="Strict")
    answer.refused(400)
    assert 'line 5: key "a" already set in map' in answer.document["message"]


async def test_spaces_before_colons_hide_no_duplicates(api: Api) -> None:
    body = b'{"metadata" : {"name" : "a"}, "data" : {"a" : "{\\"x\\":1}", "a" : "2"}}'
    answer = await api.post(MAPS, body, fieldValidation="Strict")
    assert 'duplicate field "data.a"' in answer.refused(400)["message"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"dryRun": "yes"}, 'dryRun: Unsupported value: "yes": supported values: "All"'),
        ({"fieldValidation": "strict"}, 'fieldValidation: Unsupported value: "strict"'),
        ({"fieldManager": "x" * 129}, "fieldManager: Too long: may not be more than 128 bytes"),
        ({"fieldManager": "a\nb"}, "fieldManager: Invalid value:"),
        ({"force": "true"}, "force: Forbidden: may not be specified for non-apply patch"),
    ],
)
async def test_invalid_options_are_reported(api: Api, query: dict[str, str], text: str) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    answer = await api.patch(f"{MAPS}/a", {"data": {}}, **query)
    assert text in answer.refused(422, "Invalid")["message"]


async def test_values_of_a_wrong_type_are_rejected(api: Api) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["image"] = 3
    wrong = (
        "json: cannot unmarshal number into Go struct field Container.spec.containers.image "
        "of type string"
    )
    prefix = 'Pod in version "v1" cannot be handled as a Pod: '
    (await api.post(PODS, body)).refused(400, "BadRequest", prefix + wrong)
    (await api.post(PODS, pod("a"))).ok(201)
    patch = [{"op": "replace", "path": "/spec/containers/0/image", "value": 3}]
    refused = (await api.patch(f"{PODS}/a", patch, JSON_PATCH)).refused(422, "Invalid")
    assert refused["message"].startswith(' "" is invalid: patch: Invalid value: "{')
    assert refused["message"].endswith(wrong)


@pytest.mark.parametrize(
    ("operations", "code", "message"),
    [
        ([{"op": "test", "path": "/data/key", "value": "x"}], 422, "the server rejected our"),
        ([{"op": 3}], 400, "cannot unmarshal number into Go struct field jsonPatchOp.op of type"),
        ([3], 400, "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
        ([{"op": "test", "path": "/kind"}] * 10_001, 413, "operations in a JSON patch is 10000"),
    ],
)
async def test_json_patches_that_cannot_be_applied(
    api: Api, operations: Any, code: int, message: str
) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    refused = (await api.patch(f"{MAPS}/a", operations, JSON_PATCH)).refused(code)
    assert message in refused["message"]


async def test_unknown_fields_of_a_patch_are_reported(api: Api) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    patch = [{"op": "add", "path": "/datum", "value": "x", "extra": 1}]
    answer = await api.patch(f"{MAPS}/a", patch, JSON_PATCH)
    assert answer.warnings == [
        r'299 - "json patch unknown field \"[0].extra\""',
        r'299 - "unknown field \"datum\""',
    ]
    strict = await api.patch(f"{MAPS}/a", {"datum": {}}, STRATEGIC, fieldValidation="Strict")
    assert strict.refused(422)["message"] == (
        ' "" is invalid: patch: Invalid value: "map[datum:map[]]": '
        'strict decoding error: unknown field "datum"'
    )


# -- update


async def test_put_replaces_and_conflicts_on_an_old_version(api: Api) -> None:
    created = (await api.post(MAPS, config_map("a"))).ok(201)
    created["data"] = {"key": "new"}
    updated = (await api.put(f"{MAPS}/a", created)).ok(200)
    assert updated["data"] == {"key": "new"}
    assert updated["metadata"]["uid"] == created["metadata"]["uid"]
    (await api.put(f"{MAPS}/a", created)).refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please '
        "apply your changes to the latest version and try again",
    )
    del created["metadata"]["resourceVersion"]
    (await api.put(f"{MAPS}/a", created)).ok(200)


async def test_put_cannot_change_the_identity_of_an_object(api: Api) -> None:
    created = (await api.post(MAPS, config_map("a"))).ok(201)
    other = config_map("a", uid="00000000-0000-0000-0000-000000000000")
    answer = await api.put(f"{MAPS}/a", other)
    assert "Precondition failed: UID in precondition" in answer.refused(409)["message"]
    (await api.put(f"{MAPS}/a", config_map("b"))).refused(
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    )
    tampered = config_map("a", creationTimestamp="2001-01-01T00:00:00Z", generation=5)
    kept = (await api.put(f"{MAPS}/a", tampered)).ok()["metadata"]
    assert kept["creationTimestamp"] == created["metadata"]["creationTimestamp"]
    assert "generation" not in kept


async def test_put_of_a_missing_object_is_404_for_most_kinds(api: Api) -> None:
    (await api.put(f"{MAPS}/a", config_map("a"))).refused(404, "NotFound")
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}
    created = (await api.put(f"{LEASES}/l", lease)).ok(201)
    (await api.put(f"{LEASES}/l", created)).ok(200)
    message = (await api.put(f"{LEASES}/l", lease)).refused(422)["message"]
    assert message == (
        'leases.coordination.k8s.io "l" is invalid: metadata.resourceVersion: Invalid value: 0: '
        "must be specified for an update"
    )


@pytest.mark.parametrize(
    ("group", "kind", "plural"),
    [
        ("", "Service", "services"),
        ("", "LimitRange", "limitranges"),
        ("rbac.authorization.k8s.io", "Role", "roles"),
    ],
)
async def test_put_creates_objects_of_some_kinds(
    api: Api, group: str, kind: str, plural: str
) -> None:
    """The kinds whose upstream strategy has ``AllowCreateOnUpdate``."""
    version = f"{group}/v1" if group else "v1"
    path = f"/{'apis' if group else 'api'}/{version}/namespaces/default/{plural}/new"
    body: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": {"name": "new"}}
    if kind == "Service":
        body["spec"] = {"ports": [{"port": 80}]}
    assert (await api.put(path, body)).ok(201)["metadata"]["name"] == "new"


async def test_a_write_of_the_status_of_a_missing_service_creates_it(api: Api) -> None:
    """Upstream's strategy of the status has ``AllowCreateOnUpdate``, as that of Services."""
    path = "/api/v1/namespaces/default/services/new/status"
    status = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "new"}, "status": status}
    applied = await api.patch(path, body, APPLY, fieldManager="me")
    assert "spec.ports: Required value" in applied.refused(422, "Invalid")["message"]
    (await api.patch(path, body, MERGE)).refused(404, "NotFound")
    created = (await api.put(path, body | {"spec": {"ports": [{"port": 80}]}})).ok(201)
    assert created["status"] == {"loadBalancer": {}}
    assert "clusterIP" not in created["spec"]
    (owned,) = created["metadata"]["managedFields"]
    assert set(owned["fieldsV1"]) == {"f:status"}


async def test_put_of_a_custom_object_needs_its_resource_version(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    message = (await api.put(f"{WIDGETS}/a", widget("a", 4))).refused(422)["message"]
    assert "metadata.resourceVersion: Invalid value: 0" in message
    assert "must be specified for an update" in message


async def test_writes_that_change_nothing_keep_the_resource_version(api: Api) -> None:
    created = (await api.post(DEPLOYMENTS, deployment("d"))).ok(201)
    path = f"{DEPLOYMENTS}/d"
    version = created["metadata"]["resourceVersion"]
    api.clock.now += 100
    for number, answer in enumerate(
        (
            await api.put(path, created),
            await api.put(path, deployment("d")),
            await api.patch(path, {"spec": {"replicas": 1}}),
            await api.patch(path, {"spec": {"replicas": 1}}, STRATEGIC),
            await api.patch(
                path, [{"op": "replace", "path": "/spec/replicas", "value": 1}], JSON_PATCH
            ),
            await api.patch(f"{path}/status", {"status": {}}),
        )
    ):
        assert answer.ok()["metadata"]["resourceVersion"] == version, number
    applied = (await api.patch(path, deployment("d"), APPLY, fieldManager="me")).ok()
    again = (await api.patch(path, deployment("d"), APPLY, fieldManager="me")).ok()
    assert applied["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


async def test_true_is_not_one(api: Api) -> None:
    """In Python they are equal; in JSON that is a change."""
    body = definition()
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["any"] = {"x-kubernetes-preserve-unknown-fields": True}
    (await api.post(DEFINITIONS, body)).ok(201)
    made = widget("a")
    made["spec"]["any"] = 1
    created = (await api.post(WIDGETS, made)).ok(201)
    changed = (await api.patch(f"{WIDGETS}/a", {"spec": {"any": True}}, MERGE)).ok()
    assert changed["spec"]["any"] is True
    assert changed["metadata"]["generation"] == created["metadata"]["generation"] + 1


async def test_generation_counts_changes_of_the_desired_state(api: Api) -> None:
    path = f"{DEPLOYMENTS}/d"
    (await api.post(DEPLOYMENTS, deployment("d"))).ok(201)

    async def generation_after(answer: Any) -> int:
        return int(answer.ok()["metadata"]["generation"])

    assert await generation_after(await api.get(path)) == 1
    labelled = await api.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert await generation_after(labelled) == 1
    status = await api.patch(f"{path}/status", {"status": {"replicas": 1}})
    assert await generation_after(status) == 1
    assert await generation_after(await api.patch(path, {"spec": {"replicas": 2}})) == 2
    sneaky = await api.patch(path, {"metadata": {"generation": 77}, "spec": {"paused": True}})
    assert await generation_after(sneaky) == 3


async def test_spec_and_status_are_written_separately(api: Api) -> None:
    body = deployment("d")
    body["status"] = {"replicas": 9}
    created = (await api.post(DEPLOYMENTS, body)).ok(201)
    assert created.get("status", {}).get("replicas") is None
    path = f"{DEPLOYMENTS}/d"
    both = {"spec": {"replicas": 5}, "status": {"replicas": 5}}
    spec_only = (await api.patch(path, both)).ok()
    assert spec_only["spec"]["replicas"] == 5
    assert spec_only.get("status", {}).get("replicas") is None
    both["spec"]["replicas"] = 7
    status_only = (await api.patch(f"{path}/status", both)).ok()
    assert status_only["spec"]["replicas"] == 5
    assert status_only["status"]["replicas"] == 5
    status_only["spec"]["replicas"] = 1
    status_only["status"]["replicas"] = 1
    put = (await api.put(f"{path}/status", status_only)).ok()
    assert (put["spec"]["replicas"], put["status"]["replicas"]) == (5, 1)
    assert (await api.get(f"{path}/status")).ok() == put


async def test_a_status_write_changes_only_the_status_of_custom_objects(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    body = widget("a") | {"status": {"phase": "Set"}}
    created = (await api.post(WIDGETS, body)).ok(201)
    assert "status" not in created
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {"size": 9}, "status": {"phase": "On"}}
    patched = (await api.patch(f"{WIDGETS}/a/status", change)).ok()
    assert patched["status"] == {"phase": "On"}
    assert patched["spec"]["size"] == 3
    assert "labels" not in patched["metadata"]


async def test_dry_run_stores_nothing(api: Api) -> None:
    dry = (await api.post(MAPS, config_map("a"), dryRun="All")).ok(201)
    assert dry["metadata"]["uid"]
    assert "resourceVersion" not in dry["metadata"]
    (await api.get(f"{MAPS}/a")).refused(404)
    created = (await api.post(MAPS, config_map("a"))).ok(201)
    changed = {"data": {"key": "new"}}
    assert (await api.patch(f"{MAPS}/a", changed, dryRun="All")).ok()["data"] == changed["data"]
    (await api.delete(f"{MAPS}/a", dryRun="All")).ok()
    (await api.delete(f"{MAPS}/a", {"dryRun": ["All"]})).ok()
    (await api.delete(MAPS, dryRun="All")).ok()
    assert (await api.get(f"{MAPS}/a")).ok() == created
    (await api.post(MAPS, config_map("a"), dryRun="All")).refused(409, "AlreadyExists")


async def test_immutable_config_maps_cannot_be_changed(api: Api) -> None:
    body = config_map("a") | {"immutable": True}
    (await api.post(MAPS, body)).ok(201)
    refused = (await api.patch(f"{MAPS}/a", {"data": {"key": "new"}})).refused(422, "Invalid")
    assert refused["details"]["causes"][0]["field"] == "data"
    (await api.patch(f"{MAPS}/a", {"immutable": None})).refused(422)
    (await api.patch(f"{MAPS}/a", {"metadata": {"labels": {"a": "b"}}})).ok()


async def test_string_data_of_secrets_is_merged_into_data(api: Api) -> None:
    path = "/api/v1/namespaces/default/secrets"
    body = {"metadata": {"name": "s"}, "stringData": {"a": "text"}, "data": {"b": "eA=="}}
    created = (await api.post(path, body)).ok(201)
    assert created["data"] == {"b": "eA==", "a": "dGV4dA=="}
    assert "stringData" not in created
    patched = (await api.patch(f"{path}/s", {"stringData": {"b": "y"}})).ok()
    assert patched["data"]["b"] == "eQ=="


# -- patch


async def test_every_patch_format_changes_the_object(api: Api) -> None:
    (await api.post(DEPLOYMENTS, deployment("d"))).ok(201)
    path = f"{DEPLOYMENTS}/d"
    container = {"name": "side", "image": "busybox:1"}
    template = {"spec": {"template": {"spec": {"containers": [container]}}}}
    strategic = (await api.patch(path, template, STRATEGIC)).ok()
    containers = strategic["spec"]["template"]["spec"]["containers"]
    assert {each["name"] for each in containers} == {"main", "side"}
    merged = (await api.patch(path, template, MERGE)).ok()
    assert [each["name"] for each in merged["spec"]["template"]["spec"]["containers"]] == ["side"]
    operation = {"op": "add", "path": "/metadata/annotations", "value": {"a/b": "c"}}
    patched = (await api.patch(path, [operation], JSON_PATCH)).ok()
    assert patched["metadata"]["annotations"]["a/b"] == "c"


async def test_strategic_merge_of_custom_objects_is_unsupported(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    message = (await api.patch(f"{WIDGETS}/a", {}, STRATEGIC)).refused(415, "UnsupportedMediaType")[
        "message"
    ]
    assert message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )
    (await api.patch(f"{WIDGETS}/a", {}, "application/json")).refused(415)


async def test_a_failed_test_operation_is_rejected(api: Api) -> None:
    created = (await api.post(MAPS, config_map("a"))).ok(201)
    guard = {"op": "test", "path": "/metadata/resourceVersion", "value": "1"}
    change = {"op": "replace", "path": "/data/key", "value": "new"}
    answer = await api.patch(f"{MAPS}/a", [guard, change], JSON_PATCH)
    answer.refused(422, "Invalid")
    guard["value"] = created["metadata"]["resourceVersion"]
    (await api.patch(f"{MAPS}/a", [guard, change], JSON_PATCH)).ok()


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        (JSON_PATCH, b"{}", 400),
        (JSON_PATCH, b"[{]", 400),
        (JSON_PATCH, b'[{"op":"remove","path":"/nothing"}]', 422),
        (JSON_PATCH, b'[{"op":"replace","path":"","value":3}]', 422),
        (JSON_PATCH, b'[{"op":"replace","path":"","value":[3]}]', 400),
        (JSON_PATCH, b'[{"op":"fly","path":"/data"}]', 422),
        (MERGE, b"[]", 400),
        (MERGE, b"null", 400),
        (MERGE, b'{"metadata":3}', 422),
        (MERGE, b'{"metadata":{"name":"b"}}', 400),
        (MERGE, b'{"kind":"Pod"}', 400),
        (MERGE, b'{"data":{"key":3}}', 422),
        (STRATEGIC, b"3", 400),
        (APPLY, b": :", 400),
        (APPLY, b"[]", 400),
        (APPLY, b"", 400),
    ],
)
async def test_invalid_patches_are_rejected(api: Api, kind: str, body: bytes, code: int) -> None:
    created = (await api.post(MAPS, config_map("a"))).ok(201)
    query = {"fieldManager": "me"} if kind == APPLY else {}
    answer = await api.patch(f"{MAPS}/a", body, kind, **query)
    answer.refused(code)
    assert (await api.get(f"{MAPS}/a")).ok() == created


async def test_a_patch_with_an_old_version_conflicts(api: Api) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    patch = {"metadata": {"resourceVersion": "1"}, "data": {"key": "new"}}
    (await api.patch(f"{MAPS}/a", patch)).refused(409, "Conflict")


async def test_patch_of_a_missing_object_is_404(api: Api) -> None:
    (await api.patch(f"{MAPS}/a", {})).refused(404, "NotFound", 'configmaps "a" not found')


async def test_managed_fields_can_be_replaced_by_a_patch(api: Api) -> None:
    """As kubectl does when it migrates an object from client-side to server-side apply."""
    created = (await api.post(MAPS, config_map("a"), fieldManager="before")).ok(201)
    entries = created["metadata"]["managedFields"]
    entries[0]["manager"] = "after"
    operation = {"op": "replace", "path": "/metadata/managedFields", "value": entries}
    patched = (await api.patch(f"{MAPS}/a", [operation], JSON_PATCH)).ok()
    assert [entry["manager"] for entry in patched["metadata"]["managedFields"]] == ["after"]


# -- apply


async def test_apply_creates_updates_and_removes_fields(api: Api) -> None:
    path = f"{MAPS}/a"
    body = json.dumps(config_map("a", {"one": "1", "two": "2"})).encode()
    created = (await api.patch(path, body, APPLY, fieldManager="me")).ok(201)
    assert created["metadata"]["managedFields"][0]["operation"] == "Apply"
    yaml = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {one: '3'}\n"
    updated = (await api.patch(path, yaml, APPLY, fieldManager="me")).ok(200)
    assert updated["data"] == {"one": "3"}


async def test_apply_reads_yaml_that_looks_like_json(api: Api) -> None:
    body = json.dumps(config_map("a", {"a": "1"})).encode()[:-1] + b",}"
    created = (await api.patch(f"{MAPS}/a", body, APPLY, fieldManager="me")).ok(201)
    assert created["data"] == {"a": "1"}


async def test_apply_conflicts_name_the_owner_and_the_field(api: Api) -> None:
    path = f"{MAPS}/a"
    (await api.patch(path, config_map("a"), APPLY, fieldManager="one")).ok(201)
    other = config_map("a", {"key": "mine"})
    status = (await api.patch(path, other, APPLY, fieldManager="two")).refused(
        409,
        "Conflict",
        'Apply failed with 1 conflict: conflict with "one": .data.key',
    )
    assert status["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "one"',
            "field": ".data.key",
        }
    ]
    forced = await api.patch(path, other, APPLY, fieldManager="two", force="true")
    assert forced.ok()["data"] == {"key": "mine"}


async def test_apply_needs_a_manager_and_no_managed_fields(api: Api) -> None:
    path = f"{MAPS}/a"
    refused = (await api.patch(path, config_map("a"), APPLY)).refused(422, "Invalid")
    assert refused["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for '
        "apply patch"
    )
    body = config_map("a", managedFields=[{"manager": "x", "operation": "Apply"}])
    (await api.patch(path, body, APPLY, fieldManager="me")).refused(
        400, "BadRequest", "metadata.managedFields must be nil"
    )
    body = config_map("a", uid="00000000-0000-0000-0000-000000000000")
    answer = await api.patch(path, body, APPLY, fieldManager="me")
    assert "no existing object was found" in answer.refused(409, "Conflict")["message"]


async def test_apply_to_the_status_touches_the_status_only(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    body = widget("a", 9) | {"status": {"phase": "On"}}
    applied = (await api.patch(f"{WIDGETS}/a/status", body, APPLY, fieldManager="me")).ok()
    assert applied["status"] == {"phase": "On"}
    assert applied["spec"]["size"] == 3
    mine = next(e for e in applied["metadata"]["managedFields"] if e["manager"] == "me")
    assert mine["subresource"] == "status"
    assert set(mine["fieldsV1"]) == {"f:status"}
    missing = await api.patch(f"{WIDGETS}/b/status", widget("b"), APPLY, fieldManager="me")
    missing.refused(404, "NotFound")


async def test_apply_takes_only_what_the_schema_knows(api: Api) -> None:
    body = config_map("a") | {"datum": {}}
    answer = await api.patch(f"{MAPS}/a", body, APPLY, fieldManager="me", fieldValidation="Ignore")
    answer.refused(
        500,
        message="failed to create typed patch object (/a; /v1, Kind=ConfigMap): "
        ".datum: field not declared in schema",
    )


async def test_fields_that_apply_empties_have_to_be_nullable(api: Api) -> None:
    crd = definition()
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["options"] = {
        "type": "object",
        "additionalProperties": {"type": "string"},
    }
    (await api.post(DEFINITIONS, crd)).ok(201)
    path = f"{WIDGETS}/a"
    body = widget("a", options={"k": "v"})
    (await api.patch(path, body, APPLY, fieldManager="me")).ok(201)
    body["spec"]["options"] = {}
    (await api.patch(path, body, APPLY, fieldManager="me")).refused(
        422,
        message='Widget.example.com "a" is invalid: spec.options: Invalid value: "null": '
        'spec.options in body must be of type object: "null"',
    )


async def test_an_applied_field_that_is_unknown_raises_the_generation(api: Api) -> None:
    """Below a field that preserves unknown ones, apply accepts what is pruned afterwards."""
    crd = definition()
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-preserve-unknown-fields"] = True
    spec["properties"]["known"] = {"type": "object", "properties": {"a": {"type": "string"}}}
    (await api.post(DEFINITIONS, crd)).ok(201)
    path = f"{WIDGETS}/a"
    (await api.patch(path, widget("a", known={}), APPLY, fieldManager="bob")).ok(201)
    body = {**widget("a"), "spec": {"known": {"unheard": 1}}}
    stored = (await api.patch(path, body, APPLY, fieldManager="carol")).ok()
    assert (stored["spec"]["known"], stored["metadata"]["generation"]) == ({}, 2)


# -- managed fields


async def test_every_kind_of_write_is_tracked(api: Api) -> None:
    path = f"{DEPLOYMENTS}/d"
    (await api.post(DEPLOYMENTS, deployment("d"), headers={"User-Agent": "creator/v1 (x)"})).ok()
    (await api.patch(path, {"spec": {"paused": True}}, fieldManager="patcher")).ok()
    (await api.patch(f"{path}/status", {"status": {"replicas": 1}}, fieldManager="status")).ok()
    (await api.patch(f"{path}/scale", {"spec": {"replicas": 4}}, fieldManager="scaler")).ok()
    entries = (await api.get(path)).ok()["metadata"]["managedFields"]
    assert {(e["manager"], e["operation"], e.get("subresource")) for e in entries} == {
        ("creator", "Update", None),
        ("patcher", "Update", None),
        ("status", "Update", "status"),
        ("scaler", "Update", "scale"),
    }


# -- reading


async def test_missing_objects_are_reported(api: Api) -> None:
    (await api.get(f"{MAPS}/a")).refused(404, "NotFound", 'configmaps "a" not found')
    (await api.get(f"{DEPLOYMENTS}/a")).refused(404, "NotFound", 'deployments.apps "a" not found')
    for path in (
        "/apis/nothing.example/v1/things",
        "/api/v1/things",
        "/api/v1/namespaces/default/nodes",
        f"{MAPS}/",
        f"{MAPS}/a/b/c",
        "/nothing",
        "/api/v2",
    ):
        answer = await api.get(path)
        answer.refused(404, "NotFound", "the server could not find the requested resource")
        assert answer.document["details"] == {}  # kubectl debug crashes without


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{MAPS}/a"),
        ("PUT", MAPS),
        ("PATCH", MAPS),
        ("DELETE", "/api/v1/namespaces"),
        ("DELETE", "/api/v1/configmaps"),
        ("GET", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
        ("DELETE", f"{DEPLOYMENTS}/d/scale"),
    ],
)
async def test_unsupported_verbs_are_rejected(api: Api, method: str, path: str) -> None:
    body: dict[str, Any] | None = {} if method in {"POST", "PUT"} else None
    (await api.request(method, path, body)).refused(405, "MethodNotAllowed")


async def test_tables_and_metadata_only(api: Api) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    for path in (f"{MAPS}/a", MAPS):
        document = (await api.get(path, headers=table)).ok()
        assert document["kind"] == "Table"
        assert document["columnDefinitions"][0]["name"] == "Name"
        (row,) = document["rows"]
        assert row["cells"][0] == "a"
        assert row["object"]["kind"] == "PartialObjectMetadata"
        assert "data" not in row["object"]
    whole = (await api.get(MAPS, headers=table, includeObject="Object")).ok()
    assert whole["rows"][0]["object"]["data"] == {"key": "value"}
    bare = (await api.get(MAPS, headers=table, includeObject="None")).ok()
    assert "object" not in bare["rows"][0]
    partial = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    document = (await api.get(MAPS, headers=partial)).ok()
    assert document["kind"] == "PartialObjectMetadataList"
    assert set(document["items"][0]) == {"kind", "apiVersion", "metadata"}
    partial = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    assert (await api.get(f"{MAPS}/a", headers=partial)).ok()["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.kubernetes.protobuf",
        "text/html",
        "application/json;as=Table;v=v9;g=meta.k8s.io",
        "application/json;as=Chair;v=v1;g=meta.k8s.io",
    ],
)
async def test_unknown_representations_are_not_acceptable(api: Api, accept: str) -> None:
    (await api.get(MAPS, headers={"Accept": accept})).refused(406, "NotAcceptable")
    body = config_map("a")
    (await api.post(MAPS, body, headers={"Accept": accept})).refused(406, "NotAcceptable")
    assert (await api.get(MAPS)).ok()["items"] == []  # refused before anything was done


async def test_reviews_have_no_tables(api: Api) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    (await api.post(path, {"spec": {}}, headers=table)).refused(406, "NotAcceptable")


async def test_the_administrator_may_do_everything(api: Api) -> None:
    authorization = "/apis/authorization.k8s.io/v1"
    spec = {"resourceAttributes": {"verb": "create", "resource": "pods"}}
    review = (await api.post(f"{authorization}/selfsubjectaccessreviews", {"spec": spec})).ok(201)
    assert review["status"] == {"allowed": True}
    assert review["spec"] == spec
    asked = {"spec": {"namespace": "default"}}
    rules = (await api.post(f"{authorization}/selfsubjectrulesreviews", asked)).ok(201)
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    assert everything in rules["status"]["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in rules["status"]["nonResourceRules"]
    authentication = "/apis/authentication.k8s.io/v1"
    who = (await api.post(f"{authentication}/selfsubjectreviews", {})).ok(201)
    assert "system:masters" in who["status"]["userInfo"]["groups"]
    token = {"spec": {"token": "nonsense"}}
    review = (await api.post(f"{authentication}/tokenreviews", token)).ok(201)
    assert "authenticated" not in review["status"]


async def test_future_revisions_time_out_with_a_retry_delay(api: Api) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    for path in (MAPS, f"{MAPS}/a"):
        answer = await api.get(path, resourceVersion="99999")
        status = answer.refused(504, "Timeout")
        assert status["message"].startswith("Too large resource version: 99999, current: ")
        assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
        assert answer.headers["Retry-After"] == "1"
        (await api.get(path, resourceVersion="0")).ok()
        (await api.get(path, resourceVersion="abc")).refused(400)
