"""Admission webhooks, which can deny and change every write."""

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from local.apiserver.support import (
    DEFINITIONS,
    MAPS,
    MERGE,
    PODS,
    WIDGETS,
    Api,
    config_map,
    definition,
    pod,
    widget,
)
from local.apiserver.webhook_support import (
    MUTATING,
    VALIDATING,
    Document,
    Hook,
    configuration,
    patch,
    running_hook,
)
from traincrew.local.apiserver.webhooks import calling


@pytest.fixture
async def hook(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hook]:
    async with running_hook(api, tmp_path, monkeypatch) as hook:
        yield hook


def denies(request: Document) -> Document:
    value = ((request["object"] or request["oldObject"]).get("data") or {}).get("key")
    if value == "bad":
        return {
            "allowed": False,
            "status": {"code": 403, "reason": "Forbidden", "message": "key is bad"},
            "warnings": ["think again"],
        }
    return {"allowed": True, "warnings": ["well done"]}


DENIED = 'admission webhook "a.example.com" denied the request: key is bad'


async def test_a_validating_webhook_is_called_for_every_kind_of_write(api: Api, hook: Hook) -> None:
    hook.answer = denies
    (await api.post(VALIDATING, configuration(hook.webhook()))).ok(201)
    refused = await api.post(MAPS, config_map("a", {"key": "bad"}))
    refused.refused(403, "Forbidden", DENIED)
    assert refused.warnings == ['299 - "think again"']
    (await api.get(f"{MAPS}/a")).refused(404)

    created = await api.post(MAPS, config_map("a"))
    assert created.warnings == ['299 - "well done"']
    (request,) = hook.requests[1:]
    assert (request["operation"], request["name"], request["namespace"]) == (
        "CREATE", "a", "default",
    )  # fmt: skip
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert request["dryRun"] is False
    assert request["oldObject"] is None
    stored = created.ok(201)
    assert request["object"]["metadata"]["uid"] == stored["metadata"]["uid"]

    (await api.put(f"{MAPS}/a", config_map("a", {"key": "bad"}))).refused(403)
    (await api.patch(f"{MAPS}/a", {"data": {"key": "bad"}}, MERGE)).refused(403)
    assert (await api.get(f"{MAPS}/a")).ok() == stored
    (await api.patch(f"{MAPS}/a", {"data": {"key": "good"}}, MERGE)).ok()
    assert hook.requests[-1]["operation"] == "UPDATE"
    assert hook.requests[-1]["oldObject"]["data"] == {"key": "value"}
    assert hook.requests[-1]["object"]["data"] == {"key": "good"}

    hook.answer = lambda _: {"allowed": False}
    text = 'admission webhook "a.example.com" denied the request without explanation'
    (await api.delete(f"{MAPS}/a")).refused(400, message=text)
    (await api.delete(MAPS)).refused(400, message=text)
    assert (hook.requests[-1]["operation"], hook.requests[-1]["object"]) == ("DELETE", None)
    hook.answer = denies
    (await api.delete(f"{MAPS}/a")).ok()
    (await api.get(f"{MAPS}/a")).refused(404)


async def test_a_ca_bundle_may_be_the_certificate_of_the_webhook_itself(
    api: Api, hook: Hook
) -> None:
    """Certificates that controllers generate at start are often configured this way."""
    config = hook.webhook()["clientConfig"] | {"caBundle": hook.leaf}
    (await api.post(VALIDATING, configuration(hook.webhook(clientConfig=config)))).ok(201)
    (await api.post(MAPS, config_map("a"))).ok(201)
    assert len(hook.requests) == 1


@pytest.mark.parametrize(
    ("path", "requested"),
    [
        ("", "/"),
        ("/", "/"),
        ("//mutate", "/mutate"),
        ("/a//b/", "/a/b"),
        ("/a/../../b/./c", "/b/c"),
        ("/.well-known", "/.well-known"),
        ("/a%20b", "/a b"),
    ],
)
async def test_paths_of_urls_are_cleaned_as_by_gos_client(
    api: Api, hook: Hook, path: str, requested: str
) -> None:
    config = {"url": f"https://127.0.0.1:{hook.port}{path}", "caBundle": hook.bundle}
    (await api.post(VALIDATING, configuration(hook.webhook(clientConfig=config)))).ok(201)
    (await api.post(MAPS, config_map("a"))).ok(201)
    assert hook.paths == [requested]


async def test_mutating_webhooks_change_objects_in_turn(api: Api, hook: Hook) -> None:
    def answer(request: Document) -> Document:
        seen = ",".join(sorted(request["object"]["data"]))
        return patch({"op": "add", "path": f"/data/{hook.paths[-1][1:]}", "value": seen})

    hook.answer = answer
    webhooks = [
        hook.webhook("first.example.com", "/first", reinvocationPolicy="IfNeeded"),
        hook.webhook("second.example.com", "/second"),
    ]
    (await api.post(MUTATING, configuration(*webhooks, mutating=True))).ok(201)
    body = config_map("", {"key": "value"}, generateName="a-")
    created = (await api.post(MAPS, body)).ok(201)
    assert hook.paths == ["/first", "/second", "/first"]
    assert created["data"] == {
        "key": "value", "first": "first,key,second", "second": "first,key"
    }  # fmt: skip
    # The object that the webhook was sent is stored.
    for field in ("name", "uid", "creationTimestamp"):
        assert hook.requests[0]["object"]["metadata"][field] == created["metadata"][field]
    assert (await api.get(f"{MAPS}/{created['metadata']['name']}")).ok() == created

    hook.answer = lambda _: patch({"op": "replace", "path": "/metadata/name", "value": "other"})
    message = (
        'Internal error occurred: failed calling webhook "first.example.com": '
        "its patch changes metadata.name"
    )
    (await api.post(MAPS, config_map("b"))).refused(500, "InternalError", message)


async def test_webhooks_see_what_the_plugins_of_the_server_have_set(api: Api, hook: Hook) -> None:
    """Priority, service account and tolerations of a pod; also of what a webhook has changed."""
    extra = {"name": "extra", "image": "busybox:1"}
    hook.answer = lambda _: patch({"op": "add", "path": "/spec/containers/-", "value": extra})
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    ]
    hooks = configuration(hook.webhook(rules=rules), mutating=True)
    (await api.post(MUTATING, hooks)).ok(201)
    created = (await api.post(PODS, pod("a"))).ok(201)["spec"]

    seen = hook.requests[0]["object"]["spec"]
    assert seen["priority"] == 0
    assert seen["serviceAccountName"] == "default"
    assert [each["key"] for each in seen["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert created["tolerations"] == seen["tolerations"]
    (token,) = {
        each["name"] for container in created["containers"] for each in container["volumeMounts"]
    }
    assert len(created["containers"]) == 2, "and the token is mounted into both"
    assert [each["name"] for each in created["volumes"]] == [token]


async def test_a_mutated_object_is_defaulted_and_validated(api: Api, hook: Hook) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    rule = {
        "apiGroups": ["example.com"], "apiVersions": ["*"], "resources": ["widgets"],
        "operations": ["CREATE"],
    }  # fmt: skip
    webhook = hook.webhook(rules=[rule])
    (await api.post(MUTATING, configuration(webhook, mutating=True))).ok(201)
    hook.answer = lambda _: patch({"op": "replace", "path": "/spec/size", "value": 0})
    (await api.post(WIDGETS, widget("a"))).refused(422, "Invalid")
    hook.answer = lambda _: patch(
        {"op": "remove", "path": "/spec/color"},
        {"op": "add", "path": "/spec/unknown", "value": 1},
    )
    spec = (await api.post(WIDGETS, widget("a"))).ok(201)["spec"]
    assert spec == {"size": 3, "color": "red", "replicas": 1}


async def test_webhooks_are_called_again_after_a_concurrent_change(api: Api, hook: Hook) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    (await api.post(VALIDATING, configuration(hook.webhook()))).ok(201)

    async def interfere() -> None:
        hook.before = None
        (await api.patch(f"{MAPS}/a", {"data": {"other": "1"}}, MERGE)).ok()

    hook.before = interfere
    (await api.patch(f"{MAPS}/a", {"data": {"key": "new"}}, MERGE)).ok()
    assert [each["object"]["data"] for each in hook.requests] == [
        {"key": "new"}, {"key": "value", "other": "1"}, {"key": "new", "other": "1"},
    ]  # fmt: skip
    assert (await api.get(f"{MAPS}/a")).ok()["data"] == {"key": "new", "other": "1"}


async def test_a_stale_update_is_still_a_conflict(api: Api, hook: Hook) -> None:
    stored = (await api.post(MAPS, config_map("a"))).ok(201)
    (await api.post(VALIDATING, configuration(hook.webhook()))).ok(201)

    async def interfere() -> None:
        hook.before = None
        (await api.patch(f"{MAPS}/a", {"data": {"other": "1"}}, MERGE)).ok()

    hook.before = interfere
    (await api.put(f"{MAPS}/a", {**stored, "data": {"key": "new"}})).refused(409, "Conflict")


@pytest.mark.parametrize(
    ("change", "data", "asked"),
    [
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, {}, False),
        ({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}},
         {}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}},
         {}, True),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}},
         {}, False),
        ({"matchConditions": [{"name": "c", "expression": "object.data.key == 'x'"}]}, {}, False),
        ({"matchConditions": [{"name": "c", "expression": "request.operation == 'CREATE'"}]},
         {}, True),
        ({}, {"resources": ["configmaps/status"]}, False),
        ({}, {"resources": ["*/*"]}, True),
        ({}, {"resources": ["secrets"]}, False),
        ({}, {"apiGroups": ["apps"]}, False),
        ({}, {"apiGroups": ["*"], "apiVersions": ["*"]}, True),
        ({}, {"operations": ["UPDATE", "DELETE"]}, False),
        ({}, {"scope": "Cluster"}, False),
        ({}, {"scope": "Namespaced"}, True),
    ],
)  # fmt: skip
async def test_matching_webhooks_are_called(
    api: Api, hook: Hook, change: Document, data: Document, *, asked: bool
) -> None:
    webhook = hook.webhook(**change)
    webhook["rules"] = [{**webhook["rules"][0], **data}]
    (await api.post(VALIDATING, configuration(webhook))).ok(201)
    (await api.post(MAPS, config_map("a"))).ok(201)
    assert bool(hook.requests) == asked


async def test_failure_policy_of_a_webhook_that_cannot_be_called(api: Api, hook: Hook) -> None:
    service = {"namespace": "default", "name": "gone"}
    config = {"service": service, "caBundle": hook.bundle}
    webhook = hook.webhook(clientConfig=config)
    (await api.post(VALIDATING, configuration(webhook))).ok(201)
    message = (
        'Internal error occurred: failed calling webhook "a.example.com": '
        'failed to call webhook: Post "https://gone.default.svc:443/?timeout=10s": '
        'service "gone" not found'
    )
    (await api.post(MAPS, config_map("a"))).refused(500, "InternalError", message)
    # Not for its own configuration, which could then never be repaired.
    change: Any = {"webhooks": [{**webhook, "failurePolicy": "Ignore"}]}
    (await api.patch(f"{VALIDATING}/hooks", change, MERGE)).ok()
    (await api.post(MAPS, config_map("a"))).ok(201)

    other = hook.webhook()
    other["clientConfig"]["service"]["name"] = "hook"
    for bundle, said in (("", "certificate verify failed"), ("aGVsbG8=", "caBundle")):
        config = {**other["clientConfig"], "caBundle": bundle}
        change = {"webhooks": [{**other, "clientConfig": config}]}
        (await api.patch(f"{VALIDATING}/hooks", change, MERGE)).ok()
        refused = (await api.post(MAPS, config_map("b"))).refused(500, "InternalError")
        assert said in refused["message"]
    assert not hook.requests


async def test_invalid_webhook_responses_are_rejected(api: Api, hook: Hook) -> None:
    (await api.post(VALIDATING, configuration(hook.webhook()))).ok(201)
    hook.answer = lambda _: {"allowed": True, "uid": "another"}
    refused = (await api.post(MAPS, config_map("a"))).refused(500, "InternalError")
    assert 'the answer has uid "another"' in refused["message"]
    deep = base64.b64encode(b"[" * 100_000).decode()
    hook.answer = lambda _: {"allowed": True, "patch": deep}
    (await api.post(MAPS, config_map("a"))).refused(500, "InternalError")
    hook.answer = lambda _: {"allowed": True, "patch": "?"}
    refused = (await api.post(MAPS, config_map("a"))).refused(500, "InternalError")
    assert "the answer is not an AdmissionReview" in refused["message"]


async def test_a_webhook_that_times_out(
    api: Api, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "MAX_TIMEOUT_SECONDS", 0.05)
    (await api.post(VALIDATING, configuration(hook.webhook()))).ok(201)
    released = asyncio.Event()
    hook.before = released.wait
    refused = (await api.post(MAPS, config_map("a"))).refused(500, "InternalError")
    released.set()
    assert refused["message"].endswith(
        'Post "https://hook.default.svc:443/check?timeout=0.05s": context deadline exceeded'
    )


async def test_a_dry_run_calls_only_webhooks_without_side_effects(api: Api, hook: Hook) -> None:
    (await api.post(VALIDATING, configuration(hook.webhook()))).ok(201)
    (await api.post(MAPS, config_map("a"), dryRun="All")).ok(201)
    assert hook.requests[0]["dryRun"] is True
    (await api.get(f"{MAPS}/a")).refused(404)
    some = hook.webhook(sideEffects="Some")
    (await api.patch(f"{VALIDATING}/hooks", {"webhooks": [some]}, MERGE)).ok()
    message = 'admission webhook "a.example.com" does not support dry run'
    (await api.post(MAPS, config_map("a"), dryRun="All")).refused(400, message=message)


async def test_match_policy_for_another_version_of_the_resource(api: Api, hook: Hook) -> None:
    body = definition()
    (version,) = body["spec"]["versions"]
    body["spec"]["versions"].append({**version, "name": "v2", "storage": False})
    (await api.post(DEFINITIONS, body)).ok(201)
    rule = {
        "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"],
        "operations": ["CREATE"],
    }  # fmt: skip
    (await api.post(VALIDATING, configuration(hook.webhook(rules=[rule])))).ok(201)
    second = {**widget("a"), "apiVersion": "example.com/v2"}
    (await api.post(WIDGETS.replace("v1", "v2"), second)).ok(201)
    assert hook.requests[0]["object"]["apiVersion"] == "example.com/v1"
    assert hook.requests[0]["kind"]["version"] == "v1"
    assert hook.requests[0]["requestKind"]["version"] == "v2"
    exact = hook.webhook(rules=[rule], matchPolicy="Exact")
    (await api.patch(f"{VALIDATING}/hooks", {"webhooks": [exact]}, MERGE)).ok()
    (await api.post(WIDGETS.replace("v1", "v2"), {**second, "metadata": {"name": "b"}})).ok(201)
    assert len(hook.requests) == 1


async def test_an_object_remains_served_in_every_version(api: Api) -> None:
    """The storage version of new objects changes; stored objects keep theirs."""
    body = definition()
    (version,) = body["spec"]["versions"]
    body["spec"]["versions"].append({**version, "name": "v2", "storage": False})
    (await api.post(DEFINITIONS, body)).ok(201)
    (await api.post(WIDGETS, widget("a"))).ok(201)
    versions = [{**each, "storage": each["name"] == "v2"} for each in body["spec"]["versions"]]
    path = f"{DEFINITIONS}/widgets.example.com"
    (await api.patch(path, {"spec": {"versions": versions}}, MERGE)).ok()
    second = WIDGETS.replace("v1", "v2")
    assert (await api.get(f"{second}/a")).ok()["apiVersion"] == "example.com/v2"
    (await api.patch(f"{second}/a", {"spec": {"size": 4}}, MERGE)).ok()
    for each in ("v1", "v2"):
        found = (await api.get(f"{WIDGETS.replace('v1', each)}/a")).ok()
        assert (found["apiVersion"], found["spec"]["size"]) == (f"example.com/{each}", 4)


async def test_configurations_are_validated(api: Api, hook: Hook) -> None:
    def broken(**more: Any) -> Document:
        return configuration(hook.webhook(**more))

    def service(**more: Any) -> Document:
        return broken(clientConfig={"service": {"name": "x", "namespace": "y", **more}})

    condition = {"name": "c", "expression": "... [] bad expression"}
    for body, field, said in (
        (
            broken(matchConditions=[condition]),
            "matchConditions[0].expression",
            "compilation failed",
        ),
        (
            broken(matchConditions=[{"name": "c"}]),
            "matchConditions[0].expression",
            "Required value",
        ),
        (
            broken(matchConditions=[{"expression": "true"}]),
            "matchConditions[0].name",
            "Required value",
        ),
        (broken(timeoutSeconds=31), "timeoutSeconds", "between 1 and 30"),
        (broken(clientConfig={}), "clientConfig", "exactly one of url or service"),
        (broken(clientConfig={"url": "http://x"}), "clientConfig.url", "only allowed URL scheme"),
        (broken(clientConfig={"url": "https:///x"}), "clientConfig.url", "host must be specified"),
        (
            broken(clientConfig={"url": "https://me@x/"}),
            "clientConfig.url",
            "user information is not permitted",
        ),
        (
            broken(clientConfig={"url": "https://x/?a=b"}),
            "clientConfig.url",
            "query parameters are not permitted",
        ),
        (broken(clientConfig={"url": "https://x:y/"}), "clientConfig.url", "must be a valid URL"),
        (service(path="check"), "clientConfig.service.path", "must start with a '/'"),
        (service(path="/a//b"), "clientConfig.service.path", "segment[1] may not be empty"),
        (service(path="/a_b/"), "clientConfig.service.path", "segment[0]: a lowercase RFC 1123"),
        (service(port=0), "clientConfig.service.port", "between 1 and 65535"),
        (broken(admissionReviewVersions=["v2"]), "admissionReviewVersions", "at least one of v1"),
    ):
        (cause,) = (await api.post(VALIDATING, body)).refused(422, "Invalid")["details"]["causes"]
        assert cause["field"] == f"webhooks[0].{field}"
        assert said in cause["message"]


async def test_streams_can_be_denied(api: Api, hook: Hook) -> None:
    (await api.post(PODS, pod("a"))).ok(201)
    rule = {
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/*"],
        "operations": ["CONNECT"],
    }  # fmt: skip
    (await api.post(VALIDATING, configuration(hook.webhook(rules=[rule])))).ok(201)
    hook.answer = lambda _: {"allowed": False, "status": {"message": "no"}}
    answer = await api.get(f"{PODS}/a/exec", command="true", container="main", stdin="true")
    answer.refused(400, message='admission webhook "a.example.com" denied the request: no')
    (request,) = hook.requests
    assert (request["operation"], request["subResource"], request["name"]) == (
        "CONNECT", "exec", "a",
    )  # fmt: skip
    assert request["object"] == {
        "kind": "PodExecOptions", "apiVersion": "v1", "stdin": True, "container": "main",
        "command": ["true"],
    }  # fmt: skip
