"""DELETE: at once, with a grace period, with finalizers, with preconditions."""

from typing import Any

import pytest

from local.apiserver.support import MAPS, PODS, Api, config_map, pod

JOBS = "/apis/batch/v1/namespaces/default/jobs"
BOUND = {"target": {"kind": "Node", "name": "n"}}


def job(name: str) -> dict[str, Any]:
    template = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox:1"}],
        }
    }
    return {"metadata": {"name": name}, "spec": {"template": template}}


async def running_pod(api: Api, name: str = "p", **spec: Any) -> None:
    (await api.post(PODS, pod(name, **spec))).ok(201)
    (await api.post(f"{PODS}/{name}/binding", BOUND)).ok(201)


async def test_delete_returns_a_status_or_the_object(api: Api) -> None:
    created = (await api.post(MAPS, config_map("a"))).ok(201)
    assert (await api.delete(f"{MAPS}/a")).ok() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]},
    }
    (await api.delete(f"{MAPS}/a")).refused(404, "NotFound", 'configmaps "a" not found')
    (await api.post(PODS, pod("p"))).ok(201)
    assert (await api.delete(f"{PODS}/p")).ok()["kind"] == "Pod"


async def test_preconditions(api: Api) -> None:
    created = (await api.post(MAPS, config_map("a"))).ok(201)
    metadata = created["metadata"]
    for field, wrong in (("uid", "other"), ("resourceVersion", "1")):
        answer = await api.delete(f"{MAPS}/a", {"preconditions": {field: wrong}})
        message = answer.refused(409, "Conflict")["message"]
        assert "Precondition failed" in message
        assert wrong in message
    right = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    (await api.delete(f"{MAPS}/a", {"preconditions": right})).ok()


@pytest.mark.parametrize(
    ("body", "query", "code"),
    [
        ({"propagationPolicy": "Sideways"}, {}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, {}, 422),
        ({"gracePeriodSeconds": "soon"}, {}, 422),
        ({"dryRun": ["Some"]}, {}, 422),
        ({"kind": "Pod"}, {}, 400),
        (b"nonsense", {}, 400),
        (None, {"gracePeriodSeconds": "x"}, 400),
    ],
)
async def test_invalid_options_are_rejected(
    api: Api, body: Any, query: dict[str, str], code: int
) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    (await api.delete(f"{MAPS}/a", body, **query)).refused(code)
    (await api.get(f"{MAPS}/a")).ok()


async def test_finalizers_keep_an_object_until_the_last_is_removed(api: Api) -> None:
    (await api.post(MAPS, config_map("a", finalizers=["x/one", "x/two"]))).ok(201)
    deleted = (await api.delete(f"{MAPS}/a")).ok()
    assert deleted["kind"] == "ConfigMap"
    assert deleted["metadata"]["deletionTimestamp"] == "2027-01-15T08:00:00Z"
    assert deleted["metadata"]["deletionGracePeriodSeconds"] == 0
    again = (await api.delete(f"{MAPS}/a")).ok()
    assert again == deleted
    more = {"metadata": {"finalizers": ["x/one", "x/two", "x/three"]}}
    message = (await api.patch(f"{MAPS}/a", more)).refused(422, "Invalid")["message"]
    assert "no new finalizers can be added if the object is being deleted" in message
    sneaky = {"metadata": {"deletionTimestamp": None}}
    kept = (await api.patch(f"{MAPS}/a", sneaky)).ok()
    assert kept["metadata"]["deletionTimestamp"]
    (await api.patch(f"{MAPS}/a", {"metadata": {"finalizers": ["x/two"]}})).ok()
    (await api.get(f"{MAPS}/a")).ok()
    async with api.watch(MAPS) as watching:
        assert await watching.names(1) == [("ADDED", "a")]
        last = (await api.patch(f"{MAPS}/a", {"metadata": {"finalizers": None}})).ok()
        assert "finalizers" not in last["metadata"]
        assert await watching.names(1) == [("DELETED", "a")]
    (await api.get(f"{MAPS}/a")).refused(404)


async def test_deleting_raises_the_generation_once(api: Api) -> None:
    body = job("j")
    body["metadata"]["finalizers"] = ["x/y"]
    (await api.post(JOBS, body)).ok(201)
    background = {"propagationPolicy": "Background"}
    for _ in range(2):
        deleted = (await api.delete(f"{JOBS}/j", background)).ok()
        assert deleted["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("policy", "finalizer"),
    [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")],
)
async def test_propagation_sets_finalizers_for_the_garbage_collector(
    api: Api, policy: str, finalizer: str
) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    deleted = (await api.delete(f"{MAPS}/a", {"propagationPolicy": policy})).ok()
    assert deleted["metadata"]["finalizers"] == [finalizer]
    assert deleted["metadata"]["deletionTimestamp"]
    by_query = await api.delete(f"{MAPS}/a", propagationPolicy="Background")
    assert by_query.ok()["kind"] == "Status"  # the finalizer is taken off again


@pytest.mark.parametrize(
    ("field", "value", "found", "wanted"),
    [
        ("dryRun", 1, "number", "[]string"),
        ("dryRun", "All", "string", "[]string"),
        ("dryRun", [["All"]], "array", "string"),
        ("propagationPolicy", [], "array", "v1.DeletionPropagation"),
        ("propagationPolicy", {}, "object", "v1.DeletionPropagation"),
        ("orphanDependents", "no", "string", "bool"),
        ("preconditions", [], "array", "v1.Preconditions"),
        ("preconditions", "x", "string", "v1.Preconditions"),
    ],
)
async def test_options_of_another_type_are_no_options(
    api: Api, field: str, value: Any, found: str, wanted: str
) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    answer = (await api.delete(f"{MAPS}/a", {field: value})).refused(400, "BadRequest")
    said = f"cannot unmarshal {found} into Go struct field DeleteOptions.{field} of type {wanted}"
    assert said in answer["message"]
    (await api.get(f"{MAPS}/a")).ok()


async def test_jobs_orphan_their_pods_by_default(api: Api) -> None:
    (await api.post(JOBS, job("j"))).ok(201)
    answer = await api.delete(f"{JOBS}/j")
    assert answer.ok()["metadata"]["finalizers"] == ["orphan"]
    assert "child pods are preserved by default when jobs are deleted" in answer.warnings[0]
    (await api.post(JOBS, job("k"))).ok(201)
    answer = await api.delete(f"{JOBS}/k", {"propagationPolicy": "Background"})
    assert answer.warnings == []
    assert answer.ok()["kind"] == "Status"


async def test_an_unbound_pod_is_deleted_at_once(api: Api) -> None:
    (await api.post(PODS, pod("p"))).ok(201)
    (await api.delete(f"{PODS}/p")).ok()
    (await api.get(f"{PODS}/p")).refused(404)


async def test_a_finished_pod_is_deleted_at_once(api: Api) -> None:
    await running_pod(api)
    (await api.patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})).ok()
    (await api.delete(f"{PODS}/p")).ok()
    (await api.get(f"{PODS}/p")).refused(404)


async def test_a_running_pod_gets_its_grace_period(api: Api) -> None:
    await running_pod(api, terminationGracePeriodSeconds=20)
    deleted = (await api.delete(f"{PODS}/p")).ok()["metadata"]
    assert deleted["deletionTimestamp"] == "2027-01-15T08:00:20Z"
    assert deleted["deletionGracePeriodSeconds"] == 20
    assert deleted["generation"] == 2
    later = (await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 60})).ok()["metadata"]
    assert later["deletionGracePeriodSeconds"] == 20  # it can only become shorter
    sooner = (await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 5})).ok()["metadata"]
    assert sooner["deletionTimestamp"] == "2027-01-15T08:00:05Z"
    assert sooner["deletionGracePeriodSeconds"] == 5
    status = {"status": {"phase": "Failed"}}
    (await api.patch(f"{PODS}/p/status", status)).ok()  # the node reports how it ended
    (await api.get(f"{PODS}/p")).ok()
    async with api.watch(PODS, resourceVersion=sooner["resourceVersion"]) as watching:
        (await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})).ok()  # and then removes it
        events = [await watching.next() for _ in range(3)]
    assert [
        (event["type"], event["object"]["metadata"]["deletionGracePeriodSeconds"])
        for event in events
    ] == [("MODIFIED", 5), ("MODIFIED", 0), ("DELETED", 0)]
    (await api.get(f"{PODS}/p")).refused(404)


async def test_a_pod_with_finalizers_outlives_its_grace_period(api: Api) -> None:
    await running_pod(api)
    (await api.patch(f"{PODS}/p", {"metadata": {"finalizers": ["batch/job-tracking"]}})).ok()
    (await api.delete(f"{PODS}/p")).ok()
    left = (await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})).ok()
    assert left["metadata"]["deletionGracePeriodSeconds"] == 0
    (await api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})).ok()
    (await api.get(f"{PODS}/p")).refused(404)


async def test_removing_finalizers_does_not_end_the_grace_period(api: Api) -> None:
    await running_pod(api)
    (await api.patch(f"{PODS}/p", {"metadata": {"finalizers": ["batch/job-tracking"]}})).ok()
    (await api.delete(f"{PODS}/p")).ok()
    (await api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})).ok()
    (await api.get(f"{PODS}/p")).ok()  # its processes may still run


async def test_namespaces_wait_for_their_content(api: Api) -> None:
    namespaces = "/api/v1/namespaces"
    created = (await api.post(namespaces, {"metadata": {"name": "n"}})).ok(201)
    assert created["status"] == {"phase": "Active"}
    assert created["spec"] == {"finalizers": ["kubernetes"]}
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    going = (await api.delete(f"{namespaces}/n")).ok()
    assert going["status"]["phase"] == "Terminating"
    (await api.delete(f"{namespaces}/n")).ok()
    kept = (await api.patch(f"{namespaces}/n", {"spec": {"finalizers": []}})).ok()
    assert kept["spec"] == {"finalizers": ["kubernetes"]}
    stale = dict(kept, metadata=kept["metadata"] | {"resourceVersion": "1"})
    (await api.put(f"{namespaces}/n/finalize", stale)).refused(409, "Conflict")
    kept["spec"] = {}
    (await api.put(f"{namespaces}/n/finalize", kept)).ok()
    (await api.get(f"{namespaces}/n")).refused(404)


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_system_namespaces_cannot_be_deleted(api: Api, name: str) -> None:
    (await api.delete(f"/api/v1/namespaces/{name}")).refused(
        403, "Forbidden", f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    )


async def test_events_expire_after_an_hour(api: Api) -> None:
    events = "/api/v1/namespaces/default/events"

    def event(name: str) -> dict[str, Any]:
        about = {"kind": "Pod", "name": "p", "namespace": "default"}
        return {
            "metadata": {"name": name},
            "involvedObject": about,
            "lastTimestamp": "2027-01-15T08:00:00Z",
        }

    (await api.post(events, event("old"))).ok(201)
    api.clock.now += 3599
    api.server._housekeeping.remove_expired_events()
    (await api.get(f"{events}/old")).ok()
    api.clock.now += 2
    api.server._housekeeping.remove_expired_events()
    (await api.get(f"{events}/old")).refused(404)
