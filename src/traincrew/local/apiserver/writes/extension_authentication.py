"""What extension API servers and others read to authenticate requests as this server does.

Upstream: ``pkg/controlplane/controller/clusterauthenticationtrust`` and, for the Role,
``plugin/pkg/auth/authorizer/rbac/bootstrappolicy/namespace_policy.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.authorization.bootstrap import bootstrap_namespaced_roles
from traincrew.local.apiserver.requests import WriteOptions

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

    from .verbs import Verbs

__all__ = ["add_client_authority", "publish_extension_authentication"]

_PLACE = ("kube-system", "extension-apiserver-authentication")
_CLIENTS = "client-ca-file"
# As kubeadm configures it. This server forwards no requests, and the key of its CA is gone: nobody
# has a certificate by which an extension API server would accept these headers.
_FORWARDED = {
    "requestheader-allowed-names": '["front-proxy-client"]',
    "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    "requestheader-group-headers": '["X-Remote-Group"]',
    "requestheader-uid-headers": '["X-Remote-Uid"]',
    "requestheader-username-headers": '["X-Remote-User"]',
}


def publish_extension_authentication(verbs: Verbs, authority: str, clients: str = "") -> None:
    """Create or update the ConfigMap, and create the Role to read it.

    Args:
        verbs: the verbs to write with.
        authority: the certificate of the server's CA (PEM); empty without TLS. A CA that somebody
            has added for clients stays.
        clients: the CAs of client certificates (PEM), if the server accepts any.
    """
    for document in bootstrap_namespaced_roles():
        _write(verbs, "rbac.authorization.k8s.io", "roles", document, replaces=False)
    data = _stored(verbs)
    if authority:
        data |= _FORWARDED | {"requestheader-client-ca-file": authority}
        wanted = clients or authority
        known = data.get(_CLIENTS, "")
        data[_CLIENTS] = known if wanted in known else wanted
    _store(verbs, data)


def add_client_authority(verbs: Verbs, added: str) -> None:
    """Add CAs of client certificates (PEM) to the ConfigMap, unless it has them."""
    data = _stored(verbs)
    known = data.get(_CLIENTS, "")
    if added not in known:
        _store(verbs, {**data, _CLIENTS: known + added})


def _stored(verbs: Verbs) -> Document:
    """Return the data of the ConfigMap; empty if there is none."""
    entry = verbs.storage.get("configmaps", _PLACE)
    return dict(entry.obj.get("data") or {}) if entry is not None else {}


def _store(verbs: Verbs, data: Document) -> None:
    namespace, name = _PLACE
    document = {"metadata": {"name": name, "namespace": namespace}, "data": data}
    _write(verbs, "", "configmaps", document, replaces=True)


def _write(verbs: Verbs, group: str, plural: str, document: Document, *, replaces: bool) -> None:
    resource = verbs.registry.find(group, "v1", plural)
    assert resource is not None
    metadata = document["metadata"]
    entry = verbs.storage.get(resource.identifier, (metadata["namespace"], metadata["name"]))
    options = WriteOptions(
        "kube-apiserver", dry_run=False, validation="Ignore", warnings=[], dropped=[]
    )
    document = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
    if entry is None:
        verbs.insert(resource, document, options, unlimited=True)
    elif replaces:
        verbs.update(resource, entry, document, options)
