"""metrics.k8s.io: what the node measures, served when it is read."""

from typing import Any

from local.apiserver.support import DEFINITIONS, PODS, TABLE, Api, definition, pod
from traincrew.local.apiserver.http.node_backend import (
    ContainerUsage,
    NodeUsage,
    PodUsage,
    Usage,
)

GROUP = "/apis/metrics.k8s.io/v1beta1"
METRICS = f"{GROUP}/namespaces/default/pods"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"disk": "fast"}}}


class Meter:
    """A node backend that only measures."""

    def __init__(self) -> None:
        self.used: Usage | None = Usage(1_800_000_000.0, 15.0)

    async def usage(self) -> Usage | None:
        return self.used

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not asked for")


async def measured(api: Api, **labels: str) -> Meter:
    """A pod with these labels on a node, with two measured containers, and a pod without any."""
    meter = Meter()
    api.server.node = meter
    (await api.post("/api/v1/nodes", NODE)).ok(201)
    document = pod("p")
    document["metadata"]["labels"] = labels
    uid = (await api.post(PODS, document)).ok(201)["metadata"]["uid"]
    (await api.post(PODS, pod("starting"))).ok(201)
    containers = {
        "main": ContainerUsage(0.25, 3 * 2**20),
        "side": ContainerUsage(0.0012345, 4096),
    }
    meter.used = Usage(
        1_800_000_000.0,
        15.0,
        {uid: PodUsage(12.5, containers)},
        {"n": NodeUsage(15.0, 0.2512345, 3 * 2**20 + 4096)},
    )
    return meter


async def test_the_group_is_served_while_a_node_measures(api: Api) -> None:
    assert (await api.get(GROUP)).code == 404
    await measured(api)
    served = (await api.get(GROUP)).ok()["resources"]
    assert [(each["name"], each["kind"], each["verbs"]) for each in served] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]
    groups = (await api.get("/apis")).ok()["groups"]
    assert "metrics.k8s.io" in [each["name"] for each in groups]
    document = (await api.get(f"/openapi/v3{GROUP}")).ok()
    assert "usage" in str(document["components"]["schemas"])
    api.server.node = None
    assert (await api.get(GROUP)).code == 404


async def test_pod_metrics_have_the_fields_of_metrics_server(api: Api) -> None:
    await measured(api, app="web")
    kind = {"kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1"}
    expected = {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "creationTimestamp": "2027-01-15T08:00:00Z",
            "labels": {"app": "web"},
        },
        "timestamp": "2027-01-15T08:00:00Z",
        "window": "12.5s",
        "containers": [
            {"name": "main", "usage": {"cpu": "250m", "memory": "3Mi"}},
            {"name": "side", "usage": {"cpu": "1234500n", "memory": "4Ki"}},
        ],
    }
    assert (await api.get(f"{METRICS}/p")).ok() == kind | expected
    found = (await api.get(METRICS)).ok()
    assert (found["kind"], found["items"]) == ("PodMetricsList", [expected])
    assert (await api.get(f"{GROUP}/pods")).ok()["items"] == [expected]


async def test_selectors_choose_metrics(api: Api) -> None:
    await measured(api, app="web")

    async def names(path: str, **query: str) -> list[str]:
        return [each["metadata"]["name"] for each in (await api.get(path, **query)).ok()["items"]]

    assert await names(METRICS, labelSelector="app=web") == ["p"]
    assert await names(METRICS, labelSelector="app=db") == []
    assert await names(METRICS, fieldSelector="metadata.name=other") == []
    assert await names(f"{GROUP}/nodes", labelSelector="disk=fast") == ["n"]
    assert await names(f"{GROUP}/nodes", labelSelector="disk=slow") == []
    assert (await api.get(METRICS, labelSelector="a in b")).code == 400


async def test_missing_metrics_are_named_as_by_metrics_server(api: Api) -> None:
    await measured(api)
    message = 'podmetrics.metrics.k8s.io "default/starting" not found'
    (await api.get(f"{METRICS}/starting")).refused(404, "NotFound", message)
    (await api.get(f"{METRICS}/none")).refused(404, "NotFound", 'pods "none" not found')
    (await api.get(f"{GROUP}/nodes/none")).refused(404, "NotFound", 'nodes "none" not found')


async def test_a_node_without_pods_uses_nothing(api: Api) -> None:
    meter = await measured(api)
    meter.used = Usage(1_800_000_000.0, 62.25)
    found = (await api.get(f"{GROUP}/nodes/n")).ok()
    assert (found["usage"], found["window"]) == ({"cpu": "0", "memory": "0"}, "1m2.25s")


async def test_tables_have_the_sums_of_a_pod(api: Api) -> None:
    await measured(api)
    table = (await api.get(METRICS, headers={"Accept": TABLE})).ok()
    assert [each["name"] for each in table["columnDefinitions"]] == [
        "Name",
        "cpu",
        "memory",
        "Window",
    ]
    assert [row["cells"] for row in table["rows"]] == [["p", "251234500n", "3076Ki", "12.5s"]]
    table = (await api.get(f"{GROUP}/nodes", headers={"Accept": TABLE})).ok()
    assert [row["cells"] for row in table["rows"]] == [["n", "251234500n", "3076Ki", "15s"]]


async def test_metrics_are_read_only_and_need_a_machine_that_can_measure(api: Api) -> None:
    meter = await measured(api)
    assert (await api.delete(f"{METRICS}/p")).code == 405
    assert (await api.get(METRICS, watch="true")).code == 405
    meter.used = None
    status = (await api.get(METRICS)).refused(503, "ServiceUnavailable")
    assert "no node here measures pods.metrics.k8s.io" in status["message"]


async def test_a_definition_takes_the_place_of_what_is_measured(api: Api) -> None:
    await measured(api)
    document = definition("pods", group="metrics.k8s.io")
    names = {"plural": "pods", "kind": "PodMetrics"}
    document["metadata"] = {
        "name": "pods.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    }
    document["spec"]["names"] = names
    document["spec"]["versions"][0] |= {
        "name": "v1beta1",
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    (await api.post(DEFINITIONS, document)).ok(201)
    own = {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {"name": "p"},
        "containers": [{"name": "main", "usage": {"cpu": "90m"}}],
    }
    (await api.post(METRICS, own)).ok(201)
    found = (await api.get(METRICS)).ok()["items"]
    assert [each["containers"] for each in found] == [own["containers"]]
