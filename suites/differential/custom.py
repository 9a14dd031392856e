"""Random CustomResourceDefinitions, and random objects that mostly fit them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.schema import from_crd

from .stories import next_request
from .wire import Document, Resource

if TYPE_CHECKING:
    from .dice import Dice
    from .play import NextRequest

GROUP = "differential.example.com"
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
NAMES = ["a", "b", "c", "d"]
TEXTS = ["x", "y", "longer text", ""]
VERBS: dict[str, float] = {
    "apply": 8,
    "update": 4,
    "json-patch": 2,
    "merge-patch": 4,
    "status": 1,
    "delete": 0.3,
    "create": 0.2,
}


class Schemas:
    """Makes structural schemas, and values for them."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice

    def schema(self, depth: int = 0) -> Document:
        """A random structural schema."""
        dice = self.dice
        kinds = {"string": 4.0, "integer": 3.0, "number": 1.0, "boolean": 1.0, "any": 1.0}
        if depth < 3:
            kinds |= {"object": 4.0, "map": 2.0, "list": 3.0, "open": 1.0}
        kind = dice.weighted(kinds)
        result: Document
        match kind:
            case "string":
                result = {"type": "string"} | dice.part(
                    0.25,
                    minLength=lambda: 1,
                    maxLength=lambda: dice.number(1, 8),
                    pattern=lambda: "^[a-z ]*$",
                    enum=lambda: ["x", "y"],
                )
            case "integer":
                result = {"type": "integer"} | dice.part(
                    0.25,
                    minimum=lambda: 0,
                    maximum=lambda: 5,
                    multipleOf=lambda: 2,
                    format=lambda: dice.one(["int32", "int64"]),
                )
            case "number":
                result = {"type": "number"} | dice.part(0.3, minimum=lambda: 0.5)
            case "boolean":
                result = {"type": "boolean"}
            case "any":
                result = {"x-kubernetes-int-or-string": True}
            case "object":
                result = self.fields(depth)
            case "map":
                below = self.schema(depth + 1)
                result = {"type": "object", "additionalProperties": below} | dice.part(
                    0.2, maxProperties=lambda: 2
                )
            case "open":
                result = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            case _:
                result = self.array(depth)
        if dice.maybe(0.15):
            result["nullable"] = True
        return result

    def fields(self, depth: int) -> Document:
        """A schema of an object with some fields."""
        dice = self.dice
        fields: Document = {}
        for name in dice.some(NAMES, least=1):
            fields[name] = self.schema(depth + 1)
            # Only what fits may be a default; a value made for the schema may still break a rule.
            if dice.maybe(0.3) and fields[name].get("type") in {"boolean", "object"}:
                fields[name]["default"] = False if fields[name]["type"] == "boolean" else {}
                if fields[name]["type"] == "object" and fields[name].get("required"):
                    del fields[name]["default"]
        result: Document = {"type": "object", "properties": fields}
        if dice.maybe(0.2):
            result["required"] = [dice.one(list(fields))]
        if dice.maybe(0.1):
            result["x-kubernetes-map-type"] = "atomic"
        if dice.maybe(0.1):
            result["x-kubernetes-preserve-unknown-fields"] = True
        return result

    def array(self, depth: int) -> Document:
        """A schema of a list."""
        dice = self.dice
        limits = dice.part(0.2, maxItems=lambda: 3, minItems=lambda: 1)
        kind = dice.one(["plain", "atomic", "set", "map"])
        if kind == "set":
            items: Document = {"type": "string"}
            return {"type": "array", "items": items, "x-kubernetes-list-type": "set"} | limits
        if kind == "map":
            items = {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "port": {"type": "integer", "default": 1},
                    "value": self.schema(depth + 1),
                },
                "required": ["name"],
            }
            keys = dice.one([["name"], ["name", "port"]])
            return {
                "type": "array",
                "items": items,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": keys,
            } | limits
        result = {"type": "array", "items": self.schema(depth + 1)} | limits
        return result | ({"x-kubernetes-list-type": "atomic"} if kind == "atomic" else {})

    def value(self, schema: Document) -> Any:
        """A value that mostly fits a schema."""
        dice = self.dice
        if dice.maybe(0.03):
            return dice.one([None, "odd", 7, True, {"odd": 1}, ["odd"]])
        if schema.get("x-kubernetes-int-or-string"):
            return dice.one([1, "25%", "x"])
        match schema.get("type"):
            case "string":
                return dice.one(schema.get("enum", TEXTS))
            case "integer":
                return dice.number(0, 6)
            case "number":
                return dice.one([0.5, 1, 2.25])
            case "boolean":
                return dice.maybe()
            case "array":
                return self.items(schema)
        result = {
            name: self.value(below)
            for name, below in schema.get("properties", {}).items()
            if name in schema.get("required", ()) or dice.maybe(0.6)
        }
        if "additionalProperties" in schema:
            below = schema["additionalProperties"]
            result |= {name: self.value(below) for name in dice.some(NAMES, 3)}
        elif dice.maybe(0.1):
            result["unknown"] = dice.one([1, {"a": None}, [None]])
        return result

    def items(self, schema: Document) -> list[Any]:
        """A value for a schema of a list."""
        dice = self.dice
        below = schema["items"]
        if schema.get("x-kubernetes-list-type") == "set":
            return dice.some(["p", "q", "r"])
        if schema.get("x-kubernetes-list-type") == "map":
            return [
                {"name": name}
                | dice.part(
                    0.5,
                    port=lambda: dice.number(1, 2),
                    value=lambda: self.value(below["properties"]["value"]),
                )
                for name in dice.some(["p", "q", "r"])
            ]
        return [self.value(below) for _ in range(dice.number(0, 3))]


class CustomKind:
    """A random kind: its definition and the story of its objects.

    Args:
        dice: what decides about the schema.
        number: tells the kinds of one run from each other.
    """

    def __init__(self, dice: Dice, number: int) -> None:
        self.resource = Resource(GROUP, "v1", f"kinds{number}", f"Kind{number}")
        self.schema: Document = {
            "type": "object",
            "properties": {
                "spec": Schemas(dice).fields(0),
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
        self.definition: Document = {
            "metadata": {"name": f"{self.resource.plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"plural": self.resource.plural, "kind": self.resource.kind},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": self.schema},
                        "subresources": {"status": {}},
                    }
                ],
            },
        }

    def document(self, dice: Dice) -> Document:
        """An object without apiVersion, kind and name."""
        schemas = Schemas(dice)
        labels = {key: dice.one(["x", "y"]) for key in dice.some(["a", "b"])}
        metadata: Document = {"labels": labels} if dice.maybe(0.3) else {}
        return {"metadata": metadata, "spec": schemas.value(self.schema["properties"]["spec"])}

    def story(self) -> NextRequest:
        """What happens to its objects."""
        node = from_crd(self.schema, GROUP, "v1", self.resource.kind).node

        def choose(dice: Dice, live: Document | None) -> Any:
            request = next_request(dice, node, self.document(dice), live, VERBS)
            if request.verb == "delete" or not dice.maybe(0.3):
                return request
            validation = dice.one(["Strict", "Ignore", "Warn"])
            return request.with_query(fieldValidation=validation)

        return choose
