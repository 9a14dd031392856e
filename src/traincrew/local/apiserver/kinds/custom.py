"""Validation of custom resources: metadata, schema and CEL rules."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.shared.meta import object_meta, object_meta_update
from traincrew.local.apiserver.schema.checks import check
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.causes import Cause
from traincrew.local.apiserver.values.names import subdomain_fault

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
    found = why.Causes()
    metadata = obj.get("metadata")
    if type(metadata) is dict:
        faults = why.Causes()
        check(schema.node.fields["metadata"], metadata, (None, "metadata"), faults)
        if not faults:
            object_meta(found, metadata, subdomain_fault)
            if old is not None:
                object_meta_update(found, metadata, old["metadata"])
    found += _schema_faults(schema, obj, old)
    rules = schema.cel_rules
    if rules:
        if any(cause.reason in _BLOCKING for cause in found):
            found.append(Cause("FieldValueInvalid", _UNCHECKED, "<nil>"))
        else:
            found += rules.validate(obj, old)
    return found


def _schema_faults(schema: ObjectSchema, obj: Document, old: Document | None) -> list[Cause]:
    """Return the violations of the schema that the stored object does not have as well."""
    faults = why.Causes()
    if old is None:
        check(schema.node, obj, None, faults)
        return faults
    with suppress(why.EnoughCausesError):
        check(schema.node, obj, None, faults)
    if not faults:
        return faults
    before = why.Causes()
    with suppress(why.EnoughCausesError):
        check(schema.node, old, None, before)
    known = set(before)
    return [fault for fault in faults if fault not in known]
