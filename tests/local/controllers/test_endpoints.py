"""The endpoints of a Service."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from traincrew.engine.objects import AnyObject
from traincrew.local.controllers.endpoints.plan import (
    endpoints_document,
    endpoints_of,
    has_endpoints,
    relevant,
    slice_documents,
)


def service(**spec: Any) -> AnyObject:
    return msgspec.convert(
        {
            "metadata": {"name": "web", "namespace": "n", "uid": "S", "labels": {"l": "v"}},
            "spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "protocol": "TCP"}]} | spec,
        },
        AnyObject,
    )


def pod(name: str, address: str | None, *, ready: bool = True, **more: Any) -> AnyObject:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "n",
        "uid": name,
        "labels": {"app": "a"} | more.pop("labels", {}),
    }
    if more.pop("terminating", False):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status: dict[str, Any] = {"phase": more.pop("phase", "Running")}
    if address:
        status["podIP"] = address
    status["conditions"] = [{"type": "Ready", "status": "True" if ready else "False"}]
    spec = {"nodeName": "local", "containers": [{"name": "main"}]} | more
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, AnyObject)


def addresses(subject: AnyObject, *pods: AnyObject) -> tuple[list[str], list[str]]:
    document = endpoints_document(subject, endpoints_of(subject, pods))
    ready: list[str] = []
    waiting: list[str] = []
    for subset in document["subsets"]:
        ready += [item["ip"] for item in subset.get("addresses", ())]
        waiting += [item["ip"] for item in subset.get("notReadyAddresses", ())]
    return ready, waiting


@pytest.mark.parametrize(
    ("subject", "pods", "expected"),
    [
        (service(), [], ([], [])),
        (service(), [pod("a", "1")], (["1"], [])),
        (service(), [pod("b", "2"), pod("a", "1")], (["1", "2"], [])),
        (service(), [pod("a", "1", ready=False)], ([], ["1"])),
        (service(publishNotReadyAddresses=True), [pod("a", "1", ready=False)], (["1"], [])),
        (service(), [pod("a", None)], ([], [])),
        (service(), [pod("a", "1", labels={"app": "b"})], ([], [])),
        (service(), [pod("a", "1", phase="Succeeded")], ([], [])),
        (service(), [pod("a", "1", terminating=True)], ([], [])),
        (service(publishNotReadyAddresses=True), [pod("a", "1", terminating=True)], (["1"], [])),
        # A headless Service needs no ports; one with ports has the same addresses.
        (service(clusterIP="None", ports=[]), [pod("a", "1")], (["1"], [])),
        (service(ports=[{"port": 80, "targetPort": "http"}]), [pod("a", "1")], ([], [])),
    ],
)
def test_addresses(subject: AnyObject, pods: list[AnyObject], expected: Any) -> None:
    assert addresses(subject, *pods) == expected


def test_endpoints_of_a_service_without_selector_are_left_alone() -> None:
    assert has_endpoints(service())
    assert not has_endpoints(service(selector=None))
    assert not has_endpoints(service(type="ExternalName"))


def test_named_ports_are_resolved_in_each_pod() -> None:
    subject = service(
        ports=[{"name": "web", "port": 80, "targetPort": "http"}, {"name": "ssh", "port": 22}]
    )
    pods = [
        pod(
            name,
            address,
            containers=[{"name": "main", "ports": [{"name": "http", "containerPort": number}]}],
        )
        for name, address, number in (("a", "1", 8080), ("b", "2", 9090), ("c", "3", 8080))
    ]

    subsets = endpoints_document(subject, endpoints_of(subject, pods))["subsets"]

    assert [
        ([item["ip"] for item in subset["addresses"]], [port["port"] for port in subset["ports"]])
        for subset in subsets
    ] == [(["1", "3"], [8080, 22]), (["2"], [9090, 22])]


def test_host_names_need_the_subdomain_of_the_service() -> None:
    mine = pod("a", "1", hostname="web-0", subdomain="web")
    other = pod("b", "2", hostname="x-0", subdomain="x")
    subject = service(clusterIP="None")

    (subset,) = endpoints_document(subject, endpoints_of(subject, [mine, other]))["subsets"]

    assert [item.get("hostname") for item in subset["addresses"]] == ["web-0", None]
    document = endpoints_document(subject, [])
    assert document["metadata"]["labels"] == {
        "l": "v",
        "service.kubernetes.io/headless": "",
        "endpoints.kubernetes.io/managed-by": "endpoint-controller",
    }


def test_slices_report_serving_and_terminating_endpoints() -> None:
    pods = [pod("a", "1"), pod("b", "2", ready=False), pod("c", "3", terminating=True)]
    subject = service()

    (piece,) = slice_documents(subject, endpoints_of(subject, pods)).values()

    assert [
        (item["addresses"], item["conditions"]["ready"], item["conditions"]["terminating"])
        for item in piece["endpoints"]
    ] == [(["1"], True, False), (["2"], False, False), (["3"], False, True)]
    assert piece["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    assert piece["metadata"]["ownerReferences"][0]["name"] == "web"


def test_an_empty_slice_and_many_of_a_hundred() -> None:
    subject = service()

    assert [piece["endpoints"] for piece in slice_documents(subject, []).values()] == [[]]
    many = endpoints_of(subject, [pod(f"p{i:03}", f"127.0.0.{i}") for i in range(250)])
    pieces = slice_documents(subject, many)
    assert [len(piece["endpoints"]) for piece in pieces.values()] == [100, 100, 50]
    assert slice_documents(subject, many).keys() == pieces.keys()


@pytest.mark.parametrize(
    ("change", "matters"),
    [
        ({"ready": False}, True),
        ({"labels": {"x": "y"}}, True),
        ({"terminating": True}, True),
        ({"hostname": "h"}, False),
    ],
)
def test_which_changes_of_a_pod_matter(change: dict[str, Any], matters: bool) -> None:
    assert (relevant(pod("a", "1")) != relevant(pod("a", "1", **change))) == matters
