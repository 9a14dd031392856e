"""Validation of custom resources: metadata, schema and CEL rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.schema.checks import check
from traincrew.local.apiserver.values.causes import Cause
from traincrew.local.apiserver.values.names import subdomain_fault

from .meta import object_meta, object_meta_update

if TYPE_CHECKING:
    from traincrew.local.apiserver.schema import ObjectSchema
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["validate"]

# Causes that prevent CEL rules from being evaluated; invalid values alone do not.
_BLOCKING = {
    "FieldValueNotSupported",
    "FieldValueRequired",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
}
_UNCHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid;"
    " correct the existing errors to complete validation"
)


def validate(schema: ObjectSchema, obj: Document, old: Document | None = None) -> list[Cause]:
    """Validate a custom resource: metadata, schema, CEL rules.

    Errors that the stored object has in the same way are allowed (ratcheting, KEP-4008).
    """
    found: list[Cause] = []
    metadata = obj.get("metadata")
    if type(metadata) is dict:
        faults: list[Cause] = []
        check(schema.node.fields["metadata"], metadata, (None, "metadata"), faults)
        if not faults:
            object_meta(found, metadata, subdomain_fault)
            if old is not None:
                object_meta_update(found, metadata, old["metadata"])
    faults = []
    check(schema.node, obj, None, faults)
    if faults and old is not None:
        before: list[Cause] = []
        check(schema.node, old, None, before)
        faults = [fault for fault in faults if fault not in before]
    found += faults
    rules = schema.cel_rules
    if rules:
        if any(cause.reason in _BLOCKING for cause in found):
            found.append(Cause("FieldValueInvalid", _UNCHECKED, "<nil>"))
        else:
            found += rules.validate(obj, old)
    return found
