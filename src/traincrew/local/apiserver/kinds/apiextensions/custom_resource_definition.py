"""CustomResourceDefinitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traincrew.local.apiserver.kinds.strategy import Strategy, WriteContext
from traincrew.local.apiserver.schema.decoding import nested_schema_fault
from traincrew.local.apiserver.values.documents import field

from .rules import definition
from .status import mark_terminating

if TYPE_CHECKING:
    from traincrew.local.apiserver.values.documents import Document

__all__ = ["STANDS_IN", "STRATEGY"]

STANDS_IN = "traincrew.dev/installed"
"""Annotation of definitions that stand in for those of another project, and give way to them.

Theirs may have other versions only. On a real API server nobody could replace the definition then,
because a version that was ever stored has to stay.
"""


def _default(obj: Document) -> None:
    spec = obj.get("spec")
    if type(spec) is not dict:
        return
    names = spec.get("names")
    if type(names) is dict and type(names.get("kind")) is str:
        if not names.get("singular"):
            names["singular"] = names["kind"].lower()
        if not names.get("listKind"):
            names["listKind"] = names["kind"] + "List"
    conversion = spec.setdefault("conversion", {})
    if type(conversion) is dict:
        conversion.setdefault("strategy", "None")
        service = field(conversion, "webhook", "clientConfig").get("service")
        if type(service) is dict:
            service.setdefault("port", 443)


def _prepare_create(_context: WriteContext, new: Document) -> None:
    versions = new["spec"].get("versions") or ()
    stored = [each.get("name", "") for each in versions if each.get("storage")]
    new["status"] = {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}}
    new["status"]["storedVersions"] = stored


def _prepare_update(
    _context: WriteContext, new: Document, old: Document, _emptied: frozenset[str]
) -> None:
    if STANDS_IN not in field(old, "metadata", "annotations"):
        return
    names = {version.get("name") for version in new["spec"].get("versions") or ()}
    status = new.get("status") or {}
    stored = [name for name in status.get("storedVersions") or () if name in names]
    new["status"] = {**status, "storedVersions": stored}


STRATEGY = Strategy(
    default=_default,
    validate=definition,
    prepare_create=_prepare_create,
    prepare_update=_prepare_update,
    decode_fault=nested_schema_fault,
    begin_deletion=mark_terminating,
)
