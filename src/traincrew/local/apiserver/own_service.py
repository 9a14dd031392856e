"""The Service ``default/kubernetes``, by which clients inside the cluster find the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .requests import WriteOptions

if TYPE_CHECKING:
    from .verbs import Verbs

__all__ = ["announce"]

_NAME = "kubernetes"
_LABELS = {"component": "apiserver", "provider": "kubernetes"}


def announce(verbs: Verbs, address: str, port: int, secure_port: int = 0) -> None:
    """Make the Service and its end points, or bring them up to date.

    Upstream's offers https on port 443. So does this one if the server speaks it; it speaks http,
    too, and the Service says so.

    Args:
        verbs: to write with.
        address: the server listens on.
        port: likewise.
        secure_port: where it listens with TLS; 0 if nowhere.
    """
    offered = [("https", 443, secure_port)] if secure_port else []
    offered.append(("http", 80, port))
    targets = [{"name": name, "port": target} for name, _, target in offered]
    meta = {"name": _NAME, "namespace": "default"}
    service = {
        "metadata": {**meta, "labels": _LABELS},
        "spec": {
            "ports": [
                {"name": name, "port": number, "targetPort": target}
                for name, number, target in offered
            ]
        },
    }
    endpoints = {
        # Nothing mirrors these: the slice below is written here, too.
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
        verbs.insert(resource, document, options)
    else:
        verbs.update(resource, entry, document, options)
