"""Types of CEL expressions, and those of the values that a schema describes.

A type also bounds the size of its values, as upstream's declarations do, so that the cost of a rule
can be estimated: ``k8s.io/apiserver/pkg/cel/common/schemas.go`` and ``pkg/cel/types.go``.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, Protocol

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "TYPE",
    "UINT",
    "Type",
    "assignable",
    "bind",
    "escape",
    "join",
    "of_schema",
    "parse_type",
    "smallest",
]

Schema = dict[str, Any]

_REQUEST = 3 * 1024 * 1024
"""Bytes of the largest request; nothing in an object is larger."""

_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        "true false null in as break const continue else for function if import let loop package"
        " namespace return var void while",
    )
)
_SIMPLE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*|[A-Za-z0-9]+")
_NAME = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*")


class Fields(Protocol):
    """The fields of an object that are not described by a schema as users write it."""

    def field_type(self, name: str) -> Type | None:
        """Return the type of a field by its escaped name; None if there is none."""


class Type:
    """A type.

    Attributes:
        name: such as ``int``, ``list`` or ``kubernetes.Quantity``; ``object`` for one with fields.
        of: types of the items, of keys and values, or of an optional's value.
        size: the most characters, items or entries that a value may have.
        schema: of an object.
        fields: of an object without a schema.
        computed: whether it is of a list that an expression makes; upstream does not know the
            size of its items.
    """

    __slots__ = ("_fields", "computed", "fields", "name", "of", "schema", "size")

    def __init__(
        self,
        name: str,
        of: tuple[Type, ...] = (),
        size: float = math.inf,
        schema: Schema | None = None,
        *,
        fields: Fields | None = None,
        computed: bool = False,
    ) -> None:
        self.name = name
        self.of = of
        self.size = size
        self.schema = schema
        self.fields = fields
        self.computed = computed
        self._fields: dict[str, Type | None] = {}

    def __str__(self) -> str:
        if self.name == "optional":
            return f"optional_type({self.of[0]})"
        if self.name == "null_type":
            return "null"
        return f"{self.name}({', '.join(map(str, self.of))})" if self.of else self.name

    def field(self, name: str) -> Type | None:
        """Return the type of an object's field by its escaped name; None if there is none."""
        if name not in self._fields:
            self._fields[name] = self._find(name)
        return self._fields[name]

    def _find(self, name: str) -> Type | None:
        if self.fields is not None:
            return self.fields.field_type(name)
        schema = self.schema or {}
        properties = schema.get("properties") or {}
        found = properties.get(name) if escape(name) == name else None
        if found is None:
            for key, item in properties.items():
                if escape(key) == name:
                    found = item
        if type(found) is dict:
            return of_schema(found)
        if schema.get("x-kubernetes-embedded-resource"):
            return _EMBEDDED.get(name)
        return None

    def resized(self, size: float) -> Type:
        """Return the same type with another bound."""
        return Type(
            self.name, self.of, size, self.schema, fields=self.fields, computed=self.computed
        )


DYN = Type("dyn")
BOOL = Type("bool", size=1)
INT = Type("int", size=1)
UINT = Type("uint", size=1)
DOUBLE = Type("double", size=1)
NULL = Type("null_type", size=1)
STRING = Type("string")
BYTES = Type("bytes")
TIMESTAMP = Type("timestamp", size=1)
DURATION = Type("duration", size=1)
TYPE = Type("type", size=1)
_SIMPLE = {
    each.name: each
    for each in (DYN, BOOL, INT, UINT, DOUBLE, NULL, STRING, BYTES, TIMESTAMP, DURATION, TYPE)
}


@lru_cache(maxsize=4096)
def escape(name: str) -> str | None:
    """Return the name of a property in CEL; None when CEL cannot access it."""
    if name in _KEYWORDS:
        return f"__{name}__"
    if _SIMPLE_NAME.fullmatch(name) and not name[0].isdigit():
        return name
    if not _NAME.fullmatch(name):
        return None
    return (
        name.replace("__", "__underscores__")
        .replace(".", "__dot__")
        .replace("-", "__dash__")
        .replace("/", "__slash__")
    )


# -- from schemas

_KEY = STRING.resized(0)  # upstream takes keys for empty
_LENGTHS = {"duration": 32, "date": 12, "date-time": 29}


_MAX_STEPS = 300  # schemas that are looked into; the size is too small without the others


def smallest(schema: Any, steps: list[int] | None = None) -> int:
    """Return the bytes of the shortest JSON of a value (``MinSerializedSize``)."""
    steps = [0] if steps is None else steps
    steps[0] += 1
    if steps[0] > _MAX_STEPS:
        return 1
    if type(schema) is not dict:
        return 1
    kind = schema.get("type")
    if kind == "object":
        properties = schema.get("properties") or {}
        required = [key for key in (schema.get("required") or ())[:_MAX_STEPS] if key in properties]
        # The quotes, the colon and the comma of each field.
        return 2 + sum(
            len(key) + 4 + smallest(properties[key], steps)
            for key in required
            if "default" not in properties[key]
        )
    if kind in {"array", "string"}:
        return {"duration": 4, "date": 12, "date-time": 20}.get(schema.get("format", ""), 2)
    return {"boolean": 4, "number": 1, "integer": 1}.get(kind or "", 1)


def _limit(schema: Schema, key: str, otherwise: float) -> float:
    value = schema.get(key)
    return float(max(value, 0)) if type(value) is int else otherwise


def of_schema(schema: Schema) -> Type | None:
    """Return the type of the values of a schema; None if rules cannot access them.

    They cannot if the schema, or that of its items or values, declares no type ("unknown type" in
    the Kubernetes documentation of ``x-kubernetes-preserve-unknown-fields``).
    """
    if schema.get("x-kubernetes-int-or-string"):
        length = _limit(schema, "maxLength", (_REQUEST - 2) / 4) * 4
        return DYN.resized(length)
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        inner = of_schema(items) if type(items) is dict else None
        if inner is None:
            return None
        most = (_REQUEST - 2) // (smallest(items) + 1)
        return Type("list", (inner,), _limit(schema, "maxItems", most))
    if kind == "object":
        extra = schema.get("additionalProperties")
        if extra:
            inner = of_schema(extra) if type(extra) is dict else DYN
            if inner is None:
                return None
            most = (_REQUEST - 2) // (smallest(extra) + 6)
            return Type("map", (_KEY, inner), _limit(schema, "maxProperties", most))
        return Type("object", (), 1, schema)
    if kind == "string":
        return _of_text(schema)
    return {"boolean": BOOL, "integer": INT, "number": DOUBLE}.get(kind or "")


def _of_text(schema: Schema) -> Type:
    form = schema.get("format")
    if form in _LENGTHS:
        return (DURATION if form == "duration" else TIMESTAMP).resized(_LENGTHS[form])
    if form == "byte":
        return BYTES.resized(_limit(schema, "maxLength", _REQUEST - 2))
    if type(schema.get("maxLength")) is int:
        return STRING.resized(_limit(schema, "maxLength", 0) * 4)
    values = [each for each in schema.get("enum") or () if type(each) is str]
    return STRING.resized(max(map(len, values)) if values else _REQUEST - 2)


_TEXT = STRING.resized(_REQUEST - 2)
_NAMES = Type(
    "object",
    (),
    1,
    {"properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}},
)
_EMBEDDED = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _NAMES}


# -- relations

_MAY_BE_NULL = frozenset({"object", "timestamp", "duration", "dyn", "null_type", "optional"})


def assignable(wanted: Type, given: Type) -> bool:
    """Return whether a value of one type may stand where another is wanted."""
    if wanted.name == "dyn" or given.name == "dyn":
        return True
    if given.name == "null_type" or wanted.name == "null_type":
        other = wanted if given.name == "null_type" else given
        return other.name in _MAY_BE_NULL or other.name.startswith("kubernetes.")
    if wanted.name != given.name or len(wanted.of) != len(given.of):
        return False
    return all(map(assignable, wanted.of, given.of))


def join(left: Type, right: Type) -> Type | None:
    """Return the type of values of either type; None if there is none."""
    if not assignable(left, right):
        return None
    size = max(left.size, right.size)
    if left.name == "dyn" or right.name == "dyn":
        return DYN.resized(size)
    chosen = right if left.name == "null_type" else left
    inner = tuple(
        join(one, other) or DYN
        for one, other in zip(left.of, right.of, strict=False)
        if len(left.of) == len(right.of)
    )
    return Type(chosen.name, inner or chosen.of, size, chosen.schema, fields=chosen.fields)


# -- declarations

_PART = re.compile(r"\s*([A-Za-z_.]+|[(),])")


def parse_type(text: str) -> Type:
    """Parse a type such as ``map(string, A)``; single capital letters are parameters."""
    parts = _PART.findall(text)[::-1]

    def read() -> Type:
        name = parts.pop()
        inner: list[Type] = []
        if parts and parts[-1] == "(":
            while parts.pop() != ")":
                inner.append(read())
                if parts[-1] == ")":
                    parts.pop()
                    break
        return _SIMPLE.get(name) or Type(name, tuple(inner))

    return read()


def bind(wanted: Type, given: Type, bound: dict[str, Type]) -> bool:
    """Match an argument to a parameter, and remember what its type parameters stand for."""
    if len(wanted.name) == 1:
        known = bound.get(wanted.name)
        if known is None:
            bound[wanted.name] = given
            return True
        both = join(known, given)
        if both is None:
            return False
        bound[wanted.name] = both
        return True
    if given.name == "dyn":
        return True
    if not wanted.of:
        return assignable(wanted, given)
    return wanted.name == given.name and all(
        bind(one, other, bound) for one, other in zip(wanted.of, given.of, strict=True)
    )
