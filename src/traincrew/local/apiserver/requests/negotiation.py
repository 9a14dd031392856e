"""Content negotiation: the representation of a response, and decoding of request bodies."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, NamedTuple

from traincrew.local.apiserver.values.codec import DecodeError, Faults, duplicate_fields
from traincrew.local.apiserver.values.errors import (
    bad_request,
    not_acceptable,
    unsupported_media_type,
)
from traincrew.local.apiserver.values.limits import MAX_DEPTH, decode_request, refuse_deep

__all__ = [
    "APPLY",
    "JSON",
    "JSON_PATCH",
    "MERGE_PATCH",
    "PROTOBUF",
    "READABLE",
    "STRATEGIC_PATCH",
    "YAML",
    "Format",
    "decode_body",
    "negotiate",
]

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
READABLE = frozenset({JSON, YAML, PROTOBUF, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY})


class Format(NamedTuple):
    """The negotiated representation of a response.

    Attributes:
        shape: the object itself, its metadata only, or a table to print.
        yaml: YAML instead of JSON.
        version: version of the meta.k8s.io group that the shape uses.
    """

    shape: Literal["object", "partial", "table"] = "object"
    yaml: bool = False
    version: str = "v1"


_PLAIN = Format()
_WILDCARDS = frozenset({"*/*", "application/*", JSON})


@lru_cache(maxsize=256)
def negotiate(accept: str, *, shapes: bool = True) -> Format:
    """Return the best representation that an Accept header allows.

    Args:
        accept: the header; empty means anything.
        shapes: whether the resource can be shown as a table or as metadata only.

    Raises:
        StatusError: 406 when there is none.
    """
    if not accept:
        return _PLAIN
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        options = dict(part.partition("=")[::2] for part in parameters)
        if media in _WILDCARDS:
            yaml = False
        elif media in {YAML, "text/yaml", "application/x-yaml"}:
            yaml = True
        else:
            continue
        shape = options.get("as")
        if shape is None:
            return Format(yaml=yaml)
        version = options.get("v", "v1")
        if not shapes or options.get("g") != "meta.k8s.io" or version not in {"v1", "v1beta1"}:
            continue
        if shape == "Table":
            return Format("table", yaml, version)
        if shape in {"PartialObjectMetadata", "PartialObjectMetadataList"}:
            return Format("partial", yaml, version)
    raise not_acceptable([JSON, YAML])


def decode_body(body: bytes, content_type: str) -> tuple[dict[str, Any], Faults]:
    """Decode the body of a create, an update or a delete.

    Returns:
        The document, and the errors of strict decoding: duplicate keys.

    Raises:
        StatusError: 400 when it cannot be decoded, 413 for too many values, 415 for another media
            type.
    """
    faults = Faults()
    try:
        if content_type == JSON:
            document = decode_request(body)
            faults = duplicate_fields(body, document)
        elif content_type == YAML:
            from traincrew.local.apiserver.values.yaml import from_yaml

            document, found = from_yaml(body)
            faults = Faults(f"yaml: unmarshal errors:\n  {fault}" for fault in found)
        elif content_type == PROTOBUF:
            document = _from_protobuf(body)
        else:
            raise unsupported_media_type([JSON, YAML, PROTOBUF])
    except DecodeError as error:
        raise bad_request(f"the body of the request cannot be read: {error}") from None
    if not isinstance(document, dict):
        raise bad_request("the body of the request must be an object")
    return document, faults


def _from_protobuf(body: bytes) -> Any:
    from traincrew.local.apiserver.schema import protobuf

    try:
        document = protobuf.decode(body)
    except protobuf.ProtobufError as error:
        raise DecodeError(str(error)) from None
    if len(body) > MAX_DEPTH:
        refuse_deep(document)
    return document
