"""Random CustomResourceDefinitions with rules and patterns, and objects of them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from suites.differential.custom import Schemas
from suites.differential.requests import Resource

from . import mutations

if TYPE_CHECKING:
    from suites.differential.random_choice import RandomChoice
    from suites.differential.requests import Document

HOSTILE_RULES = True
"""Whether rules and patterns may be such that evaluating them is expensive or crashes a library.

As long as a CEL library and regular expressions with back-tracking run in the API server's
process, it does not survive them.
"""

GROUP = "fuzz.example.com"
KINDS = 6
"""Number of kinds whose definitions are created, changed and deleted."""
RULES = [
    "self == oldSelf",
    "has(self.a) && self.a > 1",
    "self.all(x, x != '')",
    "size(self) < 5",
    "self.exists_one(x, x == 1)",
    "1 / 0 == 1",
    "'a' + 1 == 'a1'",
    "self.undefined.field",
    "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
    "self.matches('^[a-z]+$')",
    "type(self) == int",
    "isURL('http://x') || ip('1.2.3.4').family() == 4",
    "oldSelf.orValue(1) == 1",
    "'%d'.format([1]) == '1'",
    "",
    "(",
    "self[0] == self[-1]",
    "true ? self : oldSelf",
    "é == 1",
]
PATTERNS = ["^[a-z ]*$", "a|b", "[", "\\d{1,3}", "(?i)x", "\\pL+", "^(a)(b)?$", "(?P<n>x)"]
HOSTILE = [
    "self.all(a, self.all(b, self.all(c, self.all(d, true))))",
    "(" * 5_000 + "true" + ")" * 5_000,
    " && ".join(["true"] * 10_000),
    "'%.999999999f'.format([1.0]) == ''",
    "'" + "x" * 200_000 + "' == ''",
    "'a'.replace('', 'b'.replace('', 'c')) == ''",
]
HOSTILE_PATTERNS = ["^(a+)+$", "(x*)*y", "(.*)*(.*)*(.*)*$", "(((a{1,99}){1,99}){1,99})"]


def resource(number: int) -> Resource:
    """Return the resource of one of the kinds."""
    return Resource(GROUP, "v1", f"fuzzes{number}", f"Fuzz{number}")


def definition(choice: RandomChoice, number: int) -> Document:
    """Return a definition that is mostly valid."""
    kind = resource(number)
    schema = {
        "type": "object",
        "properties": {"spec": _with_rules(choice, Schemas(choice).fields(0))},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "A", "type": "string", "jsonPath": choice.one([".spec.a", ".spec[*].b", "x{"])}
        ],
    }
    if choice.maybe(0.3):
        version["subresources"] = {
            "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.b"}
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "kind": kind.kind},
            "versions": [version],
        },
    }


def _with_rules(choice: RandomChoice, schema: Document) -> Document:
    rules = RULES + HOSTILE if HOSTILE_RULES else RULES
    patterns = PATTERNS + HOSTILE_PATTERNS if HOSTILE_RULES else PATTERNS
    for each in schema.get("properties", {}).values():
        _with_rules(choice, each)
    if isinstance(schema.get("items"), dict):
        _with_rules(choice, schema["items"])
    if choice.maybe(0.15):
        schema["x-kubernetes-validations"] = [
            {"rule": choice.one(rules)} | choice.part(0.3, messageExpression=lambda: "'a' + self")
            for _ in range(choice.number(1, 2))
        ]
    if schema.get("type") == "string" and choice.maybe(0.3):
        schema["pattern"] = choice.one(patterns)
    if choice.maybe(0.05):
        schema["default"] = mutations.odd_value(choice)
    return schema


def custom_object(choice: RandomChoice, number: int) -> Document:
    """Return an object of one of the kinds; its schema is not known here."""
    schemas = Schemas(choice)
    spec: Any = schemas.value(copy.deepcopy(schemas.fields(0)))
    kind = resource(number)
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": choice.one(["a", "b", "c"])},
        "spec": spec,
    }
