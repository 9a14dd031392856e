"""The Service ``default/kubernetes``, through which clients in the cluster reach the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.requests import WriteOptions

if TYPE_CHECKING:
    from .verbs import Verbs

__all__ = ["publish_own_service"]

_NAME = "kubernetes"
_LABELS = {"component": "apiserver", "provider": "kubernetes"}


def publish_own_service(verbs: Verbs, address: str, port: int, *, tls: bool = True) -> None:
    """Create or update the Service and its endpoints.

    Args:
        verbs: the verbs to write with.
        address: address of the server.
        port: port of the server.
        tls: whether the server uses TLS, which the Service offers on port 443 as upstream does;
            else HTTP on port 80.
    """
    name, offered = ("https", 443) if tls else ("http", 80)
    targets = [{"name": name, "port": port}]
    meta = {"name": _NAME, "namespace": "default"}
    service = {
        "metadata": {**meta, "labels": _LABELS},
        "spec": {
            "ports": [{"name": name, "port": offered, "targetPort": port}],
        },
    }
    endpoints = {
        # Not to be mirrored: the EndpointSlice is written below.
        "metadata": {**meta, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [{"addresses": [{"ip": address}], "ports": targets}],
    }
    endpoint_slice = {
        "metadata": {**meta, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{**target, "protocol": "TCP"} for target in targets],
    }
    _write(verbs, "", "services", service)
    _write(verbs, "", "endpoints", endpoints)
    _write(verbs, "discovery.k8s.io", "endpointslices", endpoint_slice)


def _write(verbs: Verbs, group: str, plural: str, document: dict[str, Any]) -> None:
    resource = verbs.registry.find(group, "v1", plural)
    assert resource is not None
    options = WriteOptions(
        "kube-apiserver", dry_run=False, validation="Ignore", warnings=[], dropped=[]
    )
    document |= {"apiVersion": resource.api_version, "kind": resource.kind}
    entry = verbs.storage.get(resource.identifier, ("default", _NAME))
    if entry is None:
        verbs.insert(resource, document, options, unlimited=True)
    else:
        verbs.update(resource, entry, document, options)
