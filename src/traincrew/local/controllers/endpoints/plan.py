"""Plan of a Service's endpoints: (service, pods) -> Endpoints, EndpointSlices. Pure.

Rules: `pkg/controller/endpoint` and `staging/src/k8s.io/endpointslice` upstream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from traincrew.engine.resources import SERVICES
from traincrew.local.controllers import pods as podutil
from traincrew.local.controllers.common import owner_reference, short_hash
from traincrew.local.controllers.selectors import matches_map

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traincrew.engine.objects import AnyObject

MANAGED_ENDPOINTS = "endpoints.kubernetes.io/managed-by"
MANAGED_SLICE = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME = "kubernetes.io/service-name"
ENDPOINTS_MANAGER = "endpoint-controller"
SLICE_MANAGER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"
MAX_PER_SLICE = 100

_Port = tuple[str, int, str, str]


class Endpoint(Struct, frozen=True):
    """One pod behind a Service."""

    pod: AnyObject
    address: str
    ports: tuple[_Port, ...]
    serving: bool
    terminating: bool
    hostname: str


def has_endpoints(service: AnyObject) -> bool:
    """Return whether its endpoints are derived from its selector."""
    return bool(service.spec.get("selector")) and service.spec.get("type") != "ExternalName"


def relevant(pod: AnyObject) -> tuple[Any, ...]:
    """Return what endpoints depend on in a pod: while it is the same, there is nothing to do."""
    return (
        pod.metadata.labels,
        pod.metadata.deletion_timestamp is not None,
        pod.status.get("podIP"),
        pod.spec.get("nodeName"),
        podutil.is_finished(pod),
        podutil.is_ready(pod),
    )


def endpoints_of(service: AnyObject, pods: Iterable[AnyObject]) -> list[Endpoint]:
    """Return the unfinished pods with an address that the selector matches, by name."""
    selector = service.spec.get("selector")
    found = []
    for pod in pods:
        address = pod.status.get("podIP")
        if (
            not address
            or podutil.is_finished(pod)
            or not matches_map(selector, pod.metadata.labels)
        ):
            continue
        named = pod.spec.get("subdomain") == service.metadata.name
        found.append(
            Endpoint(
                pod,
                address,
                _ports(service, pod),
                podutil.is_ready(pod),
                podutil.is_terminating(pod),
                pod.spec.get("hostname", "") if named else "",
            )
        )
    return sorted(found, key=lambda endpoint: endpoint.pod.metadata.name)


def endpoints_document(service: AnyObject, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the Endpoints object."""
    everything = bool(service.spec.get("publishNotReadyAddresses"))
    groups: dict[tuple[_Port, ...], tuple[list[Any], list[Any]]] = {}
    for endpoint in endpoints:
        if endpoint.terminating and not everything:
            continue
        if service.spec.get("ports") and not endpoint.ports:
            continue
        ready, waiting = groups.setdefault(endpoint.ports, ([], []))
        address = {"ip": endpoint.address, "targetRef": _reference(endpoint.pod)}
        if endpoint.hostname:
            address["hostname"] = endpoint.hostname
        if node := endpoint.pod.spec.get("nodeName"):
            address["nodeName"] = node
        (ready if endpoint.serving or everything else waiting).append(address)
    subsets = []
    for ports, (ready, waiting) in sorted(groups.items()):
        subset: dict[str, Any] = {}
        if ready:
            subset["addresses"] = ready
        if waiting:
            subset["notReadyAddresses"] = waiting
        if ports:
            subset["ports"] = [_port(port, unnamed=False) for port in ports]
        subsets.append(subset)
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {
            "name": service.metadata.name,
            "namespace": service.metadata.namespace,
            "labels": _labels(service) | {MANAGED_ENDPOINTS: ENDPOINTS_MANAGER},
        },
        "subsets": subsets,
    }


def slice_documents(service: AnyObject, endpoints: Iterable[Endpoint]) -> dict[str, dict[str, Any]]:
    """Return the EndpointSlices by name; one without endpoints if there are none."""
    everything = bool(service.spec.get("publishNotReadyAddresses"))
    groups: dict[tuple[_Port, ...], list[dict[str, Any]]] = {}
    for endpoint in endpoints:
        entry: dict[str, Any] = {
            "addresses": [endpoint.address],
            "conditions": {
                "ready": everything or (endpoint.serving and not endpoint.terminating),
                "serving": endpoint.serving,
                "terminating": endpoint.terminating,
            },
            "targetRef": _reference(endpoint.pod),
        }
        if endpoint.hostname:
            entry["hostname"] = endpoint.hostname
        if node := endpoint.pod.spec.get("nodeName"):
            entry["nodeName"] = node
        groups.setdefault(endpoint.ports, []).append(entry)
    if not groups:
        groups[()] = []
    documents = {}
    for ports, entries in sorted(groups.items()):
        for start in range(0, max(len(entries), 1), MAX_PER_SLICE):
            name = _slice_name(service, ports, start)
            documents[name] = {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": name,
                    "namespace": service.metadata.namespace,
                    "labels": _labels(service)
                    | {SERVICE_NAME: service.metadata.name, MANAGED_SLICE: SLICE_MANAGER},
                    "ownerReferences": [owner_reference(service, SERVICES)],
                },
                "addressType": "IPv4",
                "endpoints": entries[start : start + MAX_PER_SLICE],
                "ports": [_port(port, unnamed=True) for port in ports],
            }
    return documents


def _ports(service: AnyObject, pod: AnyObject) -> tuple[_Port, ...]:
    result = []
    for port in service.spec.get("ports") or ():
        protocol = port.get("protocol", "TCP")
        target = port.get("targetPort", port.get("port"))
        if isinstance(target, str):
            target = next(
                (
                    known.get("containerPort")
                    for container in pod.spec.get("containers") or ()
                    for known in container.get("ports") or ()
                    if known.get("name") == target and known.get("protocol", "TCP") == protocol
                ),
                None,
            )
        if target is not None:
            name, application = port.get("name") or "", port.get("appProtocol") or ""
            result.append((name, int(target), protocol, application))
    return tuple(result)


def _port(port: _Port, *, unnamed: bool) -> dict[str, Any]:
    name, number, protocol, application = port
    document: dict[str, Any] = {"port": number, "protocol": protocol}
    if name or unnamed:
        document["name"] = name
    if application:
        document["appProtocol"] = application
    return document


def _reference(pod: AnyObject) -> dict[str, str]:
    return {
        "kind": "Pod",
        "namespace": pod.metadata.namespace,
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
    }


def _labels(service: AnyObject) -> dict[str, str]:
    labels = dict(service.metadata.labels)
    if service.spec.get("clusterIP") == "None":
        labels[HEADLESS] = ""
    return labels


def _slice_name(service: AnyObject, ports: tuple[_Port, ...], start: int) -> str:
    digest = short_hash(service.metadata.uid, ports, start, length=5)
    return f"{service.metadata.name}-{digest}"
