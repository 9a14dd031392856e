"""Creates the roles and bindings that every cluster has, if they are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.authorization.bootstrap import bootstrap_bindings, bootstrap_roles
from traincrew.local.apiserver.requests import WriteOptions
from traincrew.local.apiserver.requests.objectmeta import new_uid, timestamp
from traincrew.local.apiserver.values.codec import decode

if TYPE_CHECKING:
    from traincrew.local.apiserver.registry import ResourceType
    from traincrew.local.apiserver.values.documents import Document

    from .verbs import Verbs

__all__ = ["create_bootstrap_roles"]

_GROUP = "rbac.authorization.k8s.io"
_FINISHED: dict[tuple[str, str], bytes] = {}
"""The JSON of what this process has created before, by resource and name.

It is the same in every API server, but for UID and times. To default, check and track it again was
most of what the start of a server took.
"""


def create_bootstrap_roles(verbs: Verbs) -> None:
    """Create what is missing; what is there stays, as users may have changed it."""
    for plural, documents in (
        ("clusterroles", bootstrap_roles()),
        ("clusterrolebindings", bootstrap_bindings()),
    ):
        resource = verbs.registry.find(_GROUP, "v1", plural)
        assert resource is not None
        hidden = resource.strategy.defaulted_on_read
        for document in documents:
            key = ("", document["metadata"]["name"])
            if verbs.storage.get(resource.identifier, key) is None:
                finished = _finished(verbs, resource, document)
                verbs.storage.put(resource.identifier, key, finished, hidden=hidden)


def _finished(verbs: Verbs, resource: ResourceType, document: Document) -> Document:
    """Return an object as it is stored: with defaults, UID, times and managedFields."""
    known = resource.identifier, document["metadata"]["name"]
    if known not in _FINISHED:
        options = WriteOptions(
            "kube-apiserver", dry_run=True, validation="Ignore", warnings=[], dropped=[]
        )
        _FINISHED[known] = verbs.insert(resource, document, options, unlimited=True).data
    finished: Document = decode(_FINISHED[known])
    now = timestamp(verbs.clock())
    metadata = finished["metadata"]
    metadata |= {"uid": new_uid(), "creationTimestamp": now}
    for owner in metadata["managedFields"]:
        owner["time"] = now
    return finished
