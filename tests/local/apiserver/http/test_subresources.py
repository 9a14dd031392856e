"""Scale, binding, eviction, tokens; addresses of Services; defaults from other objects."""

from ipaddress import IPv4Network
from typing import Any

import pytest

from local.apiserver.support import PODS, Api, pod, running_server

SERVICES = "/api/v1/namespaces/default/services"
SETS = "/apis/apps/v1/namespaces/default/statefulsets"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BINDING = {"target": {"kind": "Node", "name": "n"}}


def stateful_set(name: str) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "serviceName": name,
            "selector": {
                "matchLabels": labels,
                "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["a", "b"]},
                    {"key": "old", "operator": "DoesNotExist"},
                ],
            },
            "template": {
                "metadata": {"labels": labels | {"tier": "a"}},
                "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
            },
        },
    }


def service(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


# -- scale


async def test_scale_of_a_stateful_set(api: Api) -> None:
    created = (await api.post(SETS, stateful_set("s"))).ok(201)
    scale = (await api.get(f"{SETS}/s/scale")).ok()
    assert scale["metadata"]["uid"] == created["metadata"]["uid"]
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=s,tier in (a,b),!old"}
    scale["spec"]["replicas"] = 5
    assert (await api.put(f"{SETS}/s/scale", scale)).ok()["spec"] == {"replicas": 5}
    (await api.put(f"{SETS}/s/scale", scale)).refused(409, "Conflict")
    operation = {"op": "replace", "path": "/spec/replicas", "value": 1}
    patched = await api.patch(f"{SETS}/s/scale", [operation], "application/json-patch+json")
    assert patched.ok()["spec"] == {"replicas": 1}
    body = {"spec": {"replicas": 4}}
    dry = await api.patch(f"{SETS}/s/scale", body, dryRun="All")
    assert dry.ok()["spec"] == {"replicas": 4}
    assert (await api.get(f"{SETS}/s")).ok()["spec"]["replicas"] == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"spec": {"replicas": -1}}, 422),
        ({"spec": {"replicas": "many"}}, 400),
        ({"spec": {"replicas": 1.5}}, 400),
        ({"metadata": {"name": "other"}}, 400),
        ([], 400),
    ],
)
async def test_invalid_scales_are_rejected(api: Api, body: Any, code: int) -> None:
    (await api.post(SETS, stateful_set("s"))).ok(201)
    (await api.patch(f"{SETS}/s/scale", body)).refused(code)
    assert (await api.get(f"{SETS}/s/scale")).ok()["spec"] == {"replicas": 2}


# -- binding


async def test_binding_assigns_a_pod_to_a_node_once(api: Api) -> None:
    (await api.post(PODS, pod("p"))).ok(201)
    answer = (await api.post(f"{PODS}/p/binding", BINDING)).ok(201)
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    bound = (await api.get(f"{PODS}/p")).ok()
    assert bound["spec"]["nodeName"] == "n"
    assert bound["metadata"]["generation"] == 1
    condition = next(c for c in bound["status"]["conditions"] if c["type"] == "PodScheduled")
    assert condition["status"] == "True"
    (await api.post(f"{PODS}/p/binding", BINDING)).refused(
        409,
        "Conflict",
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"',
    )


async def test_binding_through_the_bindings_resource(api: Api) -> None:
    (await api.post(PODS, pod("p"))).ok(201)
    body = BINDING | {"metadata": {"name": "p"}}
    (await api.post("/api/v1/namespaces/default/bindings", body)).ok(201)
    assert (await api.get(f"{PODS}/p")).ok()["spec"]["nodeName"] == "n"
    (await api.post("/api/v1/namespaces/default/bindings", BINDING)).refused(400)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, 400),
        ({"target": {}}, 400),
        ({"target": "n"}, 400),
        ({"target": {"kind": "Pod", "name": "n"}}, 400),
        ({"kind": "Pod"}, 400),
        (BINDING | {"metadata": {"uid": "other"}}, 409),
    ],
)
async def test_invalid_bindings_are_rejected(api: Api, body: dict[str, Any], code: int) -> None:
    (await api.post(PODS, pod("p"))).ok(201)
    (await api.post(f"{PODS}/p/binding", body)).refused(code)
    assert "nodeName" not in (await api.get(f"{PODS}/p")).ok()["spec"]


async def test_gated_and_terminating_pods_are_not_bound(api: Api) -> None:
    gated = (await api.post(PODS, pod("gated", schedulingGates=[{"name": "x/y"}]))).ok(201)
    assert gated["status"]["conditions"][0]["reason"] == "SchedulingGated"
    message = (await api.post(f"{PODS}/gated/binding", BINDING)).refused(409)["message"]
    assert "has non-empty .spec.schedulingGates" in message
    body = pod("going")
    body["metadata"]["finalizers"] = ["x/y"]
    (await api.post(PODS, body)).ok(201)
    (await api.delete(f"{PODS}/going")).ok()
    message = (await api.post(f"{PODS}/going/binding", BINDING)).refused(409)["message"]
    assert "is being deleted, cannot be assigned to a host" in message


# -- eviction


async def running(api: Api, name: str) -> None:
    body = pod(name)
    body["metadata"]["labels"] = {"app": "guarded"}
    (await api.post(PODS, body)).ok(201)
    (await api.post(f"{PODS}/{name}/binding", BINDING)).ok(201)
    ready = {"type": "Ready", "status": "True"}
    status = {"status": {"phase": "Running", "conditions": [ready]}}
    (await api.patch(f"{PODS}/{name}/status", status)).ok()


async def budget(api: Api, allowed: int, *, observed: int = 1) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    (await api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})).ok(201)
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 2,
        "observedGeneration": observed,
    }
    (await api.patch(f"{BUDGETS}/b/status", {"status": status})).ok()


async def test_eviction_without_a_budget_deletes(api: Api) -> None:
    await running(api, "p")
    (await api.post(f"{PODS}/p/eviction", {"metadata": {"name": "p"}})).ok(201)
    evicted = (await api.get(f"{PODS}/p")).ok()
    assert evicted["metadata"]["deletionTimestamp"]
    condition = next(c for c in evicted["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert condition["reason"] == "EvictionByEvictionAPI"


async def test_eviction_uses_up_the_budget_and_is_then_rejected(api: Api) -> None:
    await running(api, "p")
    await running(api, "q")
    await budget(api, 1)
    (await api.post(f"{PODS}/p/eviction", {})).ok(201)
    status = (await api.get(f"{BUDGETS}/b")).ok()["status"]
    assert status["disruptionsAllowed"] == 0
    assert set(status["disruptedPods"]) == {"p"}
    refused = await api.post(f"{PODS}/q/eviction", {})
    document = refused.refused(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    )
    assert document["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 1 healthy pods and has 2 currently",
        }
    ]
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/q")).ok()["metadata"]


async def test_eviction_is_rejected_until_the_budget_is_observed(api: Api) -> None:
    await running(api, "p")
    await budget(api, 1, observed=0)
    answer = await api.post(f"{PODS}/p/eviction", {})
    assert "still being processed" in answer.refused(429)["details"]["causes"][0]["message"]
    assert answer.headers["Retry-After"] == "10"


async def test_a_pod_that_does_not_run_needs_no_budget(api: Api) -> None:
    body = pod("p")
    body["metadata"]["labels"] = {"app": "guarded"}
    (await api.post(PODS, body)).ok(201)
    await budget(api, 0)
    (await api.post(f"{PODS}/p/eviction", {})).ok(201)
    (await api.get(f"{PODS}/p")).refused(404)


async def test_a_dry_run_eviction_changes_nothing(api: Api) -> None:
    await running(api, "p")
    await budget(api, 1)
    before = (await api.get(f"{PODS}/p")).ok()
    (await api.post(f"{PODS}/p/eviction", {"deleteOptions": {"dryRun": ["All"]}})).ok(201)
    assert (await api.get(f"{PODS}/p")).ok() == before
    assert (await api.get(f"{BUDGETS}/b")).ok()["status"]["disruptionsAllowed"] == 1


# -- services


async def test_services_get_addresses_that_can_be_listened_on(api: Api) -> None:
    first = (await api.post(SERVICES, service("a"))).ok(201)["spec"]
    second = (await api.post(SERVICES, service("b"))).ok(201)["spec"]
    assert first["clusterIP"].startswith("127.64.0.")
    assert first["clusterIPs"] == [first["clusterIP"]]
    assert first["clusterIP"] != second["clusterIP"]
    assert (first["ipFamilies"], first["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    headless = (await api.post(SERVICES, service("c", clusterIP="None"))).ok(201)["spec"]
    assert headless["clusterIPs"] == ["None"]
    external = service("d", type="ExternalName", externalName="example.com")
    assert "clusterIP" not in (await api.post(SERVICES, external)).ok(201)["spec"]


async def test_a_cluster_ip_is_immutable(api: Api) -> None:
    created = (await api.post(SERVICES, service("a"))).ok(201)
    replaced = (await api.put(f"{SERVICES}/a", service("a", selector={"x": "y"}))).ok()
    assert replaced["spec"]["clusterIP"] == created["spec"]["clusterIP"]
    moved = {"spec": {"clusterIP": "127.64.9.9", "clusterIPs": ["127.64.9.9"]}}
    message = (await api.patch(f"{SERVICES}/a", moved)).refused(422, "Invalid")["message"]
    assert "may not change once set" in message


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("10.0.0.1", "is not in the valid range"),
        ("not an address", "must be a valid IP address"),
        ("127.64.0.1", "provided IP is already allocated"),
    ],
)
async def test_requested_addresses_are_validated(api: Api, address: str, text: str) -> None:
    (await api.post(SERVICES, service("first"))).ok(201)
    answer = await api.post(SERVICES, service("a", clusterIP=address))
    assert text in answer.refused(422, "Invalid")["message"]


async def test_addresses_are_exhausted_and_released() -> None:
    # A range of two addresses: the Service of the API server has the first.
    async with running_server(service_network=IPv4Network("127.99.0.0/30")) as api:
        (await api.post(SERVICES, service("a"))).ok(201)
        message = (await api.post(SERVICES, service("c"))).refused(500)["message"]
        assert "range 127.99.0.0/30 is full" in message
        (await api.delete(f"{SERVICES}/a")).ok()
        assert (await api.post(SERVICES, service("c"))).ok(201)["spec"]["clusterIP"] == "127.99.0.2"


async def test_the_api_server_has_a_service(api: Api) -> None:
    spec = (await api.get(f"{SERVICES}/kubernetes")).ok()["spec"]
    assert spec["clusterIP"] != "None"
    (port,) = spec["ports"]

    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    found = (await api.get(f"{slices}/kubernetes")).ok()
    assert found["endpoints"][0]["addresses"] == ["127.0.0.1"]
    assert found["ports"][0]["port"] == port["targetPort"]


async def test_node_ports(api: Api) -> None:
    ports = [
        (await api.post(SERVICES, service(name, type="NodePort"))).ok(201)["spec"]["ports"][0]
        for name in ("a", "b")
    ]
    numbers = {port["nodePort"] for port in ports}
    assert len(numbers) == 2
    assert all(30000 <= number <= 32767 for number in numbers)


# -- what pods get from elsewhere


async def test_pods_get_service_account_priority_and_qos_class(api: Api) -> None:
    plain = (await api.post(PODS, pod("a"))).ok(201)
    assert plain["spec"]["serviceAccountName"] == "default"
    assert (plain["spec"]["priority"], plain["spec"]["preemptionPolicy"]) == (
        0,
        "PreemptLowerPriority",
    )
    assert plain["status"]["qosClass"] == "BestEffort"
    assert plain["status"]["phase"] == "Pending"
    high = {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}
    (await api.post(PRIORITIES, high)).ok(201)
    urgent = (await api.post(PODS, pod("b", priorityClassName="high"))).ok(201)["spec"]
    assert (urgent["priority"], urgent["preemptionPolicy"]) == (1000, "Never")
    (await api.post(PODS, pod("c", priorityClassName="missing"))).refused(
        403,
        "Forbidden",
        'pods "c" is forbidden: no PriorityClass with name missing was found',
    )
    (
        await api.post(
            PRIORITIES, {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}
        )
    ).ok()
    usual = (await api.post(PODS, pod("d"))).ok(201)["spec"]
    assert (usual["priority"], usual["priorityClassName"]) == (5, "usual")


async def test_service_accounts_of_pods_must_exist(api: Api) -> None:
    body = pod("a", serviceAccountName="robot")
    (await api.post(PODS, body)).refused(
        403,
        "Forbidden",
        'pods "a" is forbidden: error looking up service account default/robot: '
        'serviceaccount "robot" not found',
    )
    account = {"metadata": {"name": "robot"}}
    (await api.post("/api/v1/namespaces/default/serviceaccounts", account)).ok(201)
    (await api.post(PODS, body)).ok(201)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            "Burstable",
        ),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
    ],
)
async def test_qos_class(api: Api, resources: dict[str, Any], expected: str) -> None:
    body = pod("a")
    body["spec"]["containers"][0]["resources"] = resources
    created = (await api.post(PODS, body)).ok(201)
    assert created["status"]["qosClass"] == expected
    status = {"status": {"phase": "Running", "qosClass": None}}
    kept = (await api.patch(f"{PODS}/a/status", status)).ok()
    assert kept["status"]["qosClass"] == expected


async def test_nodes_register_with_their_status(api: Api) -> None:
    body = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}}
    created = (await api.post("/api/v1/nodes", body)).ok(201)
    assert created["status"]["capacity"] == {"cpu": "2"}


async def test_lists_may_be_null(api: Api) -> None:
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    body = {"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": None, "ports": None}
    assert (await api.post(slices, body)).ok(201)["endpoints"] is None
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    (await api.post(roles, {"metadata": {"name": "r"}, "rules": None})).ok(201)
    message = (await api.post(PODS, pod("p", containers=None))).refused(422, "Invalid")["message"]
    assert message == 'Pod "p" is invalid: spec.containers: Required value'


async def test_a_status_need_not_be_complete(api: Api) -> None:
    info = {"nodeInfo": {"kubeletVersion": "v1.36.3"}}
    body = {"metadata": {"name": "n"}, "status": info}
    status = (await api.post("/api/v1/nodes", body)).ok(201)["status"]
    # Go encodes fields without omitempty even when they are not set.
    assert status["nodeInfo"]["kubeletVersion"] == "v1.36.3"
    assert status["nodeInfo"]["osImage"] == ""
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


async def test_events_are_served_in_two_groups(api: Api) -> None:
    core = "/api/v1/namespaces/default/events"
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    old_style = {
        "metadata": {"name": "old"},
        "involvedObject": about,
        "message": "hello",
        "reason": "Greeted",
        "type": "Normal",
        "count": 2,
    }
    (await api.post(core, old_style)).ok(201)
    shown = (await api.get(f"{new}/old")).ok()
    assert (shown["apiVersion"], shown["note"], shown["deprecatedCount"]) == (
        "events.k8s.io/v1",
        "hello",
        2,
    )
    assert shown["regarding"]["name"] == "p"
    new_style = {
        "metadata": {"name": "new"},
        "regarding": about,
        "note": "bye",
        "reason": "Left",
        "type": "Normal",
        "action": "Leaving",
        "eventTime": "2027-01-15T08:00:00.000000Z",
        "reportingController": "example.com/test",
        "reportingInstance": "test-1",
    }
    (await api.post(new, new_style)).ok(201)
    stored = (await api.get(f"{core}/new")).ok()
    assert (stored["apiVersion"], stored["message"]) == ("v1", "bye")
    assert stored["involvedObject"]["name"] == "p"
    patched = (await api.patch(f"{new}/new", {"note": "again"})).ok()
    assert patched["note"] == "again"
    for path, field in ((core, "involvedObject.name"), (new, "regarding.name")):
        listed = (await api.get(path, fieldSelector=f"{field}=p")).ok()["items"]
        assert len(listed) == 2
    async with api.watch(new) as watching:
        assert {name for _, name in await watching.names(2)} == {"new", "old"}
        (await api.delete(f"{core}/old")).ok()
        event = await watching.next()
        assert (event["type"], event["object"]["note"]) == ("DELETED", "hello")
