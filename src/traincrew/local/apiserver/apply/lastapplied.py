"""Migration from client-side to server-side apply: the annotation ``kubectl apply`` leaves.

``kubectl apply --server-side`` (manager ``kubectl``) may take over the fields ``kubectl apply`` set
without a conflict, and keeps the annotation up to date. Semantics: ``lastappliedmanager.go`` and
``lastappliedupdater.go`` of ``k8s.io/apimachinery/pkg/util/managedfields``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values.codec import DecodeError, clone
from traincrew.local.apiserver.values.errors import StatusError
from traincrew.local.apiserver.values.limits import decode_request

from .fieldsets import FieldSet, difference
from .typedvalues import type_faults
from .valuefields import compare, field_set

if TYPE_CHECKING:
    from traincrew.local.apiserver.schema import ObjectSchema
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["LAST_APPLIED", "renew", "unchanged_fields"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS = 256 * 1024
"""Maximum total size of annotations in bytes; beyond it the annotation is left out."""


def unchanged_fields(live: Document | None, schema: ObjectSchema, api_version: str) -> FieldSet:
    """Return the fields that still have the value client-side apply set."""
    if live is None:
        return {}
    text = live["metadata"].get("annotations", {}).get(LAST_APPLIED)
    try:
        last = decode_request((text or "null").encode())
    except (DecodeError, StatusError):
        return {}
    if type(last) is not dict or last.get("apiVersion") != api_version:
        return {}
    if type_faults(schema.node, last):
        return {}
    change = compare(schema.node, last, live)
    return difference(difference(field_set(schema.node, last), change.changed), change.removed)


def renew(result: Document, config: Document) -> Document:
    """Update the annotation if the object has it."""
    annotations = result.get("metadata", {}).get("annotations") or {}
    if annotations.get(LAST_APPLIED):
        bare = clone(config)
        (bare["metadata"].get("annotations") or {}).pop(LAST_APPLIED, None)
        annotations[LAST_APPLIED] = _go_json(bare) + "\n"
        size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
        if size > _MAX_ANNOTATIONS:
            del annotations[LAST_APPLIED]
    return result


def _go_json(document: Document) -> str:
    """Encode JSON as Go does: keys sorted, characters special in HTML escaped."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
