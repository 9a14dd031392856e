"""Requests of ServiceAccounts are served as far as their Roles go, and no further."""

import itertools
from typing import Any

import pytest

from local.apiserver.authorization.support import RBAC, ROBOT, Robot, binding, place, role, rule
from local.apiserver.support import APPLY, MAPS, PODS, Api, config_map, pod
from traincrew.local.apiserver.http.server import ApiServer
from traincrew.local.apiserver.storage import Storage

MAP = f"{MAPS}/one"


@pytest.fixture
async def robot(api: Api) -> Robot:
    (await api.post(MAPS, config_map("one"))).ok(201)
    (await api.post(MAPS, config_map("two"))).ok(201)
    (await api.post(PODS, pod("p"))).ok(201)
    return await Robot.create(api)


def cannot(verb: str, resource: str, group: str = "", where: str = "") -> str:
    where = where or 'in the namespace "default"'
    return f'User "{ROBOT}" cannot {verb} resource "{resource}" in API group "{group}" {where}'


async def test_an_account_without_roles_may_discover_and_nothing_else(robot: Robot) -> None:
    for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/version", "/readyz"):
        assert (await robot.get(path)).code == 200, path
    message = f"configmaps is forbidden: {cannot('list', 'configmaps')}"
    refused = (await robot.get(MAPS)).refused(403, "Forbidden", message)
    assert refused["details"] == {"kind": "configmaps"}
    message = f'configmaps "one" is forbidden: {cannot("get", "configmaps")}'
    refused = (await robot.get(MAP)).refused(403, "Forbidden", message)
    assert refused["details"] == {"name": "one", "kind": "configmaps"}
    message = f"nodes is forbidden: {cannot('list', 'nodes', where='at the cluster scope')}"
    (await robot.get("/api/v1/nodes")).refused(403, "Forbidden", message)
    message = f'forbidden: User "{ROBOT}" cannot get path "/metrics"'
    (await robot.get("/metrics")).refused(403, "Forbidden", message)
    # What does not exist is forbidden as well: the path alone decides.
    refused = (await robot.get("/apis/example.com/v1/things/x")).refused(403, "Forbidden")
    assert refused["details"] == {"name": "x", "group": "example.com", "kind": "things"}


@pytest.mark.parametrize(
    ("verb", "method", "path", "body"),
    [
        ("get", "GET", MAP, None),
        ("get", "HEAD", MAP, None),
        ("list", "GET", MAPS, None),
        ("create", "POST", MAPS, config_map("new")),
        ("update", "PUT", MAP, config_map("one")),
        ("patch", "PATCH", MAP, {"data": {"a": "b"}}),
        ("delete", "DELETE", MAP, None),
        ("deletecollection", "DELETE", MAPS, None),
    ],
)
async def test_each_verb(robot: Robot, verb: str, method: str, path: str, body: Any) -> None:
    async def code() -> int:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return (await robot.request(method, path, body, content_type=kind)).code

    others = "get list watch create update patch delete deletecollection".replace(verb, "", 1)
    if verb == "delete":
        others = "get list watch create update patch deletecollection"
    await robot.grant(rule(others, "configmaps"))
    assert await code() == 403
    granted = await robot.grant(rule(verb, "configmaps"))
    assert await code() in {200, 201, 405}  # HEAD is authorized, but not served
    (await robot.api.delete(granted)).ok()
    assert await code() == 403


async def test_watches(robot: Robot) -> None:
    await robot.grant(rule("get list", "configmaps"))
    (await robot.get(MAPS, watch="1")).refused(403, "Forbidden")
    (await robot.get(MAP, watch="1")).refused(403, "Forbidden")
    await robot.grant(rule("watch", "configmaps"))
    async with robot.api.watch(MAPS, headers=robot.headers) as watching:
        assert await watching.names(2) == [("ADDED", "one"), ("ADDED", "two")]


async def test_a_role_is_for_one_namespace_and_a_cluster_role_for_all(robot: Robot) -> None:
    await robot.grant(rule("list", "configmaps"))
    assert (await robot.get(MAPS)).code == 200
    (await robot.get("/api/v1/configmaps")).refused(403)
    (await robot.get("/api/v1/namespaces/kube-system/configmaps")).refused(403)
    await robot.grant(rule("list", "configmaps"), cluster=True)
    assert (await robot.get("/api/v1/configmaps")).code == 200
    assert (await robot.get("/api/v1/namespaces/kube-system/configmaps")).code == 200


async def test_a_cluster_role_that_is_bound_in_a_namespace(robot: Robot) -> None:
    made = role("reader", rule("get", "configmaps namespaces"), cluster=True)
    bound = binding("reader", "ClusterRole", "reader")
    (await robot.api.post(place(made), made)).ok(201)
    (await robot.api.post(place(bound), bound)).ok(201)
    assert (await robot.get(MAP)).code == 200
    assert (await robot.get("/api/v1/namespaces/default")).code == 200
    (await robot.get("/api/v1/namespaces/kube-system")).refused(403)
    (await robot.api.delete(f"{place(made)}/reader")).ok()
    message = (
        f'configmaps "one" is forbidden: {cannot("get", "configmaps")}: RBAC: '
        'clusterrole.rbac.authorization.k8s.io "reader" not found'
    )
    (await robot.get(MAP)).refused(403, "Forbidden", message)


@pytest.mark.parametrize(
    "subject",
    [
        {"kind": "User", "name": ROBOT},
        {"kind": "Group", "name": "system:serviceaccounts"},
        {"kind": "Group", "name": "system:serviceaccounts:default"},
        {"kind": "Group", "name": "system:authenticated"},
    ],
)
async def test_subjects(robot: Robot, subject: dict[str, str]) -> None:
    made, bound = role("r", rule("get", "configmaps")), binding("r", "Role", "r", subject)
    (await robot.api.post(place(made), made)).ok(201)
    (await robot.get(MAP)).refused(403)
    (await robot.api.post(place(bound), bound)).ok(201)
    assert (await robot.get(MAP)).code == 200


async def test_names_of_resources(robot: Robot) -> None:
    await robot.grant(rule("get list watch delete", "configmaps", names="one"))
    assert (await robot.get(MAP)).code == 200
    (await robot.get(f"{MAPS}/two")).refused(403)
    (await robot.get(MAPS)).refused(403)
    listed = (await robot.get(MAPS, fieldSelector="metadata.name=one")).ok()
    assert [each["metadata"]["name"] for each in listed["items"]] == ["one"]
    trick = "metadata.namespace!=x\\,metadata.name=one"
    (await robot.get(MAPS, fieldSelector=trick)).refused(403)
    (await robot.request("DELETE", f"{MAPS}/two")).refused(403)
    (await robot.request("DELETE", MAP)).ok()


@pytest.mark.parametrize(
    ("method", "part", "verb"),
    [
        ("GET", "log", "get"),
        ("GET", "status", "get"),
        ("PATCH", "status", "patch"),
        ("POST", "eviction", "create"),
        ("POST", "binding", "create"),
        ("PATCH", "ephemeralcontainers", "patch"),
        ("POST", "exec", "create"),
        ("POST", "attach", "create"),
        ("POST", "portforward", "create"),
        ("GET", "proxy", "get"),
        ("POST", "proxy", "create"),
    ],
)
async def test_subresources_need_a_rule_of_their_own(
    robot: Robot, method: str, part: str, verb: str
) -> None:
    await robot.grant(rule("*", "pods services"))
    message = f'pods "p" is forbidden: {cannot(verb, f"pods/{part}")}'
    (await robot.request(method, f"{PODS}/p/{part}")).refused(403, "Forbidden", message)
    await robot.grant(rule(verb, f"pods/{part}"))
    assert (await robot.request(method, f"{PODS}/p/{part}")).code not in {401, 403}


@pytest.mark.parametrize("part", ["exec", "attach", "portforward"])
async def test_a_websocket_needs_get_and_create(robot: Robot, part: str) -> None:
    path = f"{PODS}/p/{part}"
    await robot.grant(rule("create", f"pods/{part}"))
    message = f'pods "p" is forbidden: {cannot("get", f"pods/{part}")}'
    (await robot.get(path)).refused(403, "Forbidden", message)
    await robot.grant(rule("get", f"pods/{part}"))
    assert (await robot.get(path)).code not in {401, 403}


async def test_get_alone_opens_no_websocket(robot: Robot) -> None:
    await robot.grant(rule("get", "pods/exec"))
    (await robot.get(f"{PODS}/p/exec")).refused(403, "Forbidden", 'pods "p" is forbidden: ')


async def test_scale_of_anything(robot: Robot) -> None:
    path = "/apis/apps/v1/namespaces/default/statefulsets/s/scale"
    await robot.grant(rule("get", "*/scale", group="apps"))
    (await robot.get(path)).refused(404)
    (await robot.get(path.removesuffix("/scale"))).refused(403)


async def test_an_update_that_creates_needs_create(robot: Robot) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "robot"}}
    await robot.grant(rule("update patch", "leases", group="coordination.k8s.io"))
    message = (
        f'leases.coordination.k8s.io "l" is forbidden: '
        f"{cannot('create', 'leases', 'coordination.k8s.io')}"
    )
    (await robot.request("PUT", f"{leases}/l", lease)).refused(403, "Forbidden", message)
    applied = lease | {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    options = {"content_type": APPLY, "fieldManager": "robot"}
    (await robot.request("PATCH", f"{leases}/l", applied, **options)).refused(403)
    await robot.grant(rule("create", "leases", group="coordination.k8s.io"))
    (await robot.request("PUT", f"{leases}/l", lease)).ok(201)
    (
        await robot.request(
            "PATCH", f"{leases}/m", applied | {"metadata": {"name": "m"}}, **options
        )
    ).ok(201)


async def test_the_owner_may_do_everything_without_any_role(api: Api) -> None:
    for plural in ("clusterroles", "clusterrolebindings"):
        (await api.delete(f"{RBAC}/{plural}")).ok()
        assert (await api.get(f"{RBAC}/{plural}")).ok()["items"] == []
    (await api.post(MAPS, config_map("one"))).ok(201)
    assert (await api.get("/metrics")).code == 200
    robot = await Robot.create(api)
    assert (await robot.get("/version")).code == 403


# -- impersonation


async def who(api: Api, headers: dict[str, str]) -> dict[str, Any]:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    review = (await api.post(path, {}, headers=headers)).ok(201)
    user: dict[str, Any] = review["status"]["userInfo"]
    return user


async def test_the_owner_acts_as_an_account(robot: Robot) -> None:
    as_robot = {"Impersonate-User": ROBOT}
    assert await who(robot.api, as_robot) == {
        "username": ROBOT,
        "groups": [
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated",
        ],
    }
    (await robot.api.get(MAPS, headers=as_robot)).refused(403)
    await robot.grant(rule("list", "configmaps"))
    assert (await robot.api.get(MAPS, headers=as_robot)).code == 200


async def test_the_owner_acts_as_a_user_of_groups(api: Api) -> None:
    jane = {"Impersonate-User": "jane", "Impersonate-Extra-Scopes": "all", "Impersonate-Uid": "7"}
    assert await who(api, jane) == {
        "username": "jane",
        "uid": "7",
        "groups": ["system:authenticated"],
        "extra": {"scopes": ["all"]},
    }
    headers = {"Impersonate-User": "jane", "Impersonate-Group": "system:masters"}
    assert (await who(api, headers))["groups"] == ["system:masters", "system:authenticated"]
    assert (await api.get(MAPS, headers=headers)).code == 200
    (await api.get(MAPS, headers={"Impersonate-Group": "system:masters"})).refused(400)


async def test_an_account_becomes_only_whom_its_roles_name(robot: Robot) -> None:
    masters = {"Impersonate-User": "jane", "Impersonate-Group": "system:masters"}
    message = (
        f'users "jane" is forbidden: {cannot("impersonate", "users", where="at the cluster scope")}'
    )
    answer = await robot.api.get(MAPS, headers=masters | robot.headers)
    answer.refused(403, "Forbidden", message)
    await robot.grant(rule("impersonate", "users", names="jane"), cluster=True)
    (await robot.api.get(MAPS, headers=masters | robot.headers)).refused(403)
    jane = {"Impersonate-User": "jane"}
    assert (await who(robot.api, jane | robot.headers))["username"] == "jane"
    (await robot.api.get(MAPS, headers={"Impersonate-Uid": "7"} | robot.headers)).refused(400)


async def test_roles_of_every_cluster_are_new_objects_in_each_server() -> None:
    """They are finished once in a process, but neither UID nor times are those of another."""
    found = []
    for seconds in (1_800_000_000.0, 1_900_000_000.0):
        storage = Storage(None)
        server = ApiServer(storage, secret="s" * 24, clock=itertools.repeat(seconds).__next__)
        await server.start()
        entry = storage.get("clusterroles.rbac.authorization.k8s.io", ("", "view"))
        assert entry is not None
        found.append(entry.copy())
        await server.stop()
        storage.close()
    first, second = (each["metadata"] for each in found)
    assert first["uid"] != second["uid"]
    for metadata, time in ((first, "2027-01-15T08:00:00Z"), (second, "2030-03-17T17:46:40Z")):
        assert metadata.pop("creationTimestamp") == time
        assert [owner.pop("time") for owner in metadata["managedFields"]] == [time]
        del metadata["uid"]
    assert found[0] == found[1]
