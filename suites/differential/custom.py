"""Random CustomResourceDefinitions, and random objects that are mostly valid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traincrew.local.apiserver.schema import from_crd

from .request_choice import next_request
from .requests import Document, Resource
from .rules import add_rules

if TYPE_CHECKING:
    from .random_choice import RandomChoice
    from .request_choice import NextRequest

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
    """Generator of structural schemas and values for them."""

    def __init__(self, choice: RandomChoice) -> None:
        self.choice = choice

    def schema(self, depth: int = 0) -> Document:
        """Return a random structural schema."""
        choice = self.choice
        kinds = {"string": 4.0, "integer": 3.0, "number": 1.0, "boolean": 1.0, "any": 1.0}
        if depth < 3:
            kinds |= {"object": 4.0, "map": 2.0, "list": 3.0, "open": 1.0}
        kind = choice.weighted(kinds)
        result: Document
        match kind:
            case "string":
                result = {"type": "string"} | choice.part(
                    0.25,
                    minLength=lambda: 1,
                    maxLength=lambda: choice.number(1, 8),
                    pattern=lambda: "^[a-z ]*$",
                    enum=lambda: ["x", "y"],
                )
            case "integer":
                result = {"type": "integer"} | choice.part(
                    0.25,
                    minimum=lambda: 0,
                    maximum=lambda: 5,
                    multipleOf=lambda: 2,
                    format=lambda: choice.one(["int32", "int64"]),
                )
            case "number":
                result = {"type": "number"} | choice.part(0.3, minimum=lambda: 0.5)
            case "boolean":
                result = {"type": "boolean"}
            case "any":
                result = {"x-kubernetes-int-or-string": True}
            case "object":
                result = self.fields(depth)
            case "map":
                below = self.schema(depth + 1)
                result = {"type": "object", "additionalProperties": below} | choice.part(
                    0.2, maxProperties=lambda: 2
                )
            case "open":
                result = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            case _:
                result = self.array(depth)
        if choice.maybe(0.15):
            result["nullable"] = True
        return result

    def fields(self, depth: int) -> Document:
        """Return the schema of an object with some fields."""
        choice = self.choice
        fields: Document = {}
        for name in choice.some(NAMES, least=1):
            fields[name] = self.schema(depth + 1)
            # A default must be valid, but a value generated for the schema may still break a rule.
            if choice.maybe(0.3) and fields[name].get("type") in {"boolean", "object"}:
                fields[name]["default"] = False if fields[name]["type"] == "boolean" else {}
                if fields[name]["type"] == "object" and fields[name].get("required"):
                    del fields[name]["default"]
        result: Document = {"type": "object", "properties": fields}
        if choice.maybe(0.2):
            result["required"] = [choice.one(list(fields))]
        if choice.maybe(0.1):
            result["x-kubernetes-map-type"] = "atomic"
        if choice.maybe(0.1):
            result["x-kubernetes-preserve-unknown-fields"] = True
        return result

    def array(self, depth: int) -> Document:
        """Return the schema of a list."""
        choice = self.choice
        limits = choice.part(0.2, maxItems=lambda: 3, minItems=lambda: 1)
        kind = choice.one(["plain", "atomic", "set", "map"])
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
            keys = choice.one([["name"], ["name", "port"]])
            return {
                "type": "array",
                "items": items,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": keys,
            } | limits
        result = {"type": "array", "items": self.schema(depth + 1)} | limits
        return result | ({"x-kubernetes-list-type": "atomic"} if kind == "atomic" else {})

    def value(self, schema: Document) -> Any:
        """Return a value that is mostly valid by a schema."""
        choice = self.choice
        if choice.maybe(0.03):
            return choice.one([None, "odd", 7, True, {"odd": 1}, ["odd"]])
        if schema.get("x-kubernetes-int-or-string"):
            return choice.one([1, "25%", "x"])
        match schema.get("type"):
            case "string":
                return choice.one(schema.get("enum", TEXTS))
            case "integer":
                return choice.number(0, 6)
            case "number":
                return choice.one([0.5, 1, 2.25])
            case "boolean":
                return choice.maybe()
            case "array":
                return self.items(schema)
        result = {
            name: self.value(below)
            for name, below in schema.get("properties", {}).items()
            if name in schema.get("required", ()) or choice.maybe(0.6)
        }
        if "additionalProperties" in schema:
            below = schema["additionalProperties"]
            result |= {name: self.value(below) for name in choice.some(NAMES, 3)}
        elif choice.maybe(0.1):
            result["unknown"] = choice.one([1, {"a": None}, [None]])
        return result

    def items(self, schema: Document) -> list[Any]:
        """Return a value for the schema of a list."""
        choice = self.choice
        below = schema["items"]
        if schema.get("x-kubernetes-list-type") == "set":
            return choice.some(["p", "q", "r"])
        if schema.get("x-kubernetes-list-type") == "map":
            return [
                {"name": name}
                | choice.part(
                    0.5,
                    port=lambda: choice.number(1, 2),
                    value=lambda: self.value(below["properties"]["value"]),
                )
                for name in choice.some(["p", "q", "r"])
            ]
        return [self.value(below) for _ in range(choice.number(0, 3))]


class CustomKind:
    """A random kind: its definition and the requests for its objects.

    Args:
        choice: the random choices for the schema.
        number: distinguishes the kinds of a run.
    """

    def __init__(self, choice: RandomChoice, number: int) -> None:
        self.resource = Resource(GROUP, "v1", f"kinds{number}", f"Kind{number}")
        self.schema: Document = {
            "type": "object",
            "properties": {
                "spec": Schemas(choice).fields(0),
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        }
        if number % 2:
            add_rules(choice, self.schema["properties"]["spec"])
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

    def document(self, choice: RandomChoice) -> Document:
        """Return an object without apiVersion, kind and name."""
        schemas = Schemas(choice)
        labels = {key: choice.one(["x", "y"]) for key in choice.some(["a", "b"])}
        metadata: Document = {"labels": labels} if choice.maybe(0.3) else {}
        return {"metadata": metadata, "spec": schemas.value(self.schema["properties"]["spec"])}

    def requests(self) -> NextRequest:
        """Return the chooser of requests for its objects."""
        node = from_crd(self.schema, GROUP, "v1", self.resource.kind).node

        def choose(choice: RandomChoice, live: Document | None) -> Any:
            request = next_request(choice, node, self.document(choice), live, VERBS)
            if request.verb == "delete" or not choice.maybe(0.3):
                return request
            validation = choice.one(["Strict", "Ignore", "Warn"])
            return request.with_query(fieldValidation=validation)

        return choose
