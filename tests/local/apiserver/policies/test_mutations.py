"""MutatingAdmissionPolicies: what they make of objects, and what is refused."""

from typing import Any

import pytest

from local.apiserver.policies.support import (
    GROUP,
    RULE,
    binding,
    config_map,
    install,
    policy,
)
from local.apiserver.support import (
    DEFINITIONS,
    MAPS,
    MERGE,
    PODS,
    TABLE,
    Api,
    definition,
    pod,
)

Document = dict[str, Any]
MUTATING = f"{GROUP}/mutatingadmissionpolicies"
MUTATING_BINDINGS = f"{GROUP}/mutatingadmissionpolicybindings"
LABEL = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"


def applied(expression: str) -> Document:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> Document:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def mutating(name: str = "p", *mutations: Document, **spec: Any) -> Document:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [RULE]},
            "reinvocationPolicy": "Never",
            "mutations": list(mutations),
            **spec,
        },
    }


async def mutate(api: Api, *policies: Document, **binding_spec: Any) -> None:
    """Create mutating policies, each with a binding of its name."""
    for each in policies:
        (await api.post(MUTATING, each)).ok(201)
        name = each["metadata"]["name"]
        bound = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, **binding_spec},
        }
        (await api.post(MUTATING_BINDINGS, bound)).ok(201)


def matching(resource: str, group: str = "") -> Document:
    rule = {
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "resources": [resource],
        "operations": ["CREATE", "UPDATE"],
    }
    return {"matchConstraints": {"resourceRules": [rule]}}


async def test_an_apply_configuration_is_merged(api: Api) -> None:
    await mutate(api, mutating("p", applied(LABEL)))
    created = (await api.post(MAPS, config_map("m", {"c": "d"}, x="y"))).ok(201)
    assert created["metadata"]["labels"] == {"a": "b", "c": "d"}
    assert created["data"] == {"x": "y"}
    change = {"metadata": {"labels": {"a": None}}}
    assert (await api.patch(f"{MAPS}/m", change, MERGE)).ok()["metadata"]["labels"]["a"] == "b"
    (await api.delete(f"{MAPS}/m")).ok()
    answer = await api.post(MAPS, config_map("dry"), dryRun="All")
    assert answer.ok(201)["metadata"]["labels"] == {"a": "b"}


async def test_items_of_lists_are_merged_by_their_keys(api: Api) -> None:
    expression = (
        "Object{spec: Object.spec{containers: object.spec.containers.map(c,"
        " Object.spec.containers{name: c.name, env: [Object.spec.containers.env{name: 'ADDED',"
        " value: namespaceObject.metadata.name}]})}}"
    )
    await mutate(api, mutating("p", applied(expression), **matching("pods")))
    document = pod("w")
    document["spec"]["containers"][0]["env"] = [{"name": "OWN", "value": "1"}]
    (container,) = (await api.post(PODS, document)).ok(201)["spec"]["containers"]
    assert container["image"] == "busybox:1"
    assert sorted((each["name"], each["value"]) for each in container["env"]) == [
        ("ADDED", "default"),
        ("OWN", "1"),
    ]


async def test_a_json_patch(api: Api) -> None:
    operations = (
        "has(object.metadata.labels) ? [JSONPatch{op: 'test', path: '/data/x', value: 'y'},"
        " JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/a'),"
        " value: object.data.x}] : []"
    )
    await mutate(api, mutating("p", patched(operations)))
    created = (await api.post(MAPS, config_map("m", {"c": "d"}, x="y"))).ok(201)
    assert created["metadata"]["labels"] == {"c": "d", "example.com/a": "y"}
    created = (await api.post(MAPS, config_map("n", {"c": "d"}, x="z"))).ok(201)
    assert created["metadata"]["labels"] == {"c": "d"}  # the test has failed
    assert "labels" not in (await api.post(MAPS, config_map("o", x="y"))).ok(201)["metadata"]


async def test_mutations_follow_one_another_with_variables_and_parameters(api: Api) -> None:
    count = "Object{data: {'count': string(int(variables.count) + int(params.data.by))}}"
    first = mutating(
        "p",
        applied(count),
        applied(count),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "count", "expression": "object.data.count"}],
        matchConditions=[{"name": "counts", "expression": "has(object.data.count)"}],
    )
    (await api.post(MAPS, config_map("step", by="5"))).ok(201)
    await mutate(api, first, paramRef={"name": "step", "parameterNotFoundAction": "Deny"})
    assert (await api.post(MAPS, config_map("m", count="1"))).ok(201)["data"] == {"count": "11"}
    assert (await api.post(MAPS, config_map("n", x="y"))).ok(201)["data"] == {"x": "y"}


async def test_validating_policies_see_what_mutating_ones_have_made(api: Api) -> None:
    await install(api, policy("v", "object.metadata.labels.a == 'b'"), binding("v", "v"))
    assert (await api.post(MAPS, config_map("m"))).code == 422
    await mutate(api, mutating("p", applied(LABEL)))
    (await api.post(MAPS, config_map("m"))).ok(201)


@pytest.mark.parametrize(("reinvocation", "expected"), [("Never", "-"), ("IfNeeded", "yes")])
async def test_policies_are_asked_again_if_needed(
    api: Api, reinvocation: str, expected: str
) -> None:
    follows = (
        "Object{data: {'follows': has(object.metadata.labels) && 'a' in object.metadata.labels ?"
        " 'yes' : '-'}}"
    )
    await mutate(
        api,
        mutating("first", applied(follows), reinvocationPolicy=reinvocation),
        mutating("second", applied(LABEL)),
    )
    created = (await api.post(MAPS, config_map("m"))).ok(201)
    assert created["data"]["follows"] == expected


@pytest.mark.parametrize(
    ("mutation", "message"),
    [
        (
            applied("Object{data: {'a': object.data.missing}}"),
            (
                "expression 'Object{data: {'a': object.data.missing}}' resulted in error: no such"
                " key: missing"
            ),
        ),
        (
            applied("Object{nothing: 'x'}"),
            (
                "error applying patch: failed to convert patch object to typed object: .nothing:"
                " field not declared in schema"
            ),
        ),
        (
            applied("Object{metadata: Object.metadata{name: 'other'}}"),
            "error applying patch: it changes metadata.name",
        ),
        (applied("Object{data: {1: 'x'}}"), "keys of maps must be strings"),
        (
            applied("Object{data: {'a': b'x'}}"),
            "values of type bytes have to be converted to strings",
        ),
        (
            patched("[JSONPatch{op: 'add', path: '/data/a', value: duration('1s')}]"),
            "values of type duration have to be converted to strings",
        ),
        (
            patched("[JSONPatch{op: 'remove', path: '/metadata/labels/x'}]"),
            "JSON Patch: ",
        ),
    ],
)
async def test_failures_are_refused_in_upstreams_words(
    api: Api, mutation: Document, message: str
) -> None:
    await mutate(api, mutating("p", mutation))
    status = (await api.post(MAPS, config_map("m", a="b"))).refused(403, "Invalid")
    assert status["message"].startswith(f"policy 'p' with binding 'p' denied request: {message}")
    assert status["details"]["causes"] == [{"message": status["message"]}]
    change = {"spec": {"failurePolicy": "Ignore"}}
    (await api.patch(f"{MUTATING}/p", change, MERGE)).ok()
    assert (await api.post(MAPS, config_map("m", a="b"))).ok(201)["data"] == {"a": "b"}


async def test_atomic_lists_are_not_replaced_by_accident(api: Api) -> None:
    expression = (
        "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'main', args: ['x']}]}}"
    )
    await mutate(api, mutating("p", applied(expression), **matching("pods")))
    status = (await api.post(PODS, pod("w"))).refused(403)
    assert (
        "may not mutate atomic arrays, maps or structs: .spec.containers[0].args"
        in (status["message"])
    )


async def test_a_result_that_is_no_object_of_the_kind_is_refused(api: Api) -> None:
    await mutate(api, mutating("p", patched("[JSONPatch{op: 'add', path: '/data', value: 'x'}]")))
    assert (await api.post(MAPS, config_map("m", a="b"))).code in {400, 422}


async def test_versions_of_a_custom_resource(api: Api) -> None:
    document = definition()
    first = document["spec"]["versions"][0]
    document["spec"]["versions"] = [first, first | {"name": "v2", "storage": False}]
    (await api.post(DEFINITIONS, document)).ok(201)
    expression = "Object{spec: Object.spec{color: object.apiVersion}}"
    await mutate(api, mutating("p", applied(expression), **matching("widgets", "example.com")))
    path = "/apis/example.com/v2/namespaces/default/widgets"
    widget = {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "w"}}
    created = (await api.post(path, widget | {"spec": {"size": 3}})).ok(201)
    assert created["apiVersion"] == "example.com/v2"
    assert created["spec"]["color"] == "example.com/v1"


@pytest.mark.parametrize(
    "mutation",
    [
        patched(
            "lists.range(2000).map(i, JSONPatch{op: 'add', path: '/data/k' + string(i),"
            " value: object.data})"
        ),
        applied("Object{data: lists.range(2000).map(i, object.data)}"),
    ],
)
async def test_a_result_that_repeats_a_large_part_is_refused(api: Api, mutation: Document) -> None:
    await mutate(api, mutating("p", mutation))
    large = config_map("m") | {"data": {f"k{number}": "x" for number in range(500)}}
    status = (await api.post(MAPS, large)).refused(403)
    assert "the result of the expression is too large" in status["message"]


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"mutations": []}, "spec.mutations", "mutations must contain at least one item"),
        ({"reinvocationPolicy": ""}, "spec.reinvocationPolicy", "Required value"),
        ({"reinvocationPolicy": "Often"}, "spec.reinvocationPolicy", 'Unsupported value: "Often"'),
        (
            {"mutations": [applied("1")]},
            "spec.mutations[0].applyConfiguration.expression",
            'Invalid value: "1": must evaluate to Object but got int',
        ),
        (
            {"mutations": [patched("JSONPatch{op: 'add'}")]},
            "spec.mutations[0].jsonPatch.expression",
            "must evaluate to list(JSONPatch) but got JSONPatch",
        ),
        (
            {"mutations": [applied("Object{spec: Object.other{}}")]},
            "spec.mutations[0].applyConfiguration.expression",
            'unexpected type name "Object.other", expected "Object.spec"',
        ),
        (
            {"mutations": [{"patchType": "JSONPatch"}]},
            "spec.mutations[0].jsonPatch",
            "must be specified when patchType is JSONPatch",
        ),
        (
            {"mutations": [applied(LABEL) | {"jsonPatch": {"expression": "[]"}}]},
            "spec.mutations[0].jsonPatch",
            "must not be specified when patchType is ApplyConfiguration",
        ),
        (
            {"mutations": [{"patchType": "Magic"}]},
            "spec.mutations[0].patchType",
            'Unsupported value: "Magic": supported values: "ApplyConfiguration", "JSONPatch"',
        ),
        (
            {"matchConstraints": {"resourceRules": [RULE | {"operations": ["DELETE"]}]}},
            "spec.matchConstraints.resourceRules.operations",
            'Unsupported value: "DELETE"',
        ),
        (
            {"variables": [{"name": "a", "expression": "Object{}"}]},
            "spec.variables[0].expression",
            "messages cannot be created",
        ),
    ],
)
async def test_a_policy_that_is_refused(api: Api, spec: Document, field: str, message: str) -> None:
    answer = await api.post(MUTATING, mutating("p", applied(LABEL), **spec))
    status = answer.refused(422, "Invalid")
    causes = {each["field"]: each["message"] for each in status["details"]["causes"]}
    assert message in causes[field], causes


async def test_tables(api: Api) -> None:
    await mutate(api, mutating("p", applied(LABEL)))
    table = (await api.get(MUTATING, headers={"Accept": TABLE})).ok()
    assert [each["name"] for each in table["columnDefinitions"]] == [
        "Name",
        "Mutations",
        "ParamKind",
        "Age",
    ]
    assert table["rows"][0]["cells"] == ["p", 1, "<unset>", "0s"]
    table = (await api.get(MUTATING_BINDINGS, headers={"Accept": TABLE})).ok()
    assert table["rows"][0]["cells"] == ["p", "p", "<unset>", "0s"]
