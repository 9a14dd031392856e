"""Who may write Roles and bindings still cannot grant what it does not have."""

from typing import Any

import pytest

from local.apiserver.authorization.support import (
    RBAC,
    ROBOT,
    Robot,
    binding,
    place,
    role,
    rule,
)
from local.apiserver.support import APPLY, MAPS, MERGE, Api

GROUP = "rbac.authorization.k8s.io"
WRITE = "get create update patch delete"
LACKING = (
    f'roles.{GROUP} "greedy" is forbidden: user "{ROBOT}" (groups=["system:serviceaccounts" '
    '"system:serviceaccounts:default" "system:authenticated"]) is attempting to grant RBAC '
    'permissions not currently held:\n{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'
)
PODS, SECRETS = rule("get", "pods"), rule("get", "secrets")


@pytest.fixture
async def robot(api: Api) -> Robot:
    """An account that may write Roles and bindings, and read pods."""
    found = await Robot.create(api)
    await found.grant(rule(WRITE, "roles rolebindings", group=GROUP), PODS)
    return found


async def test_a_role_grants_what_its_author_has(robot: Robot) -> None:
    (await robot.create_object(role("modest", PODS))).ok(201)
    greedy = role("greedy", PODS, SECRETS)
    (await robot.create_object(greedy)).refused(403, "Forbidden", LACKING)
    path = f"{place(greedy)}/greedy"
    (await robot.request("PUT", path, greedy)).refused(403, "Forbidden", LACKING)
    options = {"content_type": APPLY, "fieldManager": "robot"}
    (await robot.request("PATCH", path, greedy, **options)).refused(403, "Forbidden", LACKING)
    (await robot.api.get(path)).refused(404)


async def test_a_role_is_not_extended(robot: Robot) -> None:
    (await robot.create_object(role("greedy", PODS))).ok(201)
    path = f"{RBAC}/namespaces/default/roles/greedy"
    patch: dict[str, Any] = {"rules": [PODS, SECRETS]}
    answer = await robot.request("PATCH", path, patch, content_type=MERGE)
    answer.refused(403, "Forbidden", LACKING)
    # What others have granted stays, as far as only owners and finalizers change.
    (await robot.api.patch(path, patch)).ok()
    patch = {"metadata": {"finalizers": ["example.com/x"]}}
    (await robot.request("PATCH", path, patch, content_type=MERGE)).ok()
    patch = {"metadata": {"labels": {"a": "b"}}}
    answer = await robot.request("PATCH", path, patch, content_type=MERGE)
    answer.refused(403, "Forbidden", LACKING)


async def test_the_verb_escalate(robot: Robot) -> None:
    await robot.grant(rule("escalate", "roles", group=GROUP))
    (await robot.create_object(role("greedy", SECRETS))).ok(201)
    bound = binding("greedy", "Role", "greedy")
    assert "not currently held" in (await robot.create_object(bound)).refused(403)["message"]


async def test_a_binding_grants_what_its_author_has(robot: Robot) -> None:
    for name, rules in (("modest", PODS), ("greedy", SECRETS)):
        (await robot.api.post(f"{RBAC}/namespaces/default/roles", role(name, rules))).ok(201)
    (await robot.create_object(binding("modest", "Role", "modest"))).ok(201)
    greedy = (await robot.create_object(binding("b", "Role", "greedy"))).refused(403, "Forbidden")
    assert greedy["message"].startswith(f'rolebindings.{GROUP} "b" is forbidden: user "{ROBOT}"')
    (await robot.create_object(binding("b", "ClusterRole", "cluster-admin"))).refused(403)
    missing = (await robot.create_object(binding("b", "Role", "none"))).refused(404, "NotFound")
    assert missing["message"] == f'rolebindings.{GROUP} "none" not found'
    # Another subject of a binding gets what the author has to have.
    (
        await robot.api.post(
            f"{RBAC}/namespaces/default/rolebindings", binding("b", "Role", "greedy")
        )
    ).ok(201)
    patch = {"subjects": [{"kind": "User", "name": "jane", "apiGroup": GROUP}]}
    path = f"{RBAC}/namespaces/default/rolebindings/b"
    (await robot.api.patch(path, {"subjects": []})).ok()
    (await robot.request("PATCH", path, patch, content_type=MERGE)).refused(403)


async def test_the_verb_bind(robot: Robot) -> None:
    await robot.grant(rule("bind", "clusterroles", group=GROUP, names="cluster-admin"))
    (await robot.create_object(binding("b", "ClusterRole", "admin"))).ok(201)  # has no rules here
    (await robot.get(MAPS)).refused(403)
    (await robot.create_object(binding("c", "ClusterRole", "cluster-admin"))).ok(201)
    assert (await robot.get(MAPS)).code == 200
    (await robot.get("/api/v1/configmaps")).refused(403)  # bound in one namespace only


async def test_cluster_roles_and_their_bindings(robot: Robot) -> None:
    await robot.grant(
        rule(WRITE, "clusterroles clusterrolebindings", group=GROUP), SECRETS, cluster=True
    )
    (await robot.create_object(role("modest", SECRETS, cluster=True))).ok(201)
    # What one has in a namespace is not enough.
    (await robot.create_object(role("greedy", PODS, cluster=True))).refused(403)
    (await robot.create_object(binding("m", "ClusterRole", "modest", cluster=True))).ok(201)
    (await robot.create_object(binding("a", "ClusterRole", "cluster-admin", cluster=True))).refused(
        403
    )
    gathering = role("gathering", cluster=True) | {
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    }
    message = (
        f'clusterroles.{GROUP} "gathering" is forbidden: must have cluster-admin privileges to use '
        "the aggregationRule"
    )
    (await robot.create_object(gathering)).refused(403, "Forbidden", message)


async def test_the_owner_grants_anything(api: Api) -> None:
    (await api.post(f"{RBAC}/clusterroles", role("r", SECRETS, cluster=True))).ok(201)
    (
        await api.post(
            f"{RBAC}/clusterrolebindings", binding("b", "ClusterRole", "none", cluster=True)
        )
    ).ok(201)
