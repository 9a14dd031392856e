"""Parts of objects in upstream's internal (unversioned) form, as Go prints them as JSON.

The messages of some rules contain a whole struct or the diff of two. Fields have their Go names and
order there, and unset fields are included. ``hack/generate_internal.py`` generates the types.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from .packed import unpacked

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["difference", "form"]

_Field = tuple[str, str, str, bool]
"""Printed name (empty when embedded), name in the API, Go type, whether omitted when empty."""

_ZERO: dict[str, Any] = {
    "string": "",
    "types.UID": "",
    "bool": False,
    "resource.Quantity": "0",
    "intstr.IntOrString": 0,
}
# Fields of the pod spec in the API; part of the security context in the internal type.
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")


@cache
def _structs() -> dict[str, list[_Field]]:
    structs: dict[str, list[_Field]] = json.loads(unpacked("internal"))
    return structs


def form(go_type: str, value: Any) -> Any:
    """Return a value of the API in upstream's internal form.

    Args:
        go_type: such as ``core.PodSpec``; with a star if it may be nil.
        value: pruned and defaulted, or None.
    """
    if go_type.startswith("*"):
        return None if value is None else form(go_type[1:], value)
    if go_type.startswith("[]"):
        return None if value is None else [form(go_type[2:], item) for item in value]
    if go_type.startswith("map"):
        inner = go_type[3:]
        return None if value is None else {key: form(inner, value[key]) for key in sorted(value)}
    fields = _structs().get(go_type)
    if fields is not None:
        return _struct(go_type, fields, value or {})
    if value is not None:
        return value
    return 0 if go_type.startswith("int") else _ZERO.get(go_type)


def _struct(go_type: str, fields: list[_Field], value: Document) -> Document:
    if go_type == "core.PodSpec":
        host = {key: value[key] for key in _HOST_FIELDS if key in value}
        value = value | {"securityContext": (value.get("securityContext") or {}) | host}
    shown: Document = {}
    for name, own, inner, left_out in fields:
        if not name:
            # Metadata is a separate struct in the API; other embedded structs are inlined.
            source = value.get("metadata") if inner == "metav1.ObjectMeta" else value
            shown |= form(inner, source)
            continue
        item = form(inner, value.get(own))
        if item or not left_out:
            shown[name] = item
    return shown


def difference(go_type: str, old: Any, new: Any) -> str:
    """Return the changes of a value as a unified diff of its internal form."""
    import difflib  # for messages of rules only

    found = list(difflib.unified_diff(_lines(form(go_type, old)), _lines(form(go_type, new))))
    return "".join(found[2:])  # without the file names


_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def _lines(value: Any) -> list[str]:
    text = json.dumps(value, indent=1, ensure_ascii=False).translate(_ESCAPES)
    return f"{text}\n".splitlines(keepends=True)
