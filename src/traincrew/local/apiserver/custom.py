"""Checks of custom resources beyond the types of their schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .causes import Cause
from .checks import check
from .names import subdomain_fault
from .validation_meta import object_meta, object_meta_update

if TYPE_CHECKING:
    from .schema import ObjectSchema

__all__ = ["validate"]

Document = dict[str, Any]

# What keeps rules from being evaluated; wrong values alone do not.
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


def validate(schema: ObjectSchema, obj: Document, old: Document | None) -> list[Cause]:
    """Everything wrong with a custom resource: metadata, schema, CEL rules.

    What was wrong in the same way before the update is let through (ratcheting, KEP-4008).
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
