"""Rules of individual kinds on create and update; each was compared with a real API server."""

from typing import Any

import pytest

from local.apiserver.support import (
    APPLY,
    JSON_PATCH,
    MAPS,
    MERGE,
    STRATEGIC,
    Api,
    config_map,
)

APPS = "/apis/apps/v1/namespaces/default"
SERVICES = "/api/v1/namespaces/default/services"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
CONTAINERS = [{"name": "main", "image": "busybox:1"}]
LABELS = {"app": "x"}
SPEC: dict[str, Any] = {
    "selector": {"matchLabels": LABELS},
    "template": {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}},
}
GENERATION = "deprecated.daemonset.template.generation"


def service(**spec: Any) -> dict[str, Any]:
    ports = [{"name": "http", "port": 80}, {"name": "https", "port": 443}]
    return {"metadata": {"name": "s"}, "spec": {"selector": LABELS, "ports": ports} | spec}


async def test_template_generation_of_a_daemon_set(api: Api) -> None:
    created = (await api.post(f"{APPS}/daemonsets", {"metadata": {"name": "d"}, "spec": SPEC})).ok()
    assert created["metadata"]["annotations"] == {GENERATION: "1"}
    path = f"{APPS}/daemonsets/d"
    same = (await api.patch(path, {"spec": {"minReadySeconds": 1}})).ok()
    assert same["metadata"]["annotations"] == {GENERATION: "1"}
    change: dict[str, Any] = {
        "metadata": {"annotations": {GENERATION: "9"}},
        "spec": {"template": {"spec": {}}},
    }
    change["spec"]["template"]["spec"]["hostNetwork"] = True
    assert (await api.patch(path, change)).ok()["metadata"]["annotations"] == {GENERATION: "2"}


async def test_annotations_raise_the_generation_of_a_deployment(api: Api) -> None:
    (await api.post(f"{APPS}/deployments", {"metadata": {"name": "d"}, "spec": SPEC})).ok()
    path = f"{APPS}/deployments/d"
    changed = (await api.patch(path, {"metadata": {"annotations": {"a": "b"}}})).ok()
    assert changed["metadata"]["generation"] == 2
    labelled = (await api.patch(path, {"metadata": {"labels": {"a": "b"}}})).ok()
    assert labelled["metadata"]["generation"] == 2
    # Writes of its status do not change labels.
    change = {"metadata": {"labels": {"a": "c"}}, "status": {"replicas": 1}}
    assert (await api.patch(f"{path}/status", change)).ok()["metadata"]["labels"] == {"a": "b"}


async def test_a_job_without_labels_gets_those_of_its_pods(api: Api) -> None:
    pod = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
    created = (await api.post(JOBS, {"metadata": {"name": "j"}, "spec": {"template": pod}})).ok()
    assert created["metadata"]["labels"] == created["spec"]["template"]["metadata"]["labels"]
    assert created["metadata"]["labels"]["job-name"] == "j"


async def test_a_service_keeps_its_assigned_fields(api: Api) -> None:
    created = (await api.post(SERVICES, service(type="NodePort"))).ok(201)
    ports = {port["name"]: port["nodePort"] for port in created["spec"]["ports"]}
    replaced = (await api.put(f"{SERVICES}/s", service(type="NodePort"))).ok(200)
    assert replaced["spec"] == created["spec"]
    assert {port["name"]: port["nodePort"] for port in replaced["spec"]["ports"]} == ports
    internal = (await api.put(f"{SERVICES}/s", service())).ok(200)["spec"]
    assert internal["clusterIP"] == created["spec"]["clusterIP"]
    assert all("nodePort" not in port for port in internal["ports"])
    assert "externalTrafficPolicy" not in internal


async def test_a_service_with_local_traffic_gets_a_health_check_node_port(api: Api) -> None:
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    created = (await api.post(SERVICES, service(**spec))).ok(201)["spec"]
    numbers = [created["healthCheckNodePort"], *(port["nodePort"] for port in created["ports"])]
    assert len(set(numbers)) == 3
    assert all(30000 <= number < 32768 for number in numbers)
    internal = (await api.put(f"{SERVICES}/s", service())).ok()["spec"]
    assert "healthCheckNodePort" not in internal
    assert "allocateLoadBalancerNodePorts" not in internal


@pytest.mark.parametrize(
    ("spec", "policy", "families"),
    [
        ({}, "SingleStack", ["IPv4"]),
        ({"clusterIP": "None"}, "SingleStack", ["IPv4"]),
        ({"clusterIP": "None", "selector": None}, "RequireDualStack", ["IPv4", "IPv6"]),
    ],
)
async def test_ip_families_of_a_service(
    api: Api, spec: dict[str, Any], policy: str, families: list[str]
) -> None:
    created = (await api.post(SERVICES, service(**spec))).ok(201)
    assert created["spec"]["ipFamilyPolicy"] == policy
    assert created["spec"]["ipFamilies"] == families
    (entry,) = created["metadata"]["managedFields"]
    assert "f:ipFamilies" not in entry["fieldsV1"]["f:spec"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"loadBalancerSourceRanges": ["192.0.2.0/24"]}, "spec.LoadBalancerSourceRanges"),
        ({"externalTrafficPolicy": "Local"}, "spec.externalTrafficPolicy"),
        ({"ipFamilyPolicy": "RequireDualStack"}, "spec.ipFamilyPolicy"),
        ({"ipFamilies": ["IPv6"]}, "spec.ipFamilies[0]"),
    ],
)
async def test_invalid_services_are_rejected(api: Api, spec: dict[str, Any], field: str) -> None:
    (cause,) = (await api.post(SERVICES, service(**spec))).refused(422)["details"]["causes"]
    assert cause["field"] == field


async def test_external_ips_make_a_service_externally_accessible(api: Api) -> None:
    spec = {"externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Local"}
    (await api.post(SERVICES, service(**spec))).ok(201)


@pytest.mark.parametrize(
    ("group", "plural", "spec", "field"),
    [
        ("networking.k8s.io/v1", "ingresses", {}, "spec"),
        (
            "networking.k8s.io/v1",
            "ingresses",
            {"defaultBackend": {"service": {"name": "s"}}},
            "spec.defaultBackend",
        ),
        (
            "networking.k8s.io/v1",
            "networkpolicies",
            {"podSelector": {}, "ingress": [{"from": [{}]}]},
            "spec.ingress[0].from[0]",
        ),
        (
            "networking.k8s.io/v1",
            "networkpolicies",
            {"podSelector": {}, "policyTypes": ["Ingress", "Egress", "Ingress"]},
            "spec.policyTypes",
        ),
        (
            "autoscaling/v2",
            "horizontalpodautoscalers",
            {"scaleTargetRef": {"kind": "D", "name": "d", "apiVersion": "apps/v1"}},
            "spec.maxReplicas",
        ),
    ],
)
async def test_rules_of_kinds_without_a_controller(
    api: Api, group: str, plural: str, spec: dict[str, Any], field: str
) -> None:
    path = f"/apis/{group}/namespaces/default/{plural}"
    answer = (await api.post(path, {"metadata": {"name": "x"}, "spec": spec})).refused(422)
    assert field in {cause["field"] for cause in answer["details"]["causes"]}


async def test_duplicate_owner_references_are_dropped(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    created = (await api.post(MAPS, config_map("a", ownerReferences=[owner, owner]))).ok(201)
    assert created["metadata"]["ownerReferences"] == [owner]


async def test_a_name_is_taken_while_its_object_is_being_deleted(api: Api) -> None:
    (await api.post(MAPS, config_map("a", finalizers=["example.com/f"]))).ok(201)
    (await api.delete(f"{MAPS}/a")).ok()
    message = 'object is being deleted: configmaps "a" already exists'
    (await api.post(MAPS, config_map("a"))).refused(409, "AlreadyExists", message)


async def test_empty_data_is_a_change_of_an_immutable_config_map(api: Api) -> None:
    (await api.post(MAPS, config_map("a") | {"immutable": True})).ok(201)
    (await api.patch(f"{MAPS}/a", {"metadata": {"name": "a"}}, MERGE)).ok()
    (await api.patch(f"{MAPS}/a", {"binaryData": {}}, MERGE)).refused(422)
    (await api.patch(f"{MAPS}/a", {"binaryData": {}}, STRATEGIC)).refused(422)
    (await api.patch(f"{MAPS}/a", {"data": {}}, STRATEGIC)).ok()


async def test_empty_values_of_another_type_are_rejected(api: Api) -> None:
    (await api.post(MAPS, config_map("a"))).ok(201)
    patch = [{"op": "add", "path": "/immutable", "value": {}}]
    message = (await api.patch(f"{MAPS}/a", patch, JSON_PATCH)).refused(422)["message"]
    assert (
        "cannot unmarshal object into Go struct field ConfigMap.immutable of type bool" in message
    )


async def test_apply_reports_decoding_errors_with_the_kind(api: Api) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    config = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"renewTime": "2027-01-15T08:00:00Z"},
    }
    answer = await api.patch(path, config, APPLY, fieldManager="m")
    assert answer.refused(500)["message"].startswith(
        "failed to convert new object (/l; coordination.k8s.io/v1, Kind=Lease) to proper version: "
    )


async def test_node_ports_are_in_the_range_and_unique(api: Api) -> None:
    def on(name: str, port: int) -> dict[str, Any]:
        ports = [{"port": 80, "nodePort": port}]
        return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports}}

    for port in (29999, 32768, 40000):
        refused = await api.post(SERVICES, on("a", port))
        text = "provided port is not in the valid range. The range of valid ports is 30000-32767"
        message = refused.refused(422, "Invalid")["message"]
        assert message == (
            f'Service "a" is invalid: spec.ports[0].nodePort: Invalid value: {port}: {text}'
        )
    (await api.post(SERVICES, on("a", 30000))).ok(201)
    message = (await api.post(SERVICES, on("b", 30000))).refused(422, "Invalid")["message"]
    assert message.endswith("Invalid value: 30000: provided port is already allocated")
    same = (await api.get(f"{SERVICES}/a")).ok()
    (await api.put(f"{SERVICES}/a", same)).ok()
    (await api.patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}}, MERGE)).ok()
    (await api.post(SERVICES, on("b", 30000))).ok(201)
