"""What ConfigMaps and Secrets share: keys, sizes, and changes of immutable ones."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.errors import invalid
from traincrew.local.apiserver.values.names import config_map_key_fault

if TYPE_CHECKING:
    from traincrew.local.apiserver.kinds.strategy import WriteContext
    from traincrew.local.apiserver.values.causes import Cause
    from traincrew.local.apiserver.values.documents import Document

__all__ = [
    "SIZE_LIMIT",
    "changes_of_immutable",
    "decoded_values",
    "key_rules",
    "refuse_change_of_immutable",
]


SIZE_LIMIT = 1024 * 1024

_IMMUTABLE = "field is immutable when `immutable` is set"


def changes_of_immutable(
    new: Document, old: Document | None, sent: frozenset[str] = frozenset()
) -> list[Cause]:
    """Return the changes of an object with ``immutable: true``, as faults.

    Args:
        new: the object.
        old: the stored object; None in a creation.
        sent: fields that were sent empty, which is a change as well.
    """
    if old is None or not old.get("immutable"):
        return []
    changed = [] if new.get("immutable") else ["immutable"]
    changed += [
        key
        for key in ("data", "binaryData")
        if key in sent or (new.get(key) or {}) != (old.get(key) or {})
    ]
    return [why.forbidden(key, _IMMUTABLE) for key in changed]


def key_rules(found: list[Cause], values: Document, path: str) -> None:
    """Validate the keys of data."""
    for key in values:
        fault = config_map_key_fault(key)
        if fault:
            found.append(why.invalid(f"{path}[{key}]", key, fault))


def decoded_values(found: list[Cause], values: Document, path: str) -> dict[str, bytes]:
    """Decode base64 values; refuse those that are not base64."""
    result: dict[str, bytes] = {}
    for key, text in values.items():
        try:
            result[key] = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            detail = f"illegal base64 data: {error}"
            found.append(why.invalid(f"{path}[{key}]", "<value omitted>", detail))
    return result


def refuse_change_of_immutable(
    _context: WriteContext, new: Document, old: Document, sent: frozenset[str]
) -> None:
    """Reject a change of an object with ``immutable: true``, also one to an empty value."""
    if faults := changes_of_immutable(new, old, sent):
        raise invalid("", new["kind"], new["metadata"]["name"], faults)
