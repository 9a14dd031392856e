"""ValidatingAdmissionPolicies: what they deny, and in which words."""

from typing import Any

import pytest

from local.apiserver.policies.support import (
    RULE,
    binding,
    config_map,
    install,
    policy,
)
from local.apiserver.support import DEFINITIONS, MAPS, MERGE, PODS, Api, definition, pod

DENIED = (
    "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request"
)
OTHER = "authorizer.serviceAccount('default', 'x')"


async def denial(api: Api, document: Any, path: str = MAPS, code: int = 422) -> str:
    """Create an object that must be denied; return the message."""
    status = (await api.post(path, document)).refused(code)
    assert status["details"]["causes"] == [{"message": status["message"].split(": ", 1)[1]}]
    return str(status["message"])


async def test_a_denial_has_the_words_of_upstream(api: Api) -> None:
    await install(api, policy("p", "object.data.color != 'red'"), binding())
    status = (await api.post(MAPS, config_map(color="red"))).refused(422, "Invalid")
    assert status["message"] == f"{DENIED}: failed expression: object.data.color != 'red'"
    assert status["details"]["name"] == "m"
    assert status["details"]["kind"] == "configmaps"
    (await api.post(MAPS, config_map(color="blue"))).ok(201)
    updated = await api.patch(f"{MAPS}/m", {"data": {"color": "red"}}, MERGE)
    assert updated.refused(422)["message"].startswith(DENIED)
    (await api.delete(f"{MAPS}/m")).ok()


async def test_nothing_happens_without_a_binding_or_a_policy(api: Api) -> None:
    await install(api, policy("p", "false"), binding("b", "other"))
    (await api.post(MAPS, config_map())).ok(201)


@pytest.mark.parametrize(
    ("validation", "expected"),
    [
        ({"message": " do not "}, "do not"),
        ({"messageExpression": "'not ' + object.data.color"}, "not red"),
        ({"message": "m", "messageExpression": "string(object.data.missing)"}, "m"),
        ({"message": "m", "messageExpression": r"'two\nlines'"}, "m"),
        ({"messageExpression": "'  '"}, "failed expression: false"),
    ],
)
async def test_messages(api: Api, validation: dict[str, str], expected: str) -> None:
    await install(api, policy(validations=[{"expression": "false", **validation}]), binding())
    assert await denial(api, config_map(color="red")) == f"{DENIED}: {expected}"


@pytest.mark.parametrize(
    ("reason", "code"), [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)]
)
async def test_reasons_give_the_code(api: Api, reason: str, code: int) -> None:
    await install(api, policy(validations=[{"expression": "false", "reason": reason}]), binding())
    (await api.post(MAPS, config_map())).refused(code, reason)


async def test_actions(api: Api) -> None:
    await install(api, policy("p", "false"), binding("b", "p", "Warn"), binding("c", "p", "Audit"))
    answer = await api.post(MAPS, config_map())
    answer.ok(201)
    text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression"
    assert answer.warnings == [f'299 - "{text}: false"']


async def test_errors_follow_the_failure_policy(api: Api) -> None:
    await install(api, policy("p", "object.data.missing == ''"), binding())
    error = "expression 'object.data.missing == ''' resulted in error: no such key: missing"
    assert await denial(api, config_map(a="b")) == f"{DENIED}: {error}"
    await install(api, policy("q", "object.data.nope == ''", failurePolicy="Ignore"))
    await install(api, binding("c", "q"))
    (await api.delete("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/p")).ok()
    (await api.post(MAPS, config_map(a="b"))).ok(201)


async def test_match_conditions(api: Api) -> None:
    conditions = [
        {"name": "named", "expression": "object.metadata.name.startsWith('m')"},
        {"name": "broken", "expression": "object.data.missing == ''"},
    ]
    await install(api, policy("p", "false", matchConditions=conditions), binding())
    (await api.post(MAPS, config_map("other"))).ok(201)  # a false one counts more than an error
    error = "expression 'object.data.missing == ''' resulted in error: no such key: missing"
    assert await denial(api, config_map(a="b")) == f"{DENIED}: {error}"


async def test_variables_are_composed_and_lazy(api: Api) -> None:
    variables = [
        {"name": "data", "expression": "has(object.data) ? object.data : {}"},
        {"name": "color", "expression": "variables.data.color"},
    ]
    expressions = ("!('color' in variables.data) || variables.color != 'red'",)
    await install(api, policy("p", *expressions, variables=variables), binding())
    (await api.post(MAPS, config_map("none"))).ok(201)
    assert (await denial(api, config_map(color="red"))).startswith(DENIED)


async def test_an_error_of_a_variable_names_it(api: Api) -> None:
    variables = [{"name": "color", "expression": "object.data.color"}]
    await install(api, policy("p", "variables.color == ''", variables=variables), binding())
    assert (await denial(api, config_map(a="b"))).endswith(
        "expression 'variables.color == ''' resulted in error: composited variable \"color\" fails"
        " to evaluate: no such key: color"
    )


async def test_what_expressions_see(api: Api) -> None:
    (await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"a": "b"}}})).ok()
    seen = (
        "request.operation == 'CREATE' && oldObject == null",
        "request.name == 'm' && request.namespace == 'default' && !request.dryRun",
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'",
        "'system:masters' in request.userInfo.groups && request.options.kind == 'CreateOptions'",
        "namespaceObject.metadata.name == 'default' && namespaceObject.metadata.labels.a == 'b'",
        "namespaceObject.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')",
        "authorizer.group('').resource('pods').namespace('default').check('get').allowed()",
        "authorizer.requestResource.check('create').allowed()",
        "authorizer.path('/healthz').check('get').allowed()",
        f"!{OTHER}.group('').resource('pods').check('get').allowed()",
    )
    await install(api, policy("p", *seen), binding())
    (await api.post(MAPS, config_map())).ok(201)


async def test_selectors_names_and_exclusions(api: Api) -> None:
    constraints = {
        "resourceRules": [RULE | {"resourceNames": ["m", "n"]}],
        "excludeResourceRules": [RULE | {"resourceNames": ["n"]}],
        "objectSelector": {"matchLabels": {"checked": "yes"}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
    }
    await install(api, policy("p", "false", matchConstraints=constraints), binding())
    labels = {"checked": "yes"}
    for allowed in (config_map("m"), config_map("n", labels), config_map("other", labels)):
        (await api.post(MAPS, allowed)).ok(201)
    elsewhere = MAPS.replace("default", "kube-system")
    (await api.post(elsewhere, config_map("m", labels))).ok(201)
    (await api.delete(f"{MAPS}/m")).ok()
    assert (await denial(api, config_map("m", labels))).startswith(DENIED)


async def test_a_binding_restricts_further(api: Api) -> None:
    resources = {"objectSelector": {"matchLabels": {"checked": "yes"}}}
    await install(api, policy("p", "false"), binding(matchResources=resources))
    (await api.post(MAPS, config_map("n"))).ok(201)
    assert (await denial(api, config_map("m", {"checked": "yes"}))).startswith(DENIED)


async def test_every_operation_is_reviewed(api: Api) -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
    parts = ("binding", "eviction", "token", "status")
    labels = "object == null || !has(object.metadata.labels) || !('x' in object.metadata.labels)"
    validations = [
        {"expression": "request.operation != 'DELETE'", "message": "no deletion"},
        {"expression": "request.operation != 'CONNECT'", "message": "no connection"},
        *(
            {
                "expression": f"!has(request.subResource) || request.subResource != '{part}'",
                "message": f"no {part}",
            }
            for part in parts
        ),
        {
            "expression": "request.kind.kind != 'Scale' || object.spec.replicas < 3",
            "message": "no scale",
        },
        {"expression": labels, "message": "no label"},
    ]
    (await api.post(PODS, pod("p"))).ok(201)
    replicas = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "r"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "main", "image": "busybox"}]},
            },
        },
    }
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    (await api.post(sets, replicas)).ok(201)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}}
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    (await api.post(accounts, account)).ok(201)
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations}
    await install(api, policy("p", **spec), binding())

    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "r"}}
    token = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
    eviction = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "p"}}
    bound = {"target": {"kind": "Node", "name": "n"}}
    requests = [
        (await api.delete(f"{PODS}/p"), "no deletion"),
        (await api.delete(PODS), "no deletion"),
        (await api.post(f"{PODS}/p/exec", None, command="ls"), "no connection"),
        (await api.get(f"{PODS}/p/proxy/"), "no connection"),
        (await api.post(f"{PODS}/p/binding", bound), "no binding"),
        (await api.post(f"{PODS}/p/eviction", eviction), "no eviction"),
        (await api.post(f"{accounts}/a/token", token), "no token"),
        (await api.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}), "no status"),
        (await api.put(f"{sets}/r/scale", scale | {"spec": {"replicas": 3}}), "no scale"),
        (await api.patch(f"{sets}/r/scale", {"spec": {"replicas": 4}}), "no scale"),
        (await api.patch(f"{PODS}/p", {"metadata": {"labels": {"x": "y"}}}), "no label"),
    ]
    for answer, expected in requests:
        assert answer.refused(422)["message"].endswith(f"denied request: {expected}")
    (await api.put(f"{sets}/r/scale", scale | {"spec": {"replicas": 2}})).ok()
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {"labels": {"x": "y"}},
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    (await api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)).ok(201)


async def test_policies_do_not_apply_to_policies(api: Api) -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}}
    await install(api, policy("p", "false", **spec), binding())
    await install(api, policy("q", "true"), binding("c", "q"))
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    hooks = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w"},
    }
    (await api.post(path, hooks)).refused(422)
    (await api.delete(f"{path.replace('webhookconfigurations', 'admissionpolicies')}/p")).ok()


async def test_versions_of_a_custom_resource_are_equivalent(api: Api) -> None:
    document = definition()
    first = document["spec"]["versions"][0]
    document["spec"]["versions"] = [first, first | {"name": "v2", "storage": False}]
    (await api.post(DEFINITIONS, document)).ok(201)
    rule = {
        "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"],
        "operations": ["*"],
    }  # fmt: skip
    expression = (
        "object.apiVersion == 'example.com/v1' && request.kind.version == 'v1' &&"
        " request.requestKind.version == 'v2' && object.spec.size < 5"
    )
    spec = {"matchConstraints": {"resourceRules": [rule]}}
    await install(api, policy("p", expression, **spec), binding())
    path = "/apis/example.com/v2/namespaces/default/widgets"
    widget = {"apiVersion": "example.com/v2", "kind": "Widget", "spec": {"size": 3}}
    (await api.post(path, widget | {"metadata": {"name": "small"}})).ok(201)
    big = widget | {"metadata": {"name": "big"}, "spec": {"size": 9}}
    (await api.post(path, big)).refused(422)


async def test_an_expensive_policy_is_stopped(api: Api) -> None:
    expression = "object.data.a.split('').all(x, object.data.a.split('').all(y, x == y))"
    await install(api, policy("p", expression), binding())
    assert (await denial(api, config_map(a="a" * 3_000))).endswith(
        "denied request: validation failed due to running out of cost budget, no further validation"
        " rules will be run"
    )


async def test_audit_annotations_are_evaluated(api: Api) -> None:
    annotations = [{"key": "color", "valueExpression": "string(object.data.color)"}]
    spec = {"auditAnnotations": annotations}
    await install(api, policy("p", **spec), binding("b", "p", "Audit"))
    (await api.post(MAPS, config_map("good", color="red"))).ok(201)
    assert "no such key: color" in await denial(api, config_map(a="b"))


async def test_bodies_that_nothing_has_checked_do_no_harm(api: Api) -> None:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}
    constraints = {"resourceRules": [rule], "objectSelector": selector}
    await install(api, policy("p", "false", matchConstraints=constraints), binding())
    replicas = {
        "apiVersion": "v1",
        "kind": "ReplicationController",
        "metadata": {"name": "r"},
        "spec": {
            "replicas": 1,
            "selector": {"a": "c"},
            "template": {
                "metadata": {"labels": {"a": "c"}},
                "spec": {"containers": [{"name": "main", "image": "busybox"}]},
            },
        },
    }
    path = "/api/v1/namespaces/default/replicationcontrollers"
    (await api.post(path, replicas)).ok(201)
    for labels in ([1], {"a": [1]}, {"a": {"b": 1}}, "b", None):
        change = {"metadata": {"labels": labels}, "spec": {"replicas": 2}}
        assert (await api.patch(f"{path}/r/scale", change, MERGE)).code in {200, 400, 422}
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {"replicas": 2}}
    (await api.patch(f"{path}/r/scale", change, MERGE)).refused(422)
