"""Random histories of applies and updates: same values, owners and conflicts as upstream."""

import json
import random
from typing import Any

import pytest

from traincrew.local.apiserver import schema
from traincrew.local.apiserver.apply import apply as ssa
from traincrew.local.apiserver.values.codec import clone

from .conftest import Oracle

TEXT = {"type": "string"}
INTEGER = {"type": "integer"}


def texts(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, TEXT)}


def keyed(keys: list[str], **properties: Any) -> dict[str, Any]:
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
        "items": {"type": "object", "required": keys[:1], "properties": properties},
    }


SET = {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}
SPEC = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "number": INTEGER,
        "struct": texts("x", "y") | {"properties": {"x": TEXT, "y": TEXT, "deep": texts("z")}},
        "atomic": texts("x", "y") | {"x-kubernetes-map-type": "atomic"},
        "map": {"type": "object", "additionalProperties": TEXT},
        "structs": {"type": "object", "additionalProperties": texts("p", "q")},
        "plain": {"type": "array", "items": TEXT},
        "set": SET,
        "list": keyed(["name"], name=TEXT, v=TEXT, w=TEXT, sub=SET),
        "ports": keyed(
            ["port", "protocol"], port=INTEGER, protocol=TEXT | {"default": "TCP"}, v=TEXT
        ),
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
ROOT = {"type": "object", "properties": {"spec": SPEC}}
KNOWN = schema.from_crd(ROOT, "t.io", "v1", "Thing", status_subresource=False)
PUBLISHED = {
    "t.io.v1.Thing": {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "t.io", "version": "v1", "kind": "Thing"}],
        "properties": {
            "apiVersion": TEXT,
            "kind": TEXT,
            "metadata": {"$ref": "#/components/schemas/meta"},
            "spec": SPEC,
        },
    },
    "meta": {
        "type": "object",
        "properties": {
            "name": TEXT,
            "uid": TEXT,
            "labels": {"type": "object", "additionalProperties": TEXT},
            "finalizers": SET,
            "managedFields": {"type": "array", "items": {"type": "object"}},
        },
    },
}


class RandomDocuments:
    """Random documents of the schema above."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def text(self) -> str:
        return self.random.choice("123")

    def some(self, most: int, values: Any) -> list[Any]:
        return self.random.sample(values, self.random.randint(0, most))

    def part(self, chance: float, **makers: Any) -> dict[str, Any]:
        return {name: make() for name, make in makers.items() if self.maybe(chance)}

    def anything(self, depth: int = 0) -> Any:
        roll = self.random.random()
        if roll < 0.3 or depth > 2:
            return self.random.choice(["s", 1, True, "t"])
        if roll < 0.8:
            return {key: self.anything(depth + 1) for key in self.some(2, "uvw")}
        return [self.anything(depth + 1) for _ in range(self.random.randint(0, 2))]

    def item(self, name: str) -> dict[str, Any]:
        more = self.part(0.5, v=self.text, w=self.text, sub=lambda: self.some(2, "xy"))
        return {"name": name} | more

    def port(self, port: int, protocol: str) -> dict[str, Any]:
        result: dict[str, Any] = {"port": port}
        if protocol != "TCP" or self.maybe():
            result["protocol"] = protocol
        return result | self.part(0.5, v=self.text)

    def struct(self) -> dict[str, Any]:
        return self.part(0.5, x=self.text, y=self.text, deep=lambda: self.part(0.5, z=self.text))

    def spec(self) -> dict[str, Any]:
        pairs = [(1, "TCP"), (1, "UDP"), (2, "TCP")]
        return self.part(
            0.4,
            text=self.text,
            number=lambda: self.random.randint(1, 3),
            struct=self.struct,
            atomic=lambda: self.part(0.5, x=self.text, y=self.text),
            map=lambda: {key: self.text() for key in self.some(3, "abc")},
            structs=lambda: {
                key: self.part(0.5, p=self.text, q=self.text) for key in self.some(2, "ab")
            },
            plain=lambda: [self.text() for _ in range(self.random.randint(0, 2))],
            set=lambda: self.some(3, "abcd"),
            list=lambda: [self.item(name) for name in self.some(3, "abcd")],
            ports=lambda: [self.port(*pair) for pair in self.some(2, pairs)],
            any=lambda: {key: self.anything() for key in self.some(2, "uvw")},
        )

    def thing(self) -> dict[str, Any]:
        metadata = {"name": "x"} | self.part(
            0.3,
            labels=lambda: {key: self.text() for key in self.some(2, "ab")},
            finalizers=lambda: self.some(2, ["f/a", "f/b"]),
        )
        body = {"apiVersion": "t.io/v1", "kind": "Thing", "metadata": metadata}
        return body | self.part(0.9, spec=self.spec)

    def edited(self, live: dict[str, Any]) -> dict[str, Any]:
        """Return an update that keeps most of the object."""
        if self.maybe(0.3) or "spec" not in live:
            managed = live["metadata"].get("managedFields")
            body = self.thing()
            body["metadata"] |= {"managedFields": managed} if managed else {}
            return body
        body = clone(live)
        for key, item in self.spec().items():
            if self.maybe(0.6):
                body["spec"][key] = item
        for key in list(body["spec"]):
            if self.maybe(0.15):
                del body["spec"][key]
        result: dict[str, Any] = body
        return result


def without_empty(value: Any) -> Any:
    """Remove empty containers: where pruning empties one, upstream leaves null, we leave {}."""
    if isinstance(value, dict):
        pairs = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in pairs.items() if item not in (None, {}, [])}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_null, value.values()))
    return any(map(has_null, value)) if isinstance(value, list) else value is None


def canonical(obj: dict[str, Any]) -> tuple[str, list[str], bool]:
    """Return content, owners, and whether there is a null; without times and order of entries."""
    obj = clone(obj)
    entries = obj["metadata"].pop("managedFields", [])
    for entry in entries:
        entry.pop("time", None)
    obj["metadata"].pop("uid", None)
    owners = sorted(json.dumps(entry, sort_keys=True) for entry in entries)
    return json.dumps(obj, sort_keys=True), owners, has_null(obj)


def ours(
    operation: str, live: dict[str, Any], body: dict[str, Any], manager: str, *, force: bool
) -> dict[str, Any] | ssa.ApplyConflictError:
    old = live if "uid" in live["metadata"] else None
    options: dict[str, Any] = {
        "manager": manager,
        "schema": KNOWN,
        "now": "2027-01-15T08:00:00Z",
        "api_version": "t.io/v1",
    }
    if operation == "update":
        return ssa.track_update(old, clone(body), **options)
    try:
        return ssa.apply(old, body, force=force, **options)
    except ssa.ApplyConflictError as error:
        return error


@pytest.mark.parametrize("seed", range(10))
def test_random_histories(oracle: Oracle, seed: int) -> None:
    documents = RandomDocuments(seed)
    compared = conflicts = 0
    for _ in range(100):
        live: dict[str, Any] = {
            "apiVersion": "t.io/v1",
            "kind": "Thing",
            "metadata": {"name": "x"},
        }
        for _ in range(8):
            operation = documents.random.choice(["apply", "apply", "update"])
            manager = documents.random.choice(["one", "two", "three"])
            force = documents.maybe()
            body = documents.thing() if operation == "apply" else documents.edited(live)
            if operation == "update" and "uid" in live["metadata"]:
                body["metadata"]["uid"] = live["metadata"]["uid"]
            answer = oracle(
                op=operation,
                kind="Thing",
                apiVersion="t.io/v1",
                doc=live,
                patch=body,
                manager=manager,
                force=force,
                schemas=PUBLISHED,
            )
            result = ours(operation, live, body, manager, force=force)
            context = json.dumps([operation, manager, force, live, body])
            if isinstance(result, ssa.ApplyConflictError):
                assert answer.get("error") == result.message, context
                causes = [f"{cause.message} {cause.field}" for cause in result.causes]
                assert sorted(answer["fields"]) == sorted(causes), context
                conflicts += 1
                continue
            assert "error" not in answer, (answer, context)
            expected, owners, null = canonical(answer["result"])
            content, own_owners, _ = canonical(result)
            assert own_owners == owners, context
            compared += 1
            if null:
                assert without_empty(json.loads(content)) == without_empty(json.loads(expected)), (
                    context
                )
                break
            assert content == expected, context
            live = answer["result"]
            live["metadata"]["uid"] = "u"
    assert compared > 300
    assert conflicts > 20
