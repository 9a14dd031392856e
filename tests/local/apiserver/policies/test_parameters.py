"""Parameters of policies: by name, by selector, of custom kinds, and missing ones."""

from typing import Any

from local.apiserver.policies.support import (
    POLICIES,
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
    WIDGETS,
    Api,
    definition,
    widget,
)

SECRETS = "/api/v1/namespaces/default/secrets"
OF_MAPS = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
ON_SECRETS = {"matchConstraints": {"resourceRules": [RULE | {"resources": ["secrets"]}]}}
SIZE = "int(string(object.metadata.labels.size)) <= int(params.data.most)"


def secret(size: int) -> dict[str, object]:
    metadata = {"name": f"s{size}", "labels": {"size": str(size)}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def reference(action: str = "Deny", **fields: Any) -> dict[str, Any]:
    return {"paramRef": {"parameterNotFoundAction": action, **fields}}


async def denied(api: Api, size: int, text: str = "") -> None:
    status = (await api.post(SECRETS, secret(size))).refused(422)
    assert text in status["message"]


async def test_a_parameter_by_name(api: Api) -> None:
    await install(api, policy("p", SIZE, **OF_MAPS, **ON_SECRETS))
    await install(api, binding(**reference(name="limits")))
    missing = "failed to configure binding: no params found for policy binding with `Deny`"
    await denied(api, 1, missing)
    (await api.post(MAPS, config_map("limits", most="5"))).ok(201)
    (await api.post(SECRETS, secret(5))).ok(201)
    await denied(api, 6, f"failed expression: {SIZE}")
    (await api.patch(f"{MAPS}/limits", {"data": {"most": "6"}})).ok()
    (await api.post(SECRETS, secret(6))).ok(201)


async def test_missing_parameters_may_be_allowed(api: Api) -> None:
    await install(api, policy("p", SIZE, **OF_MAPS, **ON_SECRETS))
    await install(api, binding(**reference("Allow", name="limits")))
    (await api.post(SECRETS, secret(9))).ok(201)


async def test_every_selected_parameter_counts(api: Api) -> None:
    await install(api, policy("p", SIZE, **OF_MAPS, **ON_SECRETS))
    await install(api, binding(**reference(selector={"matchLabels": {"use": "limits"}})))
    for most in ("5", "7"):
        (await api.post(MAPS, config_map(f"m{most}", {"use": "limits"}, most=most))).ok(201)
    (await api.post(MAPS, config_map("unused", most="1"))).ok(201)
    (await api.post(SECRETS, secret(5))).ok(201)
    await denied(api, 6)


async def test_parameters_of_another_namespace(api: Api) -> None:
    elsewhere = MAPS.replace("default", "kube-public")
    (await api.post(elsewhere, config_map("limits", most="5"))).ok(201)
    await install(api, policy("p", SIZE, **OF_MAPS, **ON_SECRETS))
    await install(api, binding(**reference(name="limits", namespace="kube-public")))
    (await api.post(SECRETS, secret(5))).ok(201)
    await denied(api, 6)


async def test_a_binding_without_a_reference_has_null(api: Api) -> None:
    await install(api, policy("p", "params == null", **OF_MAPS, **ON_SECRETS), binding())
    (await api.post(SECRETS, secret(1))).ok(201)


async def test_parameters_of_a_custom_kind(api: Api) -> None:
    kind = {"paramKind": {"apiVersion": "example.com/v1", "kind": "Widget"}}
    expression = "int(object.metadata.labels.size) <= params.spec.size"
    await install(api, policy("p", expression, **kind, **ON_SECRETS))
    await install(api, binding(**reference(name="limits")))
    unknown = (
        "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find"
        " resource referenced by paramKind: 'example.com/v1, Kind=Widget'"
    )
    await denied(api, 1, unknown)
    (await api.post(DEFINITIONS, definition())).ok(201)
    (await api.post(WIDGETS, widget("limits", 5))).ok(201)
    (await api.post(SECRETS, secret(5))).ok(201)
    await denied(api, 6)


async def test_cluster_scoped_objects_have_no_namespace_for_parameters(api: Api) -> None:
    rule = RULE | {"resources": ["namespaces"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}}
    await install(api, policy("p", "true", **OF_MAPS, **spec))
    await install(api, binding(**reference(name="limits")))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    # As upstream, a Namespace has the namespace of itself here.
    status = (await api.post("/api/v1/namespaces", namespace)).refused(422)
    assert "no params found for policy binding" in status["message"]
    nodes = {"matchConstraints": {"resourceRules": [RULE | {"resources": ["nodes"]}]}}
    await install(api, policy("q", "true", **OF_MAPS, **nodes))
    await install(api, binding("c", "q", **reference(name="limits")))
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    status = (await api.post("/api/v1/nodes", node)).refused(422)
    assert "cannot use namespaced paramRef in policy binding" in status["message"]


async def test_many_parameters_are_stopped_by_the_budget_of_a_request(api: Api) -> None:
    await install(api, policy("p", "true", **OF_MAPS, **ON_SECRETS))
    await install(api, binding(**reference(selector={})))
    for number in range(20):
        (await api.post(MAPS, config_map(f"{'m' * 60}{number}"))).ok(201)
    (await api.post(SECRETS, secret(1))).ok(201)
    expensive = "[1, 2, 3, 4, 5, 6, 7, 8].all(x, params.metadata.name.split('').all(y, y != 'z'))"
    many = " && ".join([expensive] * 100)
    change = {"spec": {"validations": [{"expression": many}]}}
    (await api.patch(f"{POLICIES}/p", change, MERGE)).ok()
    await denied(api, 2, "running out of cost budget")
