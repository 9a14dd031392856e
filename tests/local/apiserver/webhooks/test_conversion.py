"""Conversion webhooks: a custom resource whose versions have different fields."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from local.apiserver.policies.support import GROUP, binding, install, policy
from local.apiserver.support import APPLY, DEFINITIONS, JSON_PATCH, MERGE, TABLE, Api
from local.apiserver.webhook_support import (
    MUTATING,
    VALIDATING,
    Document,
    Hook,
    configuration,
    patch,
    running_hook,
)

OLD = "/apis/example.com/v1/namespaces/default/rods"
NEW = "/apis/example.com/v2/namespaces/default/rods"
NAME = f"{DEFINITIONS}/rods.example.com"
PREFIX = "conversion webhook for example.com/v1, Kind=Rod "


def rods(hook: Hook, **conversion: Any) -> Document:
    """Return a definition: v1 has `spec.size`, a number; v2, which is stored, `spec.length`."""

    def version(name: str, field: str, kind: str, **more: Any) -> Document:
        properties = {
            "spec": {
                "type": "object",
                "properties": {
                    field: {"type": kind},
                    "color": {"type": "string", "default": f"red of {name}"},
                    "replicas": {"type": "integer"},
                },
            },
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        }
        return {
            "name": name,
            "served": True,
            "storage": name == "v2",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            "selectableFields": [{"jsonPath": f".spec.{field}"}],
            "additionalPrinterColumns": [
                {"name": field, "type": kind, "jsonPath": f".spec.{field}"}
            ],
            "subresources": {
                "status": {},
                "scale": {
                    "specReplicasPath": ".spec.replicas",
                    "statusReplicasPath": ".status.replicas",
                },
            },
            **more,
        }

    service = {"namespace": "default", "name": "hook", "path": "/convert"}
    webhook = {
        "clientConfig": {"caBundle": hook.bundle, "service": service},
        "conversionReviewVersions": ["v3", "v1"],
        **conversion,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rods.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Rod", "plural": "rods"},
            "versions": [version("v1", "size", "integer"), version("v2", "length", "string")],
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }


def converted(request: Document) -> Document:
    """Convert as an operator would: `size: 3` is `length: 3m`."""
    objects = json.loads(json.dumps(request["objects"]))
    for each in objects:
        assert each["apiVersion"] != request["desiredAPIVersion"]
        each["apiVersion"] = request["desiredAPIVersion"]
        spec = each.get("spec") or {}
        if "size" in spec:
            spec["length"] = f"{spec.pop('size')}m"
        elif "length" in spec:
            spec["size"] = int(spec.pop("length")[:-1])
    return {"result": {"status": "Success"}, "convertedObjects": objects}


@pytest.fixture
async def hook(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hook]:
    async with running_hook(api, tmp_path, monkeypatch) as hook:
        hook.convert = converted
        (await api.post(DEFINITIONS, rods(hook))).ok(201)
        yield hook


def rod(name: str = "a", version: str = "v1", **spec: Any) -> Document:
    spec = spec or ({"size": 3} if version == "v1" else {"length": "3m"})
    kind = {"apiVersion": f"example.com/{version}", "kind": "Rod"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


async def test_an_object_is_written_and_read_in_both_versions(api: Api, hook: Hook) -> None:
    created = (await api.post(OLD, rod())).ok(201)
    assert created["apiVersion"] == "example.com/v1"
    assert created["spec"] == {"size": 3, "color": "red of v1"}
    stored = (await api.get(f"{NEW}/a")).ok()
    assert stored["spec"] == {"length": "3m", "color": "red of v1"}
    (entry,) = api.storage.scan("rods.example.com")
    assert entry.obj["apiVersion"] == "example.com/v2"
    for field in ("uid", "creationTimestamp", "resourceVersion", "generation"):
        assert stored["metadata"][field] == created["metadata"][field]

    changed = (await api.put(f"{OLD}/a", created | {"spec": {"size": 4, "color": "blue"}})).ok()
    assert (changed["spec"]["size"], changed["metadata"]["generation"]) == (4, 2)
    assert (await api.put(f"{OLD}/a", changed)).ok() == changed  # which changes nothing
    assert (await api.patch(f"{OLD}/a", {"spec": {"size": 5}}, MERGE)).ok()["spec"]["size"] == 5
    change = [{"op": "test", "path": "/spec/size", "value": 5}]
    (await api.patch(f"{OLD}/a", change, JSON_PATCH)).ok()
    applied = rod(size=6)
    answer = await api.patch(f"{OLD}/a", applied, APPLY, fieldManager="me", force="true")
    assert answer.ok()["spec"]["size"] == 6
    assert (await api.get(f"{NEW}/a")).ok()["spec"]["length"] == "6m"
    (await api.patch(f"{OLD}/a/status", {"status": {"replicas": 2}}, MERGE)).ok()
    deleted = (await api.delete(f"{OLD}/a")).ok()
    assert deleted["status"] == "Success"


async def test_the_stored_version_is_not_converted(api: Api, hook: Hook) -> None:
    (await api.post(NEW, rod(version="v2"))).ok(201)
    (await api.get(NEW)).ok()
    (await api.patch(f"{NEW}/a", {"spec": {"length": "4m"}}, MERGE)).ok()
    (await api.delete(f"{NEW}/a")).ok()
    assert hook.requests == []


async def test_what_the_webhook_is_sent(api: Api, hook: Hook) -> None:
    created = (await api.post(NEW, rod(version="v2"))).ok(201)
    (await api.get(f"{OLD}/a")).ok()
    (request,) = hook.requests
    assert hook.paths == ["/convert"]
    assert request.pop("uid")
    assert request == {"desiredAPIVersion": "example.com/v1", "objects": [created]}


async def test_a_list_is_converted_in_few_calls(api: Api, hook: Hook) -> None:
    for number in range(5):
        (await api.post(NEW, rod(f"r{number}", "v2", length=f"{number}m"))).ok(201)
    listed = (await api.get(OLD)).ok()
    assert [each["spec"]["size"] for each in listed["items"]] == [0, 1, 2, 3, 4]
    assert len(hook.requests) == 1
    page = (await api.get(OLD, limit="2")).ok()
    assert [each["metadata"]["name"] for each in page["items"]] == ["r0", "r1"]
    chosen = (await api.get(OLD, fieldSelector="spec.size=3")).ok()
    assert [each["metadata"]["name"] for each in chosen["items"]] == ["r3"]
    table = (await api.get(OLD, headers={"Accept": TABLE})).ok()
    assert [row["cells"] for row in table["rows"]] == [[f"r{n}", n] for n in range(5)]
    (await api.delete(OLD, fieldSelector="spec.size=3")).ok()
    assert len((await api.get(NEW)).ok()["items"]) == 4


async def test_long_lists_are_converted_in_batches(api: Api, hook: Hook) -> None:
    for number in range(450):
        (await api.post(NEW, rod(f"r{number}", "v2"))).ok(201)
    assert len((await api.get(OLD)).ok()["items"]) == 450
    assert [len(request["objects"]) for request in hook.requests] == [200, 200, 50]


async def test_a_watch_shows_the_version_that_it_asks_for(api: Api, hook: Hook) -> None:
    (await api.post(NEW, rod("a", "v2"))).ok(201)
    async with api.watch(OLD) as watch:
        first = await watch.next()
        assert (first["type"], first["object"]["spec"]["size"]) == ("ADDED", 3)
        for number in range(20):
            change = {"spec": {"length": f"{number}m"}}
            (await api.patch(f"{NEW}/a", change, MERGE)).ok()
        (await api.delete(f"{NEW}/a")).ok()
        events = [await watch.next() for _ in range(21)]
    assert [each["object"]["spec"]["size"] for each in events] == [*range(20), 19]
    assert [each["type"] for each in events] == ["MODIFIED"] * 20 + ["DELETED"]
    assert {each["object"]["apiVersion"] for each in events} == {"example.com/v1"}


async def test_a_watch_selects_converted_objects(api: Api, hook: Hook) -> None:
    (await api.post(NEW, rod("a", "v2"))).ok(201)
    async with api.watch(OLD, fieldSelector="spec.size=4") as watch:
        for length in ("4m", "5m"):
            (await api.patch(f"{NEW}/a", {"spec": {"length": length}}, MERGE)).ok()
        assert await watch.names(2) == [("ADDED", "a"), ("DELETED", "a")]


async def test_a_watch_ends_with_an_error_when_the_webhook_fails(api: Api, hook: Hook) -> None:
    async with api.watch(OLD) as watch:
        hook.convert = lambda _: {"result": {"status": "Failed", "message": "too long"}}
        (await api.post(NEW, rod("a", "v2"))).ok(201)
        event = await watch.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
        message = "conversion webhook for example.com/v2, Kind=Rod failed: too long"
        assert event["object"]["message"] == message
        assert await watch.next_or_end() is None
    async with api.watch(OLD) as watch:
        assert (await watch.next())["object"]["message"] == message


async def test_the_scale_of_a_converted_object(api: Api, hook: Hook) -> None:
    (await api.post(NEW, rod("a", "v2", length="1m", replicas=2))).ok(201)
    scale = (await api.get(f"{OLD}/a/scale")).ok()
    assert scale["spec"]["replicas"] == 2
    (await api.patch(f"{OLD}/a/scale", {"spec": {"replicas": 7}}, MERGE)).ok()
    stored = (await api.get(f"{NEW}/a")).ok()["spec"]
    assert (stored["replicas"], stored["length"]) == (7, "1m")


async def test_unknown_fields_are_dropped_and_defaults_are_set(api: Api, hook: Hook) -> None:
    def answer(request: Document) -> Document:
        response = converted(request)
        for each in response["convertedObjects"]:
            each["spec"] |= {"unknown": 1, "color": None}
        return response

    hook.convert = answer
    (await api.post(NEW, rod("a", "v2", length="1m", color="blue"))).ok(201)
    assert (await api.get(f"{OLD}/a")).ok()["spec"] == {"size": 1, "color": "red of v1"}


async def test_only_labels_and_annotations_of_the_metadata_may_change(api: Api, hook: Hook) -> None:
    def answer(request: Document) -> Document:
        response = converted(request)
        for each in response["convertedObjects"]:
            version = request["desiredAPIVersion"].rpartition("/")[2]
            each["metadata"] |= {
                "labels": {"seen": version}, "annotations": None,
                "generation": 99, "finalizers": ["example.com/mine"],
            }  # fmt: skip
        return response

    hook.convert = answer
    document = rod("a", "v2")
    document["metadata"]["annotations"] = {"x": "y"}
    (await api.post(NEW, document)).ok(201)
    metadata = (await api.get(f"{OLD}/a")).ok()["metadata"]
    assert (metadata["labels"], metadata["generation"]) == ({"seen": "v1"}, 1)
    assert not {"annotations", "finalizers"} & set(metadata)
    chosen = (await api.get(OLD, labelSelector="seen=v1")).ok()
    assert len(chosen["items"]) == 1


def changed(**fields: Any) -> Any:
    """Return a webhook that changes the converted objects; None removes a field."""

    def answer(request: Document) -> Document:
        response = converted(request)
        for each in response["convertedObjects"]:
            metadata = fields.get("metadata")
            if isinstance(metadata, dict):
                each["metadata"] |= metadata
            for name, value in fields.items():
                if name != "metadata" or not isinstance(value, dict):
                    each[name] = value
                if value is None:
                    del each[name]
        return response

    return answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda _: {"result": {"status": "Failure", "message": "no"}}, "failed: no"),
        (
            lambda _: {"result": {"status": "Oh"}},
            "failed: response.result.status was 'Oh', not 'Success'",
        ),
        (lambda _: {}, "failed: response.result.status was '', not 'Success'"),
        (
            lambda _: {"result": {"status": "Success"}, "convertedObjects": []},
            "returned 0 objects, expected 1",
        ),
        (
            changed(apiVersion="example.com/v9"),
            (
                "returned invalid object at index 0: invalid groupVersion (expected "
                "example.com/v2, received example.com/v9)"
            ),
        ),
        (
            changed(kind="Bar"),
            "returned invalid object at index 0: invalid kind (expected Rod, received Bar)",
        ),
        (
            changed(metadata={"name": "b"}),
            "returned invalid object: must have the same name: a != b",
        ),
        (
            changed(metadata={"namespace": ""}),
            "returned invalid object: must have the same namespace: default != ",
        ),
        (changed(metadata=None), "returned invalid metadata: missing metadata in converted object"),
        (
            changed(metadata=[]),
            (
                "returned invalid metadata: invalid metadata of type []interface {} in converted "
                "object"
            ),
        ),
        (
            changed(metadata={"labels": {"a": 1}}),
            (
                "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in "
                "converted object"
            ),
        ),
        (
            changed(metadata={"annotations": "x"}),
            (
                "returned invalid metadata: invalid metadata.annotations of type string in "
                "converted object"
            ),
        ),
    ],
)
async def test_what_the_webhook_may_not_answer(
    api: Api, hook: Hook, answer: Any, message: str
) -> None:
    hook.convert = answer
    refused = (await api.post(OLD, rod())).refused(500, message=PREFIX + message)
    assert "reason" not in refused
    assert (await api.get(NEW)).ok()["items"] == []


async def test_invalid_labels_are_refused(api: Api, hook: Hook) -> None:
    hook.convert = changed(metadata={"labels": {"a b": "c"}})
    message = (await api.post(OLD, rod())).refused(500)["message"]
    assert message.startswith(
        f'{PREFIX}returned invalid metadata: metadata.labels: Invalid value: "a b": '
    )


async def test_answers_of_another_review_are_refused(api: Api, hook: Hook) -> None:
    hook.convert = lambda request: converted(request) | {"uid": "other"}
    message = (await api.post(OLD, rod())).refused(500)["message"]
    assert message.startswith(f'{PREFIX}failed: expected response.uid="')
    assert message.endswith(', got "other"')


async def test_a_webhook_that_cannot_be_called(api: Api, hook: Hook) -> None:
    (await api.post(NEW, rod("a", "v2"))).ok(201)
    service = {"name": "gone", "namespace": "default", "path": "/convert", "port": 443}
    change = {"clientConfig": {"service": service}}
    (await api.patch(NAME, {"spec": {"conversion": {"webhook": change}}}, MERGE)).ok()
    message = (
        "conversion webhook for example.com/v2, Kind=Rod failed: "
        'Post "https://gone.default.svc:443/convert?timeout=30s": service "gone" not found'
    )
    (await api.get(f"{OLD}/a")).refused(500, message=message)
    (await api.get(OLD)).refused(500, message=message)
    (await api.get(f"{NEW}/a")).ok()
    (await api.delete(f"{OLD}/a")).ok()  # nothing of it is shown


async def test_a_webhook_that_is_too_slow(
    api: Api, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "traincrew.local.apiserver.webhooks.conversion"
    monkeypatch.setattr(f"{module}._CALL_SECONDS", 1)
    hook.before = lambda: asyncio.sleep(60)
    message = (await api.post(OLD, rod())).refused(500)["message"]
    assert message == (
        f'{PREFIX}failed: Post "https://hook.default.svc:443/convert?timeout=1s": '
        "context deadline exceeded"
    )


async def test_all_calls_of_a_request_have_a_deadline(
    api: Api, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "traincrew.local.apiserver.webhooks.conversion"
    monkeypatch.setattr(f"{module}._REQUEST_SECONDS", 0.1)
    hook.before = lambda: asyncio.sleep(60)
    message = (await api.post(OLD, rod())).refused(500)["message"]
    assert message == f"{PREFIX}failed: context deadline exceeded"


async def test_no_version_of_the_review_in_common(api: Api, hook: Hook) -> None:
    webhook = rods(hook)["spec"]["conversion"]["webhook"]
    webhook["conversionReviewVersions"] = ["v1beta1"]
    change = {"spec": {"conversion": {"webhook": webhook}}}
    (await api.patch(NAME, change, MERGE)).ok()
    hook.convert = lambda request: converted(request) | {"uid": "which v1beta1 does not check"}
    assert (await api.post(OLD, rod())).ok(201)["spec"]["size"] == 3


async def test_an_object_that_changes_meanwhile_is_converted_again(api: Api, hook: Hook) -> None:
    (await api.post(NEW, rod("a", "v2", length="1m", color="blue"))).ok(201)

    async def interfere() -> None:
        hook.before = None
        (await api.patch(f"{NEW}/a", {"spec": {"color": "green"}}, MERGE)).ok()

    hook.before = interfere
    changed = (await api.patch(f"{OLD}/a", {"spec": {"size": 2}}, MERGE)).ok()
    assert changed["spec"] == {"size": 2, "color": "green"}


async def test_the_storage_version_changes(api: Api, hook: Hook) -> None:
    (await api.post(OLD, rod())).ok(201)
    versions = rods(hook)["spec"]["versions"]
    for version in versions:
        version["storage"] = version["name"] == "v1"
    (await api.patch(NAME, {"spec": {"versions": versions}}, MERGE)).ok()
    assert (await api.get(NAME)).ok()["status"]["storedVersions"] == ["v2", "v1"]
    assert (await api.get(f"{OLD}/a")).ok()["spec"]["size"] == 3
    (await api.patch(f"{NEW}/a", {"spec": {"length": "4m"}}, MERGE)).ok()
    (entry,) = api.storage.scan("rods.example.com")
    assert (entry.obj["apiVersion"], entry.obj["spec"]["size"]) == ("example.com/v1", 4)


async def test_admission_webhooks_see_the_version_of_the_request(api: Api, hook: Hook) -> None:
    rule = {
        "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["rods"],
        "operations": ["CREATE", "UPDATE"],
    }  # fmt: skip
    webhook = hook.webhook(rules=[rule])
    hook.answer = lambda request: (
        patch(
            {"op": "add", "path": "/spec/color", "value": f"of {request['object']['spec']['size']}"}
        )
        if "size" in request["object"]["spec"]
        else {"allowed": False}
    )
    (await api.post(MUTATING, configuration(webhook, mutating=True))).ok(201)
    created = (await api.post(OLD, rod(size=7))).ok(201)
    assert created["spec"] == {"size": 7, "color": "of 7"}
    # An equivalent version: the webhook knows v1, the request has v2.
    created = (await api.post(NEW, rod("b", "v2", length="8m"))).ok(201)
    assert created["spec"] == {"length": "8m", "color": "of 8"}
    validating = hook.webhook(rules=[rule])
    (await api.post(VALIDATING, configuration(validating))).ok(201)
    (await api.patch(f"{NEW}/b", {"spec": {"length": "9m"}}, MERGE)).ok()
    reviews = [each for each in hook.requests if "operation" in each]
    assert [each["object"]["spec"]["size"] for each in reviews[-2:]] == [9, 9]
    assert reviews[-1]["oldObject"]["spec"]["size"] == 8


async def test_policies_see_the_version_that_they_match(api: Api, hook: Hook) -> None:
    rule = {
        "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["rods"],
        "operations": ["CREATE", "UPDATE"],
    }  # fmt: skip
    matching = {"resourceRules": [rule]}
    small = policy("small", "object.spec.size < 5", matchConstraints=matching)
    await install(api, small, binding(to="small"))
    (await api.post(NEW, rod("a", "v2", length="3m"))).ok(201)
    denied = (await api.post(NEW, rod("b", "v2", length="7m"))).refused(422, "Invalid")
    assert "failed expression: object.spec.size < 5" in denied["message"]
    (await api.post(OLD, rod("b", size=7))).refused(422, "Invalid")


async def test_no_webhook_converts_for_mutating_policies(api: Api, hook: Hook) -> None:
    rule = {
        "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["rods"],
        "operations": ["CREATE"],
    }  # fmt: skip
    expression = "Object{spec: Object.spec{color: 'blue'}}"
    mutation = {
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": expression},
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "mutations": [mutation],
        "reinvocationPolicy": "Never",
    }
    document = {**kind, "kind": "MutatingAdmissionPolicy", "metadata": {"name": "blue"}}
    (await api.post(f"{GROUP}/mutatingadmissionpolicies", {**document, "spec": spec})).ok(201)
    document = {**kind, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": "blue"}}
    to = {"spec": {"policyName": "blue"}}
    (await api.post(f"{GROUP}/mutatingadmissionpolicybindings", {**document, **to})).ok(201)
    assert (await api.post(OLD, rod())).ok(201)["spec"]["color"] == "blue"
    refused = (await api.post(NEW, rod("b", "v2", length="7m"))).refused(403, "Invalid")
    assert "no webhook converts the object to v1 for it" in refused["message"]
