"""What is refused when a policy or a binding is created, and how both are shown."""

from typing import Any

import pytest

from local.apiserver.policies.support import (
    BINDINGS,
    POLICIES,
    RULE,
    binding,
    install,
    policy,
)
from local.apiserver.support import DEFINITIONS, MERGE, TABLE, Api, definition


def causes(status: dict[str, Any]) -> dict[str, str]:
    return {each["field"]: each["message"] for each in status["details"]["causes"]}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (
            {"validations": [{"expression": "object.spec.size =="}]},
            "spec.validations[0].expression",
            (
                'Invalid value: "object.spec.size ==": compilation failed: ERROR: <input>:1:20:'
                " Syntax error: mismatched input '<EOF>'"
            ),
        ),
        (
            {"validations": [{"expression": "request.nothing == ''"}]},
            "spec.validations[0].expression",
            "undefined field 'nothing'",
        ),
        (
            {"validations": [{"expression": "params.x == ''"}]},
            "spec.validations[0].expression",
            "undeclared reference to 'params'",
        ),
        (
            {"validations": [{"expression": "object.x"}]},
            "spec.validations[0].expression",
            'Invalid value: "object.x": must evaluate to bool but got dyn',
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            "spec.validations[0].messageExpression",
            'Invalid value: "1": must evaluate to string but got int',
        ),
        (
            {"validations": [{"expression": "true", "message": "two\nlines"}]},
            "spec.validations[0].message",
            'Invalid value: "two\\nlines": must not contain line breaks',
        ),
        (
            {"validations": [{"expression": "true", "reason": "NotFound"}]},
            "spec.validations[0].reason",
            (
                'Unsupported value: "NotFound": supported values: "Forbidden", "Invalid",'
                ' "RequestEntityTooLarge"'
            ),
        ),
        (
            {"validations": [{"expression": " "}]},
            "spec.validations[0].expression",
            "Required value: expression is not specified",
        ),
        (
            {"variables": [{"name": "if", "expression": "1"}]},
            "spec.variables[0].name",
            'Invalid value: "if": must be a valid CEL identifier',
        ),
        (
            {"variables": [{"name": "a", "expression": "variables.b"}]},
            "spec.variables[0].expression",
            "undefined field 'b'",
        ),
        (
            {"matchConditions": [{"name": "a", "expression": "1"}]},
            "spec.matchConditions[0].expression",
            'Invalid value: "1": must evaluate to bool but got int',
        ),
        (
            {"matchConditions": [{"name": "a b", "expression": "true"}]},
            "spec.matchConditions[0].name",
            'Invalid value: "a b": name part must consist of',
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
            "spec.auditAnnotations[0].valueExpression",
            'Invalid value: "1": must evaluate to one of [string null_type] but got int',
        ),
        ({"failurePolicy": "No"}, "spec.failurePolicy", 'Unsupported value: "No"'),
        ({"matchConstraints": {}}, "spec.matchConstraints.resourceRules", "Required value"),
        (
            {"matchConstraints": {"resourceRules": [RULE | {"operations": ["MOVE"]}]}},
            "spec.matchConstraints.resourceRules[0].operations[0]",
            (
                'Unsupported value: "MOVE": supported values: "*", "CONNECT", "CREATE", "DELETE",'
                ' "UPDATE"'
            ),
        ),
        (
            {"matchConstraints": {"resourceRules": [RULE | {"resources": ["*/*", "pods"]}]}},
            "spec.matchConstraints.resourceRules[0].resources",
            "if '*/*' is present, must not specify other resources",
        ),
        (
            {"paramKind": {"apiVersion": "a/b/c", "kind": "K"}},
            "spec.paramKind.apiVersion",
            'Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
        ),
        (
            {"validations": [{"expression": f"'{'x' * 30_000}' == ''"}]},
            "spec",
            "this server allows 30000",
        ),
    ],
)
async def test_a_policy_that_is_refused(
    api: Api, spec: dict[str, Any], field: str, message: str
) -> None:
    status = (await api.post(POLICIES, policy("p", "true", **spec))).refused(422, "Invalid")
    assert message in causes(status)[field], status


async def test_a_policy_needs_validations_or_annotations(api: Api) -> None:
    status = (await api.post(POLICIES, policy())).refused(422)
    text = "Required value: validations or auditAnnotations must contain at least one item"
    assert causes(status) == {"spec.validations": text, "spec.auditAnnotations": text}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"policyName": ""}, "spec.policyName", "Required value"),
        ({"validationActions": ["Deny", "Warn"]}, "spec.validationActions", "both Deny and Warn"),
        ({"validationActions": ["Stop"]}, "spec.validationActions[0]", 'Unsupported value: "Stop"'),
        ({"validationActions": []}, "spec.validationActions", "at least one validation action"),
        (
            {"paramRef": {"parameterNotFoundAction": "Deny"}},
            "spec.paramRef",
            "Required value: one of name or selector must be specified",
        ),
        (
            {"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}},
            "spec.paramRef.name",
            "Forbidden: name and selector are mutually exclusive",
        ),
        ({"paramRef": {"name": "a"}}, "spec.paramRef.parameterNotFoundAction", "Required value"),
        (
            {"matchResources": {"objectSelector": {"matchLabels": {"a b": "c"}}}},
            "spec.matchResources.objectSelector.matchLabels",
            'Invalid value: "a b"',
        ),
    ],
)
async def test_a_binding_that_is_refused(
    api: Api, spec: dict[str, Any], field: str, message: str
) -> None:
    document = binding()
    document["spec"] |= spec
    status = (await api.post(BINDINGS, document)).refused(422, "Invalid")
    assert message in causes(status)[field], status


async def test_defaults(api: Api) -> None:
    created = (await api.post(POLICIES, policy("p", "true"))).ok(201)
    matching = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
    assert created["spec"]["failurePolicy"] == "Fail"
    rules = [RULE | {"scope": "*"}]
    assert created["spec"]["matchConstraints"] == {**matching, "resourceRules": rules}
    assert created["metadata"]["generation"] == 1
    created = (await api.post(BINDINGS, binding(matchResources={}))).ok(201)
    assert created["spec"]["matchResources"] == matching


async def test_tables(api: Api) -> None:
    await install(
        api,
        policy("p", "true", "true", paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
        policy("q", "true"),
        binding("b", paramRef={"name": "x", "parameterNotFoundAction": "Deny"}),
        binding("c"),
    )
    table = (await api.get(POLICIES, headers={"Accept": TABLE})).ok()
    assert [each["name"] for each in table["columnDefinitions"]] == [
        "Name",
        "Validations",
        "ParamKind",
        "Age",
    ]
    assert [row["cells"] for row in table["rows"]] == [
        ["p", 2, "v1/ConfigMap", "0s"],
        ["q", 1, "<unset>", "0s"],
    ]
    table = (await api.get(BINDINGS, headers={"Accept": TABLE})).ok()
    assert [row["cells"] for row in table["rows"]] == [
        ["b", "p", "*/x", "0s"],
        ["c", "p", "<unset>", "0s"],
    ]


async def test_a_policy_can_be_changed(api: Api) -> None:
    await install(api, policy("p", "true"), binding())
    change = {"spec": {"validations": [{"expression": "nothing"}]}}
    (await api.patch(f"{POLICIES}/p", change, MERGE)).refused(422)
    change = {"spec": {"validations": [{"expression": "false", "message": "no"}]}}
    changed = (await api.patch(f"{POLICIES}/p", change, MERGE)).ok()
    assert changed["metadata"]["generation"] == 2
    maps = "/api/v1/namespaces/default/configmaps"
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}}
    (await api.post(maps, document)).refused(422)
    (await api.delete(f"{POLICIES}/p")).ok()
    (await api.post(maps, document)).ok(201)


async def observed(api: Api, name: str = "p") -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(f"{POLICIES}/{name}")).ok()["status"]
    return found


async def test_the_status_says_what_was_observed(api: Api) -> None:
    await install(api, policy("p", "true"))
    assert await observed(api) == {"observedGeneration": 1, "typeChecking": {}}
    change = {"spec": {"validations": [{"expression": "false"}]}}
    (await api.patch(f"{POLICIES}/p", change, MERGE)).ok()
    assert (await observed(api))["observedGeneration"] == 2
    conditions = [
        {
            "type": "Checked",
            "status": "True",
            "reason": "Test",
            "message": "",
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }
    ]
    await api.patch(f"{POLICIES}/p/status", {"status": {"conditions": conditions}}, MERGE)
    assert (await observed(api))["conditions"] == conditions


async def test_the_status_warns_of_expressions_that_do_not_fit_the_kinds(api: Api) -> None:
    rules = [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "resources": ["deployments", "replicasets", "deployments/scale"],
            "operations": ["*"],
        }
    ]
    expressions = (
        "object.spec.replicas > 1 && object.metadata.namespace == 'x'",
        "object.spec.paused && object.spec.template.spec.containers.all(c, c.imag != '')",
    )
    await install(api, policy("p", *expressions, matchConstraints={"resourceRules": rules}))
    warnings = (await observed(api))["typeChecking"]["expressionWarnings"]
    assert [each["fieldRef"] for each in warnings] == ["spec.validations[1].expression"]
    text = warnings[0]["warning"]
    first, second = text.split("apps/v1, Kind=ReplicaSet: ")
    assert first.startswith("apps/v1, Kind=Deployment: compilation failed: ERROR: <input>:1:68:")
    assert "undefined field 'imag'" in first
    assert "undefined field 'paused'" not in first
    assert "undefined field 'paused'" in second


async def test_types_of_custom_kinds_and_parameters_are_checked(api: Api) -> None:
    (await api.post(DEFINITIONS, definition())).ok(201)
    rule = {
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "resources": ["widgets"],
        "operations": ["*"],
    }
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "variables": [{"name": "size", "expression": "object.spec.size"}],
        "matchConstraints": {"resourceRules": [rule]},
    }
    expressions = ("variables.size == 'big'", "params.date.a == ''", "params.data.a == ''")
    await install(api, policy("p", *expressions, **spec))
    warnings = (await observed(api))["typeChecking"]["expressionWarnings"]
    found = {each["fieldRef"]: each["warning"] for each in warnings}
    assert list(found) == ["spec.validations[0].expression", "spec.validations[1].expression"]
    assert "found no matching overload for '_==_' applied to '(int, string)'" in str(found)
    assert "example.com/v1, Kind=Widget: compilation failed" in str(found)
    assert "undefined field 'date'" in str(found)
