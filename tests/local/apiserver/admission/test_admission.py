"""Admission of new pods: what the server adds and what it rejects."""

from typing import Any

from local.apiserver.support import PODS, Api, pod

ACCOUNTS = PODS.replace("pods", "serviceaccounts")
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"


def token_mounts(created: dict[str, Any]) -> list[dict[str, Any]]:
    spec = created["spec"]
    containers = [*spec.get("initContainers", ()), *spec["containers"]]
    mounts = [each for container in containers for each in container.get("volumeMounts", ())]
    return [each for each in mounts if each["mountPath"] == TOKEN]


async def test_every_container_gets_its_service_account_token(api: Api) -> None:
    init = [{"name": "first", "image": "busybox:1"}]
    created = (await api.post(PODS, pod("a", initContainers=init))).ok(201)

    mounts = token_mounts(created)
    assert len(mounts) == 2
    assert all(each["readOnly"] for each in mounts)
    (volume,) = created["spec"]["volumes"]
    assert {volume["name"]} == {each["name"] for each in mounts}
    assert volume["name"].startswith("kube-api-access-")
    kinds = [kind for source in volume["projected"]["sources"] for kind in source]
    assert kinds == ["serviceAccountToken", "configMap", "downwardAPI"]
    again = (await api.get(f"{PODS}/a")).ok()
    assert again["spec"] == created["spec"]


async def test_token_mounting_can_be_disabled(api: Api) -> None:
    account = {"metadata": {"name": "quiet"}, "automountServiceAccountToken": False}
    (await api.post(ACCOUNTS, account)).ok(201)
    for name, spec, expected in (
        ("by-account", {"serviceAccountName": "quiet"}, 0),
        ("by-pod", {"automountServiceAccountToken": False}, 0),
        ("pod-wins", {"serviceAccountName": "quiet", "automountServiceAccountToken": True}, 1),
    ):
        created = (await api.post(PODS, pod(name, **spec))).ok(201)
        assert len(token_mounts(created)) == expected, name


async def test_a_containers_own_mount_takes_precedence(api: Api) -> None:
    body = pod("a", volumes=[{"name": "mine", "emptyDir": {}}])
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": TOKEN}]
    created = (await api.post(PODS, body)).ok(201)

    assert [each["name"] for each in token_mounts(created)] == ["mine"]
    assert [each["name"] for each in created["spec"]["volumes"]] == ["mine"]


async def test_runtime_classes(api: Api) -> None:
    message = 'pods "a" is forbidden: pod rejected: RuntimeClass "none" not found'
    (await api.post(PODS, pod("a", runtimeClassName="none"))).refused(403, "Forbidden", message)
    runtime = {
        "metadata": {"name": "heavy"},
        "handler": "any",
        "overhead": {"podFixed": {"cpu": "10m", "memory": "1Mi"}},
        "scheduling": {
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "heavy", "operator": "Exists"}],
        },
    }
    (await api.post(RUNTIMES, runtime)).ok(201)

    spec = (await api.post(PODS, pod("a", runtimeClassName="heavy"))).ok(201)["spec"]
    assert spec["overhead"] == {"cpu": "10m", "memory": "1Mi"}
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert {"key": "heavy", "operator": "Exists"} in spec["tolerations"]

    conflict = pod("b", runtimeClassName="heavy", nodeSelector={"disk": "hdd"})
    (await api.post(PODS, conflict)).refused(403)
    (await api.post(PODS, pod("b", overhead={"cpu": "1"}))).refused(403)


async def test_a_bound_token_has_the_name_and_uid_of_its_pod(api: Api) -> None:
    (await api.post(ACCOUNTS, {"metadata": {"name": "robot"}})).ok(201)
    created = (await api.post(PODS, pod("a", serviceAccountName="robot"))).ok(201)
    uid = created["metadata"]["uid"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "a", "uid": uid}
    request = {"spec": {"boundObjectRef": bound}}
    token = (await api.post(f"{ACCOUNTS}/robot/token", request)).ok(201)["status"]["token"]

    reviews = "/apis/authentication.k8s.io/v1/tokenreviews"
    review = (await api.post(reviews, {"spec": {"token": token}})).ok(201)
    extra = review["status"]["user"]["extra"]
    prefix = "authentication.kubernetes.io/"
    assert extra[f"{prefix}pod-name"] == ["a"]
    assert extra[f"{prefix}pod-uid"] == [uid]
    assert f"{prefix}node-name" not in extra
    (credential,) = extra[f"{prefix}credential-id"]
    assert credential.startswith("JTI=")
