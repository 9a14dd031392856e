"""Random CEL rules for random schemas; most hold for some of the objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .random_choice import RandomChoice
    from .requests import Document

_TESTS: dict[str, list[str]] = {
    "string": [
        "{v} != 'x'",
        "{v}.size() < 8",
        "{v}.startsWith('l') || {v}.contains('x')",
        "{v}.matches('^[a-z ]*$')",
        "!format.dns1123Label().validate({v}).hasValue()",
        "format.named('labelValue').value().validate({v}).orValue([]).size() == 0",
        "isSemver({v}, true)",
        "semver({v}, true).major() > 0",
        "{v} < 'xx' && {v}.lowerAscii() == {v}",
        "{v}.split(' ').all(i, w, i < 2 || w == '')",
        "int({v}) > 0",
    ],
    "integer": [
        "{v} > 2",
        "{v} % 2 == 0 || {v} < 3",
        "10 / {v} > 1",
        "lists.range({v}).all(i, j, i == j)",
        "[{v}, 1].sort()[0] == 1",
        "string({v}).size() == 1",
        "{v} in [0, 1, 2, 4]",
        "type({v}) == int",
    ],
    "number": ["{v} > 0.5", "{v} == 1.0 || {v} > 2", "[{v}].sum() < 2.0"],
    "boolean": ["{v}", "!{v}", "{v} ? true : false"],
    "array": [
        "{v}.size() < 2",
        "{v}.all(i, e, i < 2)",
        "{v}.exists(i, e, i == 1)",
        "{v}.existsOne(i, e, i > 0)",
        "{v}.transformList(i, e, i > 0, i).sum() < 3",
        "{v}.transformMap(i, e, i + 1).all(k, n, n == k + 1)",
        "{v}.transformMapEntry(i, e, {{string(i): i}}).size() > 1",
        "{v}.transformMapEntry(i, e, {{'same': i}}).size() < 2",
        "{v}.map(e, 1).sum() != 2",
        "{v}[0] == {v}[1]",
    ],
    "map": [
        "{v}.all(k, e, k != 'a')",
        "{v}.exists(k, e, k == 'b')",
        "{v}.existsOne(k, e, k > 'a')",
        "{v}.transformList(k, e, k).sort() == ['a', 'b']",
        "{v}.transformList(k, e, k).sortBy(k, k).join('') != 'a'",
        "{v}.transformMap(k, e, k + k).size() < 2",
        "'a' in {v}",
        "{v}[?'a'].hasValue()",
    ],
    "object": ["{v} == {v}", "type({v}) != int"],
    "any": ["{v} == 1", "type({v}) == string || {v} > 0", "{v} != 'x'"],
}
_WRONG = ["self.nothing == 1", "self > 1", "self.all(i, true)", "semver(1) == 2", "format.x()"]


def _kind(schema: Document) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "any"
    kind: str = schema.get("type", "any")
    return "map" if kind == "object" and "additionalProperties" in schema else kind


def add_rules(choice: RandomChoice, schema: Document) -> None:
    """Add rules to the schemas of objects with declared fields."""
    for below in schema.get("properties", {}).values():
        add_rules(choice, below)
    if schema.get("properties") and choice.maybe(0.6):
        rules = [_rule(choice, schema["properties"]) for _ in range(choice.number(1, 2))]
        schema["x-kubernetes-validations"] = rules


def _rule(choice: RandomChoice, properties: dict[str, Any]) -> Document:
    name, schema = choice.one(sorted(properties.items(), key=lambda each: each[0]))
    test = choice.one(_TESTS[_kind(schema)]).format(v=f"self.{name}")
    rule = test if choice.maybe(0.1) else f"!has(self.{name}) || {test}"
    if choice.maybe(0.02):
        rule = choice.one(_WRONG)
    if choice.maybe(0.15) and not re.search(r"\[\d\]", rule):
        rule = f"oldSelf == self || ({rule})"
    extra = choice.part(
        0.15,
        message=lambda: "not so",
        messageExpression=lambda: choice.one(
            ["'is ' + string(type(self) == int)", "string(1 / 0)"]
        ),
        reason=lambda: choice.one(["FieldValueForbidden", "FieldValueDuplicate"]),
        fieldPath=lambda: f".{name}",
    )
    return {"rule": rule} | extra
