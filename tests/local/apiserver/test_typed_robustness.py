"""Typed operations do not crash on any object that the schema accepts."""

import random
import zlib
from typing import Any

import pytest

from local.apiserver.strategies import default, default_after_uid
from traincrew.local.apiserver.apply import apply as ssa
from traincrew.local.apiserver.kinds import table
from traincrew.local.apiserver.kinds.builtin import builtin_resources
from traincrew.local.apiserver.kinds.validation import validate
from traincrew.local.apiserver.patch import strategic
from traincrew.local.apiserver.schema.node import ANY, SchemaNode
from traincrew.local.apiserver.values import times
from traincrew.local.apiserver.values.codec import clone

TEXTS = [
    "",
    "a",
    "a.b",
    "A_B",
    "../x",
    "/abs",
    "None",
    "Always",
    "TCP",
    "50%",
    "10.0.0.1",
    "é " * 40,
]
NUMBERS = [0, 1, -1, 80, 2**31 - 1]


class RandomValues:
    """Random values of the types in a schema, mostly invalid otherwise."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, node: SchemaNode, depth: int = 0) -> Any:
        if node is ANY or not node.type:
            return self.random.choice([None, 1, "x", [], {}, {"a": [1]}])
        if node.type == "object":
            return self.mapping(node, depth)
        if node.type == "array":
            assert node.items is not None
            count = 0 if depth > 8 else self.random.randint(0, 2)
            return [self.value(node.items, depth + 1) for _ in range(count)]
        if node.type == "string":
            form = (node.rules or {}).get("format")
            if node.canonical is times.canonical_micro:
                return "2027-01-15T08:00:00.000000Z"
            texts = {"date-time": ["2027-01-15T08:00:00Z"], "byte": ["", "YQ=="]}
            return self.random.choice(texts.get(form or "", TEXTS))
        choices: dict[str, list[Any]] = {
            "integer": NUMBERS,
            "number": [0, 1.5],
            "boolean": [True, False],
            "quantity": ["1", "-1", "100m", "1Gi", 0.5, 2],
            "int-or-string": [0, 80, "http", "25%", "-3%", ""],
        }
        return self.random.choice(choices[node.type])

    def mapping(self, node: SchemaNode, depth: int) -> dict[str, Any]:
        if depth > 8:
            return {}
        chance = 0.9 if depth < 2 else 0.35
        result = {
            key: self.value(child, depth + 1)
            for key, child in node.fields.items()
            if key in node.required or self.random.random() < chance
        }
        if node.values is not None:
            for key in self.random.sample(TEXTS[:5], self.random.randint(0, 2)):
                result[key] = self.value(node.values, depth + 1)
        return result


STORED = [resource for resource in builtin_resources() if "list" in resource.verbs]


@pytest.mark.parametrize("resource", STORED, ids=lambda resource: resource.kind)
def test_random_objects_of_every_kind(resource: Any) -> None:
    known = resource.schema
    random_values = RandomValues(zlib.crc32(resource.kind.encode()))
    options: dict[str, Any] = {
        "schema": known,
        "now": "2027-01-15T08:00:00Z",
        "api_version": resource.api_version,
    }
    old: dict[str, Any] | None = None
    for _ in range(8):
        obj = random_values.mapping(known.node, 0)
        obj |= {"apiVersion": resource.api_version, "kind": resource.kind}
        obj["metadata"] = random_values.value(known.node.fields["metadata"]) | {"name": "x"}
        obj["metadata"].pop("managedFields", None)
        assert known.prune(obj) == []
        types = known.validate(obj)
        assert [cause for cause in types if cause.reason == "FieldValueTypeInvalid"] == []
        default(resource.group, resource.kind, obj)
        default_after_uid(resource.group, resource.kind, obj)
        for cause in [
            *validate(resource.strategy, obj),
            *(validate(resource.strategy, obj, old) if old else ()),
        ]:
            assert cause.field
            assert cause.message
        table.row(resource, obj, 1_800_000_000.0)
        tracked = ssa.track_update(old, clone(obj), manager="m", **options)
        if old is not None:
            patched = strategic.strategic_merge(
                {"metadata": old["metadata"]}, {"metadata": {"labels": {"a": "b"}}}, known
            )
            assert patched["metadata"]["labels"]["a"] == "b"
        old = tracked
