"""Reviews answer what the authorizer decides about requests."""

from typing import Any

import pytest

from local.apiserver.authorization.support import ROBOT, Robot, rule, urls
from local.apiserver.support import Answer, Api

REVIEWS = "/apis/authorization.k8s.io/v1"
SELF, OTHER = f"{REVIEWS}/selfsubjectaccessreviews", f"{REVIEWS}/subjectaccessreviews"
LOCAL = f"{REVIEWS}/namespaces/default/localsubjectaccessreviews"


@pytest.fixture
async def robot(api: Api) -> Robot:
    found = await Robot.create(api)
    await found.grant(rule("get list", "pods pods/log"), rule("get", "secrets", names="mine"))
    await found.grant(urls("get", "/metrics"), cluster=True)
    return found


def about(verb: str, resource: str, **more: str) -> dict[str, Any]:
    return {"resourceAttributes": {"verb": verb, "resource": resource, **more}}


WHY = (
    'RBAC: allowed by RoleBinding "granted-1/default" of Role "granted-1" to ServiceAccount '
    '"robot/default"'
)


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        (about("get", "pods", namespace="default"), True),
        (about("get", "pods", namespace="default", subresource="log", name="p"), True),
        (about("get", "pods"), False),
        (about("get", "pods", namespace="kube-system"), False),
        (about("delete", "pods", namespace="default"), False),
        (about("get", "pods", namespace="default", group="metrics.k8s.io"), False),
        (about("get", "secrets", namespace="default", name="mine"), True),
        (about("get", "secrets", namespace="default", name="other"), False),
        ({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}, True),
        ({"nonResourceAttributes": {"path": "/metrics", "verb": "post"}}, False),
    ],
)
async def test_access_reviews_agree(robot: Robot, spec: dict[str, Any], *, allowed: bool) -> None:
    own = (await robot.post(SELF, {"spec": spec})).ok(201)["status"]
    assert own["allowed"] is allowed
    assert ("reason" in own) is allowed
    of_robot = {**spec, "user": ROBOT}
    assert (await robot.api.post(OTHER, {"spec": of_robot})).ok(201)["status"] == own
    impersonated = {"Impersonate-User": ROBOT}
    answer = await robot.api.post(SELF, {"spec": spec}, headers=impersonated)
    assert answer.ok(201)["status"] == own
    if spec.get("resourceAttributes", {}).get("namespace") == "default":
        assert own.get("reason") in {None, WHY}
        assert (await robot.api.post(LOCAL, {"spec": of_robot})).ok(201)["status"] == own


async def test_reviews_of_groups(robot: Robot) -> None:
    spec = about("get", "pods", namespace="default")
    masters = {**spec, "groups": ["system:masters"]}
    assert (await robot.api.post(OTHER, {"spec": masters})).ok(201)["status"] == {"allowed": True}
    others = {**spec, "groups": ["system:authenticated"]}
    assert (await robot.api.post(OTHER, {"spec": others})).ok(201)["status"] == {"allowed": False}


async def test_an_account_reviews_only_itself(robot: Robot) -> None:
    spec = {**about("get", "pods"), "user": "jane"}
    (await robot.post(OTHER, {"spec": spec})).refused(403, "Forbidden")
    (await robot.post(LOCAL, {"spec": spec})).refused(403, "Forbidden")
    tokens = "/apis/authentication.k8s.io/v1/tokenreviews"
    (await robot.post(tokens, {"spec": {"token": "x"}})).refused(403, "Forbidden")


@pytest.mark.parametrize(
    ("path", "spec", "message"),
    [
        (SELF, {}, "exactly one of nonResourceAttributes or resourceAttributes"),
        (
            SELF,
            {**about("get", "pods"), "nonResourceAttributes": {"path": "/", "verb": "get"}},
            "cannot be specified in combination with resourceAttributes",
        ),
        (OTHER, about("get", "pods"), "at least one of user or group must be specified"),
        (LOCAL, {**about("get", "pods"), "user": "x"}, "must match metadata.namespace"),
        (
            LOCAL,
            {"nonResourceAttributes": {"path": "/", "verb": "get"}, "user": "x"},
            "disallowed on this kind of request",
        ),
    ],
)
async def test_invalid_reviews(api: Api, path: str, spec: dict[str, Any], message: str) -> None:
    answer: Answer = await api.post(path, {"spec": spec})
    assert message in answer.refused(422, "Invalid")["message"]


async def test_the_rules_of_oneself(robot: Robot) -> None:
    path = f"{REVIEWS}/selfsubjectrulesreviews"
    (await robot.post(path, {"spec": {}})).refused(400, "BadRequest", "no namespace on request")
    status = (await robot.post(path, {"spec": {"namespace": "default"}})).ok(201)["status"]
    assert rule("get list", "pods pods/log") in status["resourceRules"]
    assert rule("get", "secrets", names="mine") in status["resourceRules"]
    assert {"verbs": ["get"], "nonResourceURLs": ["/metrics"]} in status["nonResourceRules"]
    assert status["incomplete"] is False
    status = (await robot.post(path, {"spec": {"namespace": "kube-system"}})).ok(201)["status"]
    assert not [each for each in status["resourceRules"] if "pods" in each["resources"]]
