"""The Service ``default/kubernetes``, by which clients inside the cluster find the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .requests import WriteOptions

if TYPE_CHECKING:
    from .verbs import Verbs

__all__ = ["announce"]

_NAME = "kubernetes"
_LABELS = {"component": "apiserver", "provider": "kubernetes"}
_PORT_NAME = "http"


def announce(verbs: Verbs, address: str, port: int) -> None:
    """Make the Service and its end points, or bring them up to date.

    Upstream's offers https on port 443; this server speaks http, so the Service says so.

    Args:
        verbs: to write with.
        address: the server listens on.
        port: likewise.
    """
    meta = {"name": _NAME, "namespace": "default"}
    service = {
        "metadata": {**meta, "labels": _LABELS},
        "spec": {"ports": [{"name": _PORT_NAME, "port": 80, "targetPort": port}]},
    }
    endpoints = {
        # Nothing mirrors these: the slice below is written here, too.
        "metadata": {**meta, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
        "subsets": [
            {"addresses": [{"ip": address}], "ports": [{"name": _PORT_NAME, "port": port}]}
        ],
    }
    endpoint_slice = {
        "metadata": {**meta, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": _PORT_NAME, "port": port, "protocol": "TCP"}],
    }
    _write(verbs, "", "services", service)
    _write(verbs, "", "endpoints", endpoints)
    _write(verbs, "discovery.k8s.io", "endpointslices", endpoint_slice)


def _write(verbs: Verbs, group: str, plural: str, document: dict[str, Any]) -> None:
    resource = verbs.registry.find(group, "v1", plural)
    assert resource is not None
    options = WriteOptions("kube-apiserver", dry_run=False, validation="Ignore")
    document |= {"apiVersion": resource.api_version, "kind": resource.kind}
    entry = verbs.storage.get(resource.identifier, ("default", _NAME))
    if entry is None:
        verbs.insert(resource, document, options)
    else:
        verbs.update(resource, entry, document, options)
