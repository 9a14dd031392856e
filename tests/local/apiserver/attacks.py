"""Requests of at most 3 MiB that are expensive to serve, for `test_budget`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from local.apiserver.support import (
    APPLY,
    DEFINITIONS,
    JSON_PATCH,
    MAPS,
    MERGE,
    PODS,
    STRATEGIC,
    WIDGETS,
    config_map,
    definition,
    pod,
    widget,
)

LIMIT = 3 * 1024 * 1024


@dataclass
class Attack:
    """One request, and what has to be stored before.

    Attributes:
        body: the body, of at most 3 MiB.
        codes: the codes that it may be answered with.
        stored: paths and documents.
    """

    body: Callable[[], bytes]
    codes: tuple[int, ...]
    method: str = "POST"
    path: str = MAPS
    kind: str = "application/json"
    stored: tuple[tuple[str, Callable[[], Any]], ...] = ()


def encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _text(before: str, items: Callable[[int], str], after: str, count: int = 10**9) -> bytes:
    """Return a document with as many items as asked for and fit in."""
    parts, size = [before], len(before) + len(after)
    for index in range(count):
        item = ("," if index else "") + items(index)
        if size + len(item) > LIMIT:
            break
        parts.append(item)
        size += len(item)
    return "".join((*parts, after)).encode()


def _owners(count: int, item: str) -> Callable[[], bytes]:
    return _keys('{"metadata":{"name":"a","ownerReferences":[', item, "]}}", count)


def _keys(before: str, item: str, after: str, count: int = 10**9) -> Callable[[], bytes]:
    return lambda: _text(before, lambda index: item.replace("#", str(index)), after, count)


OWNER = '{"apiVersion":"v1","kind":"Pod","name":"p","uid":"#"}'
SAME = '{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1"}'
CONTROLLER = '{"apiVersion":"v1","kind":"Pod","name":"p","uid":"#","controller":true}'
NAMED = '{"metadata":{"name":"a"},'


def _laughs(levels: int, width: int) -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    return "\n".join(["metadata: {name: a}", *lines]).encode()


def _long_alias() -> bytes:
    text = "x" * 100_000
    aliases = ", ".join(["*a"] * 5_000)
    return f"metadata: {{name: a}}\nb: &a {text}\nc: [{aliases}]".encode()


def _merged_keys() -> bytes:
    keys = ", ".join(f"k{index}: 1" for index in range(1_000))
    merged = "\n".join(f"m{index}: {{<<: *a}}" for index in range(1_000))
    return f"metadata: {{name: a}}\nb: &a {{{keys}}}\n{merged}".encode()


def _doubling() -> bytes:
    operations = [{"op": "add", "path": "/data/a", "value": "x" * 1_000}]
    operations += [
        {"op": "copy", "from": "/data", "path": f"/data/b{index}"} for index in range(30)
    ]
    return encoded(operations)


def _copies() -> bytes:
    operations = [{"op": "add", "path": "/data/a", "value": "x" * 1_000_000}]
    operations += [
        {"op": "copy", "from": "/data/a", "path": f"/data/b{index}"} for index in range(9_000)
    ]
    return encoded(operations)


def _shifts() -> bytes:
    """Return insertions at the start of a long list."""
    values = list(range(60_000))
    operations: list[Any] = [{"op": "add", "path": "/spec/list", "value": values}]
    operations += [{"op": "add", "path": "/spec/list/0", "value": 0}] * 9_900
    return encoded(operations)


def _finalizers(count: int) -> list[str]:
    return [f"a.b/{index}" for index in range(count)]


def _deleted_values() -> bytes:
    gone = [f"c.d/{index}" for index in range(80_000)]
    return encoded({"metadata": {"$deleteFromPrimitiveList/finalizers": gone}})


def _variables(count: int) -> list[dict[str, str]]:
    return [{"name": f"V{index}", "value": "1"} for index in range(count)]


def _deleted_items() -> bytes:
    gone = [{"name": f"W{index}", "$patch": "delete"} for index in range(30_000)]
    return encoded({"spec": {"containers": [{"name": "main", "env": gone}]}})


def _retained() -> bytes:
    data = {f"k{index}": "v" for index in range(40_000)}
    return encoded({"data": data | {"$retainKeys": list(data)}})


def _nested(depth: int, before: str = '{"metadata":{"name":"a"},"x":', after: str = "}") -> bytes:
    return f"{before}{'[' * depth}{']' * depth}{after}".encode()


def _nested_objects(depth: int, before: str, after: str) -> bytes:
    opened = '{"x":' * depth
    return f"{before}{opened}1{'}' * depth}{after}".encode()


def _nested_schema(depth: int) -> bytes:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"x": schema}}
    document = definition("gadgets")
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    return encoded(document)


def open_definition() -> dict[str, Any]:
    """Return a definition whose objects may have any fields."""
    document = definition()
    version = document["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    del version["subresources"], version["additionalPrinterColumns"]
    return document


WIDGET = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":'
STORED_MAP = ((MAPS, lambda: config_map("a")),)
DEFINED = ((DEFINITIONS, open_definition),)
ATTACKS = {
    "owners": Attack(_owners(20_000, OWNER), (201, 413)),
    "19,900 owners": Attack(_owners(19_900, OWNER), (201,)),
    "repeated owners": Attack(_owners(19_900, SAME), (201,)),
    "16,000 controllers": Attack(_owners(16_000, CONTROLLER), (422,)),
    "20,000 controllers": Attack(_owners(20_000, CONTROLLER), (422, 413)),
    "duplicate keys": Attack(_keys(NAMED, '"x":0', "}"), (201, 413)),
    "pairs of keys": Attack(_keys(NAMED, '"#":0,"#":1', "}"), (413,)),
    "50,000 duplicate keys": Attack(_keys(NAMED, '"x":0', "}", 50_000), (201,)),
    "50,000 labels twice": Attack(
        lambda: _text(
            '{"metadata":{"name":"a","annotations":{',
            lambda index: f'"k{index // 2}":"v"',
            "}}}",
            50_000,
        ),
        (201, 413),
    ),
    "unknown keys": Attack(_keys(NAMED, '"#":0', "}"), (201, 413)),
    "50,000 unknown keys": Attack(_keys(NAMED, '"#":0', "}", 50_000), (201,)),
    "50,000 unknown keys, strict": Attack(
        _keys(NAMED, '"#":0', "}", 50_000), (400,), path=f"{MAPS}?fieldValidation=Strict"
    ),
    "both, strict": Attack(
        _keys(NAMED, '"#":0,"x":1', "}", 25_000), (400,), path=f"{MAPS}?fieldValidation=Strict"
    ),
    "unknown keys of a custom resource": Attack(
        _keys(WIDGET + '{"size":1,', '"#":0', "}}", 50_000),
        (201,),
        path=WIDGETS,
        stored=((DEFINITIONS, definition),),
    ),
    "unknown keys, applied": Attack(
        _keys('{"apiVersion":"v1","kind":"ConfigMap",' + NAMED[1:], '"#":0', "}"),
        (201, 400, 413, 500),
        "PATCH",
        f"{MAPS}/a?fieldManager=me",
        APPLY,
    ),
    "empty objects": Attack(_keys(NAMED + '"x":[', "{}", "]}"), (413,)),
    "laughs": Attack(lambda: _laughs(9, 9), (400,), kind="application/yaml"),
    "laughs, applied": Attack(
        lambda: _laughs(9, 9), (400,), "PATCH", f"{MAPS}/a?fieldManager=me", APPLY
    ),
    "aliases of a long text": Attack(_long_alias, (400, 413), kind="application/yaml"),
    "merge keys": Attack(_merged_keys, (400,), kind="application/yaml"),
    "doubling copies": Attack(
        _doubling, (422,), "PATCH", f"{MAPS}/a", JSON_PATCH, stored=STORED_MAP
    ),
    "copies": Attack(_copies, (422,), "PATCH", f"{MAPS}/a", JSON_PATCH, stored=STORED_MAP),
    "insertions at the start": Attack(
        _shifts,
        (422,),
        "PATCH",
        f"{WIDGETS}/a",
        JSON_PATCH,
        stored=(*DEFINED, (WIDGETS, lambda: widget("a"))),
    ),
    "deleted values": Attack(
        _deleted_values,
        (200,),
        "PATCH",
        f"{MAPS}/a",
        STRATEGIC,
        stored=((MAPS, lambda: config_map("a", finalizers=_finalizers(5_000))),),
    ),
    "deleted items": Attack(
        _deleted_items,
        (200,),
        "PATCH",
        f"{PODS}/a",
        STRATEGIC,
        stored=(
            (
                PODS,
                lambda: pod(
                    "a", containers=[{"name": "main", "image": "x", "env": _variables(3_000)}]
                ),
            ),
        ),
    ),
    "retained keys": Attack(
        _retained, (200, 413, 400, 422), "PATCH", f"{MAPS}/a", STRATEGIC, stored=STORED_MAP
    ),
    "nesting": Attack(lambda: _nested(1_000_000), (413,)),
    "50,000 deep": Attack(lambda: _nested(50_000), (400,)),
    "900 deep": Attack(lambda: _nested(900), (400,)),
    "900 deep twice": Attack(
        lambda: _nested_objects(900, '{"metadata":{"name":"a"},"y":1,"y":', "}"), (400,)
    ),
    "900 deep, custom": Attack(
        lambda: _nested_objects(900, WIDGET, "}"), (400,), path=WIDGETS, stored=DEFINED
    ),
    "900 deep, merge patch": Attack(
        lambda: _nested_objects(900, '{"spec":', "}"),
        (400,),
        "PATCH",
        f"{WIDGETS}/a",
        MERGE,
        stored=(*DEFINED, (WIDGETS, lambda: widget("a"))),
    ),
    "900 deep, applied": Attack(
        lambda: _nested_objects(900, WIDGET, "}"),
        (400,),
        "PATCH",
        f"{WIDGETS}/a?fieldManager=me",
        APPLY,
        stored=DEFINED,
    ),
    "nested YAML": Attack(lambda: _nested(5_000), (400,), kind="application/yaml"),
    "definition": Attack(lambda: _nested_schema(300), (400,), path=DEFINITIONS),
    "invalid labels": Attack(
        _keys('{"metadata":{"name":"a","labels":{', '"-#":"-"', "}}}"), (422, 413)
    ),
    "40,000 invalid labels": Attack(
        _keys('{"metadata":{"name":"a","labels":{', '"-#":"-"', "}}}", 40_000), (422,)
    ),
    "invalid ports": Attack(
        _keys(
            '{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a","ports":[',
            '{"containerPort":0}',
            "]}]}}",
        ),
        (422, 413),
        path=PODS,
    ),
    "90,000 labels": Attack(
        _keys('{"metadata":{"name":"a","labels":{', '"k#":"v"', "}}}", 90_000), (201,)
    ),
    "a label of a large object": Attack(
        lambda: encoded({"metadata": {"labels": {"a": "b"}}}),
        (200,),
        "PATCH",
        f"{MAPS}/a",
        MERGE,
        stored=((MAPS, lambda: json.loads(_owners(19_900, OWNER)())),),
    ),
    "values of a wrong type": Attack(_keys(NAMED + '"data":{', '"#":0', "}}", 50_000), (400, 413)),
}
