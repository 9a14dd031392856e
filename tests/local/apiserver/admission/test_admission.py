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


CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
COMPUTED = "must not be provided in pod spec; priority admission controller computed"


async def test_a_priority_has_to_be_that_of_the_class(api: Api) -> None:
    quiet = {"metadata": {"name": "quiet"}, "value": 7, "preemptionPolicy": "Never"}
    (await api.post(CLASSES, quiet)).ok(201)
    for name, spec, why in (
        ("a", {"priority": 5}, f"the integer value of priority (5) {COMPUTED} 0"),
        (
            "b",
            {"priority": 8, "priorityClassName": "quiet"},
            f"the integer value of priority (8) {COMPUTED} 7",
        ),
        (
            "c",
            {"preemptionPolicy": "Never"},
            f"the string value of PreemptionPolicy (Never) {COMPUTED} PreemptLowerPriority",
        ),
    ):
        answer = await api.post(PODS, pod(name, **spec))
        text = f'pods "{name}" is forbidden: {why} from the given PriorityClass name'
        answer.refused(403, "Forbidden", text)
    for name, spec, priority in (
        ("d", {"priority": 0}, 0),
        ("e", {"priority": 7, "priorityClassName": "quiet"}, 7),
    ):
        assert (await api.post(PODS, pod(name, **spec))).ok(201)["spec"]["priority"] == priority


async def test_there_is_one_default_priority(api: Api) -> None:
    first = {"metadata": {"name": "first"}, "value": 9, "globalDefault": True}
    second = {"metadata": {"name": "second"}, "value": 3, "globalDefault": True}
    (await api.post(CLASSES, first)).ok(201)
    why = (
        'priorityclasses.scheduling.k8s.io "second" is forbidden: PriorityClass first is already '
        "marked as default. Only one default can exist"
    )
    (await api.post(CLASSES, second)).refused(403, "Forbidden", why)
    (await api.post(CLASSES, second | {"globalDefault": False})).ok(201)
    answer = await api.put(f"{CLASSES}/second", second)
    answer.refused(403, "Forbidden", why)
    (await api.put(f"{CLASSES}/first", first | {"description": "still"})).ok()
    spec = (await api.post(PODS, pod("a"))).ok(201)["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (9, "first")


async def test_claims_and_volumes_are_protected(api: Api) -> None:
    modes = {"accessModes": ["ReadWriteOnce"]}
    claim = {
        "metadata": {"name": "c", "finalizers": ["example.com/mine"]},
        "spec": modes | {"resources": {"requests": {"storage": "1Gi"}}},
    }
    volume = {
        "metadata": {"name": "v"},
        "spec": modes | {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}},
    }
    for path, document, finalizers in (
        (
            PODS.replace("pods", "persistentvolumeclaims"),
            claim,
            ["example.com/mine", "kubernetes.io/pvc-protection"],
        ),
        ("/api/v1/persistentvolumes", volume, ["kubernetes.io/pv-protection"]),
    ):
        created = (await api.post(path, document)).ok(201)
        assert created["metadata"]["finalizers"] == finalizers
        place = f"{path}/{created['metadata']['name']}"
        assert (await api.delete(place)).ok()["metadata"]["deletionTimestamp"]
        assert (await api.get(place)).ok()["metadata"]["finalizers"] == finalizers


async def test_pods_stay_on_a_lost_node_for_five_minutes(api: Api) -> None:
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 5}
    own["effect"] = "NoExecute"
    added = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    created = (await api.post(PODS, pod("a", tolerations=[own]))).ok(201)
    assert created["spec"]["tolerations"] == [own, added | {"tolerationSeconds": 300}]
    for effect in ("NoExecute", ""):
        everything = {"operator": "Exists"} | ({"effect": effect} if effect else {})
        name = f"b{effect.lower()}"
        created = (await api.post(PODS, pod(name, tolerations=[everything]))).ok(201)
        assert created["spec"]["tolerations"] == [everything]


async def test_an_update_without_the_tolerations_keeps_them(api: Api) -> None:
    created = (await api.post(PODS, pod("a"))).ok(201)
    spec = {key: item for key, item in created["spec"].items() if key != "tolerations"}
    assert (await api.put(f"{PODS}/a", created | {"spec": spec})).ok() == created


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
