"""How kubectl, Argo CD and Flux compare a manifest with what is stored.

Written from their documentation: kubectl's declarative object management ("How apply calculates
differences and merges changes"), Argo CD's "Diff strategies", Flux's "kustomize-controller: Drift
detection". They know no merge keys of custom resources, so a list is replaced as a whole.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from traincrew.engine import mergepatch

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

Document = dict[str, Any]


def with_last_applied(manifest: Document) -> Document:
    """Return what `kubectl apply` sends: the manifest, and itself in an annotation."""
    plain = copy.deepcopy(manifest)
    plain["metadata"].setdefault("annotations", {})
    sent = copy.deepcopy(plain)
    sent["metadata"]["annotations"][LAST_APPLIED] = json.dumps(plain)
    return sent


def three_way(manifest: Document, stored: Document) -> Document:
    """Return the patch of `kubectl apply`, and of Helm 3: what was removed, added and changed."""
    annotations = stored["metadata"].get("annotations") or {}
    before = json.loads(annotations.get(LAST_APPLIED, "{}"))
    modified = with_last_applied(manifest)
    removed = _only(mergepatch.difference(before, json.loads(json.dumps(modified))), nulls=True)
    changed = _only(mergepatch.difference(stored, modified), nulls=False)
    return _merged(removed, changed)


def argo_cd_differs(manifest: Document, stored: Document) -> Document:
    """Return how the stored object would change by Argo CD's three-way comparison."""
    predicted = mergepatch.apply(stored, three_way(manifest, stored))
    return mergepatch.difference(normalized(stored), normalized(predicted))


def normalized(document: Document) -> Document:
    """Return what Argo CD and Flux compare: neither the status nor what the server maintains."""
    kept = {name: value for name, value in document.items() if name != "status"}
    kept["metadata"] = {
        name: value
        for name, value in document["metadata"].items()
        if name in {"name", "namespace", "labels", "annotations", "finalizers", "ownerReferences"}
    }
    return kept


def _only(patch: Document, *, nulls: bool) -> Document:
    """Return the deletions of a patch, or everything else in it."""
    kept: Document = {}
    for name, value in patch.items():
        if isinstance(value, dict):
            if inner := _only(value, nulls=nulls):
                kept[name] = inner
        elif (value is None) == nulls:
            kept[name] = value
    return kept


def _merged(patch: Document, other: Document) -> Document:
    """Return both patches as one."""
    merged = dict(patch)
    for name, value in other.items():
        known = merged.get(name)
        both = isinstance(known, dict) and isinstance(value, dict)
        merged[name] = _merged(known, value) if both and known is not None else value
    return merged
