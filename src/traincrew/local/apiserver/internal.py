"""Parts of objects as upstream prints them: in its own unversioned form, as Go writes it as JSON.

Some rules show a whole struct or what has changed in one. Fields have their Go names there, in
their Go order, with everything nobody has set. The types come from ``hack/generate_internal.py``.
"""

from __future__ import annotations

import difflib
import json
import lzma
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["difference", "form"]

Document = dict[str, Any]

_Field = tuple[str, str, str, bool]
"""Name as shown (empty when embedded), name in the API, Go type, left out when empty."""

_ZERO: dict[str, Any] = {
    "string": "",
    "types.UID": "",
    "bool": False,
    "resource.Quantity": "0",
    "intstr.IntOrString": 0,
}
# Served as fields of the spec, kept with the security context.
_OF_THE_HOST = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")


@cache
def _structs() -> dict[str, list[_Field]]:
    file = resources.files(__package__) / "data" / "internal.json.xz"
    structs: dict[str, list[_Field]] = json.loads(lzma.decompress(file.read_bytes()))
    return structs


def form(go_type: str, value: Any) -> Any:
    """A value of the API in upstream's own form.

    Args:
        go_type: such as ``core.PodSpec``; with a star where nothing may stand.
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
        host = {key: value[key] for key in _OF_THE_HOST if key in value}
        value = value | {"securityContext": (value.get("securityContext") or {}) | host}
    shown: Document = {}
    for name, own, inner, left_out in fields:
        if not name:
            # Metadata is a struct of its own in the API; of others it has the fields themselves.
            source = value.get("metadata") if inner == "metav1.ObjectMeta" else value
            shown |= form(inner, source)
            continue
        item = form(inner, value.get(own))
        if item or not left_out:
            shown[name] = item
    return shown


def difference(go_type: str, old: Any, new: Any) -> str:
    """What has changed in a value, as a unified diff of its form."""
    found = list(difflib.unified_diff(_lines(form(go_type, old)), _lines(form(go_type, new))))
    return "".join(found[2:])  # without the names of files


_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def _lines(value: Any) -> list[str]:
    text = json.dumps(value, indent=1, ensure_ascii=False).translate(_ESCAPES)
    return f"{text}\n".splitlines(keepends=True)
