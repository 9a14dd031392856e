"""Check that the schema of a CustomResourceDefinition is structural.

A structural schema gives the type of every field outside ``allOf``, ``anyOf``, ``oneOf`` and
``not``, so that pruning, defaulting and merging are well-defined. Rules and messages:
apiextensions' ``pkg/apiserver/schema/validation.go`` and
``pkg/apis/apiextensions/validation/validation.go``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from traincrew.local.apiserver.schema.checks import check as check_value
from traincrew.local.apiserver.schema.custom import crd_node
from traincrew.local.apiserver.schema.prune import prune
from traincrew.local.apiserver.values import causes as why
from traincrew.local.apiserver.values.causes import Cause
from traincrew.local.apiserver.values.codec import clone, mentions, most_mentions
from traincrew.local.apiserver.values.documents import field

from .valuevalidations import value_validations

__all__ = ["Schema", "check"]

Schema = dict[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_META = ("metadata", "kind", "apiVersion")
_ROOT, _ITEM, _FIELD = "root", "item", "field"
_MISSING_TYPE = {
    _ROOT: "must not be empty at the root",
    _ITEM: "must not be empty for specified array items",
    _FIELD: "must not be empty for specified object fields",
}
_ROOT_FIELDS_WITH_STATUS = (
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
)


class _Place(NamedTuple):
    """The position of a schema.

    Attributes:
        path: path in the definition.
        level: root, item or field.
        no_default: why a default is not allowed here; empty when it is.
        in_meta: whether it is inside the metadata, kind or apiVersion of a resource.
    """

    path: str
    level: str
    no_default: str = ""
    in_meta: bool = False


def check(schema: Schema, path: str, *, status_subresource: bool = False) -> list[Cause]:
    """Return the causes for which a schema is refused.

    Args:
        schema: ``openAPIV3Schema`` of one version.
        path: of the schema in the definition.
        status_subresource: whether the version has one, which forbids some keywords at the root.
    """
    found: list[Cause] = []
    if status_subresource:
        for key in schema:
            if key not in _ROOT_FIELDS_WITH_STATUS:
                detail = (
                    f"only [{' '.join(_ROOT_FIELDS_WITH_STATUS)}] fields are allowed at the root of"
                    " the schema if the status subresource is enabled"
                )
                found.append(why.invalid(path, key, detail))
                break
    if schema.get("nullable"):
        found.append(why.forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    if (
        most_mentions(schema, "pattern") > _MAX_PATTERNS
        and (count := _patterns(schema)) > _MAX_PATTERNS
    ):
        detail = f"a version has {count} patterns; this server allows {_MAX_PATTERNS}"
        found.append(why.forbidden(path, detail))
        return found
    _schema(found, schema, _Place(path, _ROOT))
    if not found and mentions(schema, "default"):
        _defaults(found, schema, path)
    return found


_MAX_PATTERNS = 5_000  # each takes some microseconds to compile


def _patterns(value: Any) -> int:
    """Return how many patterns a schema has."""
    if type(value) is list:
        return sum(map(_patterns, value))
    if type(value) is not dict:
        return 0
    return (type(value.get("pattern")) is str) + sum(map(_patterns, value.values()))


def _children(schema: Schema) -> list[tuple[str, str, str, Schema]]:
    """Return the schemas directly below: name of the property, keyword, level, schema."""
    result = [
        (key, "properties", _FIELD, item or {})  # null is an empty schema
        for key, item in field(schema, "properties").items()
        if item is None or type(item) is dict
    ]
    if type(schema.get("items")) is dict:
        result.append(("", "items", _ITEM, schema["items"]))
    if type(schema.get("additionalProperties")) is dict:
        extra = schema["additionalProperties"]
        result.append(("", "additionalProperties", _FIELD, extra))
    return result


def _step(keyword: str, key: str) -> str:
    """Return the step of a path to a schema directly below."""
    return f"{keyword}[{key}]" if keyword == "properties" else keyword


_PLAIN_KEYS = frozenset(
    {"type", "description", "title", "format", "enum", "required", "nullable", "properties"}
    | {"items", "default", "maximum", "minimum", "maxLength", "minLength", "maxItems", "minItems"}
)


_LEAF_KEYS = _PLAIN_KEYS - {"properties", "items"}


def _is_plain(schema: Schema, keys: frozenset[str] = _PLAIN_KEYS) -> bool:
    """Return whether a schema below the root has nothing that could be refused: most have not."""
    if not schema.keys() <= keys or (kind := schema.get("type")) not in _TYPES:
        return False
    return kind != "array" or type(schema.get("items")) is dict


def _schema(found: list[Cause], schema: Schema, place: _Place) -> None:
    path, at_root = place.path, place.level == _ROOT
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    for key, keyword, level, inner in _children(schema):
        no_default, in_meta = place.no_default, place.in_meta
        if (at_root or embedded) and key in _META:
            in_meta = True
            if at_root:
                no_default = f"in top-level {key}"
        if keyword == "additionalProperties" and place.in_meta:
            no_default = "inside additionalProperties applying to object metadata"
        if no_default or not _is_plain(inner, _LEAF_KEYS):
            here = f"{path}.{_step(keyword, key)}"
            _schema(found, inner, _Place(here, level, no_default, in_meta))
    if not (at_root or place.no_default) and _is_plain(schema):
        return
    _type(found, schema, place, embedded=embedded)
    _keywords(found, schema, place)
    _extensions(found, schema, path)
    _list_type(found, schema, path)
    _metadata(found, schema, place, embedded=embedded)
    value_validations(found, schema, path, schema)


def _type(found: list[Cause], schema: Schema, place: _Place, *, embedded: bool) -> None:
    path, kind = place.path, schema.get("type", "")
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    if kind == "null":
        detail = "type cannot be set to null, use nullable as an alternative"
        found.append(why.forbidden(f"{path}.type", detail))
    elif kind and kind not in _TYPES:
        found.append(why.not_supported(f"{path}.type", kind, _TYPES))
    if kind == "array" and type(schema.get("items")) is not dict:
        if type(schema.get("items")) is list:
            detail = "items must be a schema object and not an array"
            found.append(why.forbidden(f"{path}.items", detail))
        else:
            found.append(why.required(f"{path}.items", "must be specified"))
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        found.append(
            why.invalid(f"{path}.type", kind, detail)
            if kind
            else why.required(f"{path}.type", detail)
        )
    elif not kind and not schema.get("x-kubernetes-int-or-string") and not preserve:
        found.append(why.required(f"{path}.type", _MISSING_TYPE[place.level]))
    if place.level == _ROOT and kind and kind != "object":
        found.append(why.invalid(f"{path}.type", kind, "must be object at the root"))
    if embedded and not preserve and not schema.get("properties"):
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without"
            " x-kubernetes-preserve-unknown-fields"
        )
        found.append(why.required(f"{path}.properties", detail))
    extra = schema.get("additionalProperties")
    here = f"{path}.additionalProperties"
    if extra is not None:
        if place.level == _ROOT:
            found.append(why.forbidden(here, "must not be used at the root"))
        if embedded:
            detail = "must not be used if x-kubernetes-embedded-resource is set"
            found.append(why.forbidden(here, detail))
        if schema.get("properties") and extra is not True:
            detail = "additionalProperties and properties are mutual exclusive"
            found.append(why.forbidden(here, detail))


def _keywords(found: list[Cause], schema: Schema, place: _Place) -> None:
    path = place.path
    found.extend(
        why.forbidden(f"{path}.{key}", f"{key} is not supported")
        for key in _UNSUPPORTED
        if schema.get(key)
    )
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        found.append(why.forbidden(f"{path}.uniqueItems", detail))
    if "default" in schema and place.no_default:
        found.append(why.forbidden(f"{path}.default", f"must not be set {place.no_default}"))
    if place.in_meta and schema.get("x-kubernetes-embedded-resource"):
        detail = "must not be used inside of resource meta"
        found.append(why.forbidden(f"{path}.x-kubernetes-embedded-resource", detail))


def _extensions(found: list[Cause], schema: Schema, path: str) -> None:
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    here = f"{path}.x-kubernetes-preserve-unknown-fields"
    if preserve is False:
        found.append(why.invalid(here, preserve, "must be true or undefined"))
    if schema.get("x-kubernetes-int-or-string"):
        detail = "must be false if x-kubernetes-int-or-string is true"
        if preserve:
            found.append(why.invalid(here, True, detail))
        if schema.get("x-kubernetes-embedded-resource"):
            found.append(why.invalid(f"{path}.x-kubernetes-embedded-resource", True, detail))
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is None:
        return
    if schema.get("type") != "object":
        detail = "must be object if x-kubernetes-map-type is specified"
        found.append(why.invalid(f"{path}.type", schema.get("type", ""), detail))
    if map_type not in ("atomic", "granular"):
        here = f"{path}.x-kubernetes-map-type"
        found.append(why.not_supported(here, map_type, ("atomic", "granular")))


def _list_type(found: list[Cause], schema: Schema, path: str) -> None:
    list_type, keys = (
        schema.get("x-kubernetes-list-type"),
        schema.get("x-kubernetes-list-map-keys") or [],
    )
    here = f"{path}.x-kubernetes-list-type"
    if keys and list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        found.append(
            why.required(here, detail)
            if list_type is None
            else why.invalid(here, list_type, detail)
        )
    if list_type is None:
        return
    inner = field(schema, "items")
    if schema.get("type") != "array":
        detail = "must be array if x-kubernetes-list-type is specified"
        found.append(why.invalid(f"{path}.type", schema.get("type", ""), detail))
    if list_type not in ("atomic", "set", "map"):
        found.append(why.not_supported(here, list_type, ("atomic", "set", "map")))
    if list_type in ("set", "map") and inner.get("nullable"):
        detail = f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        found.append(why.forbidden(f"{path}.items.nullable", detail))
    if list_type == "set":
        _set_items(found, inner, f"{path}.items")
    elif list_type == "map":
        _map_items(found, inner, keys, path)


def _set_items(found: list[Cause], inner: Schema, path: str) -> None:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if inner.get("type") == "array":
        value = inner.get("x-kubernetes-list-type", "atomic")
        if value != "atomic":
            found.append(why.invalid(f"{path}.x-kubernetes-list-type", value, detail))
    elif inner.get("type") == "object":
        value = inner.get("x-kubernetes-map-type")
        if value != "atomic":
            found.append(why.invalid(f"{path}.x-kubernetes-map-type", value, detail))


def _map_items(found: list[Cause], inner: Schema, keys: list[str], path: str) -> None:
    here = f"{path}.x-kubernetes-list-map-keys"
    if not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        found.append(why.required(here, detail))
    if inner.get("type") != "object":
        detail = "must be object if parent array's x-kubernetes-list-type is map"
        found.append(why.invalid(f"{path}.items.type", inner.get("type", ""), detail))
        return
    if len(set(keys)) != len(keys):
        found.append(why.invalid(here, keys, "must not contain duplicate entries"))
    properties = field(inner, "properties")
    for key in keys:
        place = f"{path}.items.properties[{key}]"
        if key not in properties:
            found.append(why.invalid(here, keys, "entries must all be names of item properties"))
            continue
        item = properties[key]
        if item.get("type") in ("array", "object"):
            detail = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            found.append(why.invalid(f"{place}.type", item["type"], detail))
        if key not in inner.get("required", ()) and "default" not in item:
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a"
                " required property"
            )
            found.append(why.required(f"{place}.default", detail))
        if item.get("nullable"):
            detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            found.append(why.forbidden(f"{place}.nullable", detail))


def _metadata(found: list[Cause], schema: Schema, place: _Place, *, embedded: bool) -> None:
    """Check the types of metadata, kind and apiVersion; of metadata only names may have rules."""
    if place.level != _ROOT and not embedded:
        return
    properties = field(schema, "properties")
    for key in ("kind", "apiVersion"):
        inner = properties.get(key)
        if inner is not None and inner.get("type") != "string":
            here = f"{place.path}.properties[{key}].type"
            found.append(why.invalid(here, inner.get("type", ""), "must be string"))
    metadata = properties.get("metadata")
    if metadata is None:
        return
    here = f"{place.path}.properties[metadata]"
    if metadata.get("type") != "object":
        found.append(why.invalid(f"{here}.type", metadata.get("type", ""), "must be object"))
    allowed = {"type", "properties", "description"}
    names = set(field(metadata, "properties"))
    if place.level == _ROOT and (set(metadata) - allowed or not names <= {"name", "generateName"}):
        detail = (
            "must not specify anything other than name and generateName, but metadata is"
            " implicitly specified"
        )
        found.append(why.forbidden(here, detail))


_MAY_HAVE_DEFAULTS = frozenset({"default", "properties", "items", "additionalProperties"})


def _defaults(found: list[Cause], schema: Schema, path: str) -> None:
    """Check that a default is valid by its own schema and has nothing that would be pruned."""
    if "default" in schema:
        node = crd_node(schema, root=False)
        value = schema["default"]
        here = f"{path}.default"
        faults: list[Cause] = []
        if not (value is None and schema.get("nullable")):
            check_value(node, value, None, faults)
        found.extend(
            Cause(fault.reason, fault.message, f"{here}.{fault.field}".rstrip("."))
            for fault in faults
        )
        if not faults and type(value) is dict:
            unknown = prune(node, clone(value))
            if unknown:
                found.append(why.invalid(here, value, f"must not have unknown fields: {unknown}"))
    for key, keyword, _, inner in _children(schema):
        if not _MAY_HAVE_DEFAULTS.isdisjoint(inner):
            _defaults(found, inner, f"{path}.{_step(keyword, key)}")
