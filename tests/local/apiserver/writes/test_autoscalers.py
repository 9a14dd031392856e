"""HorizontalPodAutoscalers in both served versions."""

from typing import Any

from local.apiserver.support import MERGE, TABLE, Api

V1 = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
V2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
METRICS: list[dict[str, Any]] = [
    {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
    },
    {
        "type": "Object",
        "object": {
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
            "metric": {"name": "requests", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "Value", "value": "5"},
        },
    },
    {
        "type": "External",
        "external": {
            "metric": {"name": "queue", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "AverageValue", "averageValue": "5"},
        },
    },
    {
        "type": "Pods",
        "pods": {
            "metric": {"name": "rate"},
            "target": {"type": "AverageValue", "averageValue": "5"},
        },
    },
]
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}},
}


def autoscaler(version: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "annotations": {"mine": "kept"}},
        "spec": {"maxReplicas": 3, "scaleTargetRef": TARGET, **spec},
    }


async def test_version_1_is_stored_as_version_2(api: Api) -> None:
    old = (await api.post(V1, autoscaler("v1", targetCPUUtilizationPercentage=70))).ok(201)
    assert (old["apiVersion"], old["spec"]["minReplicas"]) == ("autoscaling/v1", 1)
    new = (await api.get(f"{V2}/h")).ok()
    assert new["spec"]["metrics"] == [CPU]
    assert "targetCPUUtilizationPercentage" not in new["spec"]
    (await api.patch(f"{V1}/h", {"spec": {"targetCPUUtilizationPercentage": 50}}, MERGE)).ok()
    new = (await api.get(f"{V2}/h")).ok()
    assert new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50


async def test_the_default_target_of_version_1_is_80_percent(api: Api) -> None:
    old = (await api.post(V1, autoscaler("v1"))).ok(201)
    assert old["spec"]["targetCPUUtilizationPercentage"] == 80


async def test_fields_unknown_to_version_1_survive_an_update(api: Api) -> None:
    """A client of version 1 reads the whole object and writes it back."""
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 5}}
    body = autoscaler("v2", metrics=[*METRICS, CPU], behavior=behavior)
    before = (await api.post(V2, body)).ok(201)
    old = (await api.get(f"{V1}/h")).ok()
    assert old["spec"]["targetCPUUtilizationPercentage"] == 70
    assert set(old["spec"]) == {
        "maxReplicas",
        "minReplicas",
        "scaleTargetRef",
        "targetCPUUtilizationPercentage",
    }
    old["spec"]["maxReplicas"] = 9
    (await api.put(f"{V1}/h", old)).ok()
    after = (await api.get(f"{V2}/h")).ok()
    assert after["spec"] == before["spec"] | {"maxReplicas": 9}
    assert after["metadata"]["annotations"] == {"mine": "kept"}


async def test_status_survives_an_update_in_version_1(api: Api) -> None:
    (await api.post(V2, autoscaler("v2"))).ok(201)
    time = "2026-01-01T00:00:00Z"
    condition = {"type": "ScalingActive", "status": "True", "lastTransitionTime": time}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "current": {"averageUtilization": 20, "averageValue": "1"}},
    }
    status = {
        "currentReplicas": 1,
        "desiredReplicas": 2,
        "conditions": [condition],
        "currentMetrics": [metric],
    }
    (await api.patch(f"{V2}/h/status", {"status": status}, MERGE)).ok()
    old = (await api.get(f"{V1}/h")).ok()
    assert old["status"]["currentCPUUtilizationPercentage"] == 20
    change = {"status": {"currentReplicas": 2}}
    (await api.patch(f"{V1}/h/status", change, MERGE)).ok()
    assert (await api.get(f"{V2}/h")).ok()["status"] == status | {"currentReplicas": 2}


async def test_version_1_is_validated(api: Api) -> None:
    body = autoscaler("v1", targetCPUUtilizationPercentage=0, minReplicas=0)
    refused = await api.post(V1, body)
    refused.refused(422, "Invalid")
    causes = {each["field"] for each in refused.document["details"]["causes"]}
    assert "spec.minReplicas" in causes
    assert "spec.metrics[0].resource.target.averageUtilization" in causes
    body = autoscaler("v1")
    body["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"] = "[3, {]"
    (await api.post(V1, body)).ok(201)


async def test_both_versions_print_the_metrics(api: Api) -> None:
    (await api.post(V2, autoscaler("v2", metrics=[CPU, *METRICS]))).ok(201)
    others = "memory: <unknown>/1Gi"
    for path, cells in (
        (V2, f"cpu: <unknown>/70%, {others} + 3 more..."),
        (V1, f"{others}, <unknown>/5 + 3 more..."),
    ):
        table = (await api.request("GET", path, headers={"Accept": TABLE})).ok()
        assert table["rows"][0]["cells"][:4] == ["h", "Deployment/d", cells, "1"]
