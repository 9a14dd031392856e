"""The status of ValidatingAdmissionPolicies: the observed generation, and warnings about types.

What upstream's controller does (``pkg/controller/validatingadmissionpolicystatus``), when the
policy is written. It is done here because it needs the schemas of all kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.admissionregistration.identifiers import POLICIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traincrew.local.apiserver.registry import Registry
    from traincrew.local.apiserver.storage import Change, Entry, Storage
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["PolicyStatus"]


class PolicyStatus:
    """Writes the status of policies when their spec has changed.

    Args:
        storage: Holds the policies.
        registry: The served resources.
    """

    def __init__(self, storage: Storage, registry: Registry) -> None:
        self._storage = storage
        self._registry = registry

    def start(self) -> None:
        """Write what is missing, and react to changes from now on."""
        for entry in self._storage.scan(POLICIES):
            self._reconcile(entry)
        self._storage.subscribe(self._on_changes)

    def stop(self) -> None:
        """Stop reacting to changes."""
        self._storage.unsubscribe(self._on_changes)

    def _on_changes(self, changes: Sequence[Change]) -> None:
        for name in {change.key[1] for change in changes if change.resource == POLICIES}:
            entry = self._storage.get(POLICIES, ("", name))
            if entry is not None:
                self._reconcile(entry)

    def _reconcile(self, entry: Entry) -> None:
        policy = entry.obj
        generation = policy["metadata"].get("generation", 0)
        status = policy.get("status") or {}
        if generation <= status.get("observedGeneration", 0):
            return
        warnings = _warnings(self._registry, policy["spec"])
        checked = {"expressionWarnings": warnings} if warnings else {}
        new = status | {"observedGeneration": generation, "typeChecking": checked}
        self._storage.put(POLICIES, entry.key, policy | {"status": new})


def _warnings(registry: Registry, spec: Document) -> list[Document]:
    """Return what is wrong with the types in expressions of a policy."""
    # Most clusters have no policy, and start without the compiler.
    from traincrew.local.apiserver.kinds.admissionregistration.typechecking import (
        Checked,
        checked_resources,
        expression_warnings,
    )
    from traincrew.local.apiserver.schema.expressiontypes import ANY_TYPE, expression_type

    kinds = []
    for group, version, plural in sorted(set(checked_resources(spec))):
        resource = registry.find(group, version, plural)
        if resource is not None:
            object_type = expression_type(resource.schema.node)
            kinds.append(Checked(group, version, resource.kind, object_type))
    params = ANY_TYPE
    wanted = spec.get("paramKind") or {}
    group, _, version = str(wanted.get("apiVersion", "")).rpartition("/")
    for resource in registry.by_kind(group, str(wanted.get("kind", ""))):
        if resource.version == version:
            params = expression_type(resource.schema.node)
    return expression_warnings(spec, kinds, params)
