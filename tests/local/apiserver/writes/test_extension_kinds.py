"""Kinds that extension API servers bring: APIService, FlowSchema, PriorityLevelConfiguration."""

from typing import Any

import pytest

from local.apiserver.support import TABLE, Api

Document = dict[str, Any]

SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMAS, LEVELS = f"{FLOW}/flowschemas", f"{FLOW}/prioritylevelconfigurations"


def api_service(**spec: Any) -> Document:
    spec = {
        "group": "metrics.example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        **spec,
    }
    return {"metadata": {"name": f"{spec['version']}.{spec['group']}"}, "spec": spec}


REMOTE = {"service": {"namespace": "kube-system", "name": "metrics"}}


def available(obj: Document) -> tuple[str, str]:
    (condition,) = obj["status"]["conditions"]
    assert condition["type"] == "Available"
    return condition["status"], condition["reason"]


async def test_a_local_api_service_is_available_and_a_remote_one_says_why_not(api: Api) -> None:
    created = (await api.post(SERVICES, api_service())).ok(201)
    assert available(created) == ("True", "Local")
    name = f"{SERVICES}/v1.metrics.example.com"
    remote = (await api.patch(name, {"spec": REMOTE})).ok()
    assert remote["spec"]["service"]["port"] == 443
    assert available(remote) == ("False", "NotForwarded")
    assert "forwards no requests" in remote["status"]["conditions"][0]["message"]
    (await api.get("/apis/metrics.example.com/v1")).refused(404)
    table = (await api.get(SERVICES, headers={"Accept": TABLE})).ok()
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names == ["Name", "Service", "Available", "Age"]
    (row,) = table["rows"]
    assert row["cells"][1:3] == ["kube-system/metrics", "False (NotForwarded)"]
    back = (await api.patch(name, {"spec": {"service": None}})).ok()
    assert available(back) == ("True", "Local")
    replaced = api_service(groupPriorityMinimum=5)
    (await api.put(name, replaced)).refused(422)  # without a resourceVersion
    (await api.delete(name)).ok()


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"groupPriorityMinimum": 0}, "spec.groupPriorityMinimum", "less than 20000"),
        ({"versionPriority": 1001}, "spec.versionPriority", "less than 1000"),
        ({"version": "1v"}, "spec.version", "DNS-1035"),
        ({"group": "A_b"}, "spec.group", "RFC 1123 subdomain"),
        ({"group": "", "version": "v2"}, "spec.group", "only v1 may have an empty group"),
        ({"caBundle": "YWJj"}, "spec.caBundle", '"3 bytes": local APIServices may not have'),
        ({"insecureSkipTLSVerify": True}, "spec.insecureSkipTLSVerify", "local APIServices"),
        ({"service": {"name": "x", "namespace": ""}}, "spec.service.namespace", "Required"),
        (REMOTE | {"caBundle": "YWJj", "insecureSkipTLSVerify": True},
         "spec.insecureSkipTLSVerify", "may not be true if caBundle is present"),
    ],
)  # fmt: skip
async def test_rules_of_api_services(api: Api, spec: Document, field: str, message: str) -> None:
    await refuses(api, SERVICES, api_service(**spec), field, message)


async def test_the_name_of_an_api_service_is_version_and_group(api: Api) -> None:
    wrong = api_service() | {"metadata": {"name": "other"}}
    await refuses(api, SERVICES, wrong, "metadata.name", 'must be `spec.version+"."+spec.group`')


async def refuses(api: Api, path: str, obj: Document, field: str, message: str) -> None:
    causes = (await api.post(path, obj)).refused(422)["details"]["causes"]
    assert any(each["field"] == field and message in each["message"] for each in causes), causes


RULE = {
    "subjects": [
        {"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kueue-system"}}
    ],
    "resourceRules": [
        {"verbs": ["list", "get"], "apiGroups": ["x"], "resources": ["*"], "namespaces": ["*"]}
    ],
}


def schema(rule: Document | None = None, **spec: Any) -> Document:
    spec = {
        "priorityLevelConfiguration": {"name": "visibility"},
        "rules": [RULE | (rule or {})],
        **spec,
    }
    return {"metadata": {"name": "visibility"}, "spec": spec}


def level(**limited: Any) -> Document:
    limited = {"limitResponse": {"type": "Queue", "queuing": {}}, **limited}
    return {"metadata": {"name": "visibility"}, "spec": {"type": "Limited", "limited": limited}}


async def test_flow_schemas_and_priority_levels_have_upstreams_defaults(api: Api) -> None:
    """As Kueue ships them, with what it leaves out."""
    created = (await api.post(SCHEMAS, schema())).ok(201)
    assert created["spec"]["matchingPrecedence"] == 1000
    assert (created["status"], created["metadata"]["generation"]) == ({}, 1)
    limited = (await api.post(LEVELS, level())).ok(201)["spec"]["limited"]
    assert limited["nominalConcurrencyShares"] == 30
    assert limited["lendablePercent"] == 0
    queuing = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
    assert limited["limitResponse"]["queuing"] == queuing
    changed = {"spec": {"matchingPrecedence": 7}}
    assert (await api.patch(f"{SCHEMAS}/visibility", changed)).ok()["metadata"]["generation"] == 2
    status = {"status": {"conditions": [{"type": "Dangling", "status": "False"}]}}
    (await api.patch(f"{SCHEMAS}/visibility/status", status)).ok()
    shown = [(await api.get(path, headers={"Accept": TABLE})).ok() for path in (SCHEMAS, LEVELS)]
    cells = [each["rows"][0]["cells"] for each in shown]
    assert cells[0][:4] == ["visibility", "visibility", 7, "<none>"]
    assert cells[0][5] == "False"
    assert cells[1][:6] == ["visibility", "Limited", 30, 64, 8, 50]


@pytest.mark.parametrize(
    ("obj", "field", "message"),
    [
        (schema(matchingPrecedence=-1), "spec.matchingPrecedence", "positive"),
        (schema(matchingPrecedence=10001), "spec.matchingPrecedence", "greater than 10000"),
        (schema(matchingPrecedence=1), "spec.matchingPrecedence", "only the schema named 'exempt'"),
        (schema(priorityLevelConfiguration={}), "spec.priorityLevelConfiguration.name",
         "must reference a priority level"),
        (schema(distinguisherMethod={"type": "ByX"}), "spec.distinguisherMethod.type", "ByUser"),
        (schema({"subjects": []}), "spec.rules[0].subjects", "at least one value"),
        (schema({"resourceRules": []}), "spec.rules[0]", "has to be non-empty"),
        (schema({"subjects": [{"kind": "X"}]}), "spec.rules[0].subjects[0].kind", "Unsupported"),
        (schema({"subjects": [{"kind": "User", "group": {"name": "g"}}]}),
         "spec.rules[0].subjects[0].group", "'Group'"),
        (schema({"subjects": [{"kind": "User"}]}), "spec.rules[0].subjects[0].user",
         "user is required when subject kind is 'User'"),
        (schema({"resourceRules": [{"verbs": ["see"], "apiGroups": ["*", "a"],
                                    "resources": ["x"], "clusterScope": True}]}),
         "spec.rules[0].resourceRules[0].apiGroups", "must not specify other api groups"),
        (schema({"nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/a*"]}]}),
         "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]", "suffix matching"),
    ],
)  # fmt: skip
async def test_rules_of_flow_schemas(api: Api, obj: Document, field: str, message: str) -> None:
    await refuses(api, SCHEMAS, obj, field, message)


@pytest.mark.parametrize(
    ("limited", "field", "message"),
    [
        ({"lendablePercent": 101}, "lendablePercent", "between 0 and 100"),
        ({"borrowingLimitPercent": -1}, "borrowingLimitPercent", "non-negative"),
        ({"limitResponse": {"type": "Reject", "queuing": {}}}, "limitResponse.queuing", "nil"),
        ({"limitResponse": {"type": "Queue"}}, "limitResponse.queuing", "must not be empty"),
        ({"limitResponse": {}}, "limitResponse.type", "Required"),
        ({"limitResponse": {"type": "Queue", "queuing": {"handSize": 65}}},
         "limitResponse.queuing.handSize", "should not be greater than queues (64)"),
        ({"limitResponse": {"type": "Queue", "queuing": {"handSize": 20}}},
         "limitResponse.queuing.handSize", "required entropy bits of deckSize 64"),
    ],
)  # fmt: skip
async def test_rules_of_priority_levels(
    api: Api, limited: Document, field: str, message: str
) -> None:
    await refuses(api, LEVELS, level(**limited), f"spec.limited.{field}", message)


async def test_only_the_level_exempt_is_exempt(api: Api) -> None:
    exempt: Document = {"metadata": {"name": "other"}, "spec": {"type": "Exempt", "exempt": {}}}
    await refuses(api, LEVELS, exempt, "spec.type", "if and only if `name` is 'exempt'")
    exempt["metadata"]["name"] = "exempt"
    created = (await api.post(LEVELS, exempt)).ok(201)
    assert created["spec"]["exempt"] == {"nominalConcurrencyShares": 0, "lendablePercent": 0}


async def test_what_upstream_creates_itself_has_a_fixed_spec(api: Api) -> None:
    for path, obj in ((SCHEMAS, schema(matchingPrecedence=9999)), (LEVELS, level())):
        obj["metadata"]["name"] = "catch-all"
        await refuses(api, path, obj, "spec", "spec of 'catch-all' must equal the fixed value")
    rejecting = {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}}
    fixed: Document = {
        "metadata": {"name": "catch-all"},
        "spec": {"type": "Limited", "limited": rejecting},
    }
    (await api.post(LEVELS, fixed)).ok(201)
    group = {"kind": "Group", "group": {"name": "system:masters"}}
    every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    rule = {
        "subjects": [group],
        "resourceRules": [every | {"clusterScope": True}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    exempt = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1}
    obj = {"metadata": {"name": "exempt"}, "spec": {**exempt, "rules": [rule]}}
    (await api.post(SCHEMAS, obj)).ok(201)
