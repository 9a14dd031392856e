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

__all__ = ["STRATEGY"]


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


STRATEGY = Strategy(
    default=_default,
    validate=definition,
    prepare_create=_prepare_create,
    decode_fault=nested_schema_fault,
    begin_deletion=mark_terminating,
)
