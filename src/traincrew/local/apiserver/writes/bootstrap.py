"""Creates the roles and bindings that every cluster has, if they are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.authorization.bootstrap import bootstrap_bindings, bootstrap_roles
from traincrew.local.apiserver.requests import WriteOptions

if TYPE_CHECKING:
    from .verbs import Verbs

__all__ = ["create_bootstrap_roles"]

_GROUP = "rbac.authorization.k8s.io"


def create_bootstrap_roles(verbs: Verbs) -> None:
    """Create what is missing; what is there stays, as users may have changed it."""
    for plural, documents in (
        ("clusterroles", bootstrap_roles()),
        ("clusterrolebindings", bootstrap_bindings()),
    ):
        resource = verbs.registry.find(_GROUP, "v1", plural)
        assert resource is not None
        for document in documents:
            name = document["metadata"]["name"]
            if verbs.storage.get(resource.identifier, ("", name)) is None:
                options = WriteOptions(
                    "kube-apiserver", dry_run=False, validation="Ignore", warnings=[], dropped=[]
                )
                verbs.insert(resource, document, options, unlimited=True)
