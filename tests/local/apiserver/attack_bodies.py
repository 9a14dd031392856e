"""Bodies of requests that are expensive to serve: generators for `attacks`."""

import json
from collections.abc import Callable
from typing import Any

from local.apiserver.support import definition, pod

LIMIT = 3 * 1024 * 1024


def encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def text_of(before: str, items: Callable[[int], str], after: str, count: int = 10**9) -> bytes:
    """Return a document with as many items as asked for and fit in."""
    parts, size = [before], len(before) + len(after)
    for index in range(count):
        item = ("," if index else "") + items(index)
        if size + len(item) > LIMIT:
            break
        parts.append(item)
        size += len(item)
    return "".join((*parts, after)).encode()


def owners(count: int, item: str) -> Callable[[], bytes]:
    return keys('{"metadata":{"name":"a","ownerReferences":[', item, "]}}", count)


def keys(before: str, item: str, after: str, count: int = 10**9) -> Callable[[], bytes]:
    return lambda: text_of(before, lambda index: item.replace("#", str(index)), after, count)


OWNER = '{"apiVersion":"v1","kind":"Pod","name":"p","uid":"#"}'
SAME = '{"apiVersion":"v1","kind":"Pod","name":"p","uid":"1"}'
CONTROLLER = '{"apiVersion":"v1","kind":"Pod","name":"p","uid":"#","controller":true}'
NAMED = '{"metadata":{"name":"a"},'


def laughs(levels: int, width: int) -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} [{aliases}]")
    return "\n".join(["metadata: {name: a}", *lines]).encode()


def long_alias() -> bytes:
    text = "x" * 100_000
    aliases = ", ".join(["*a"] * 5_000)
    return f"metadata: {{name: a}}\nb: &a {text}\nc: [{aliases}]".encode()


def merged_keys() -> bytes:
    keys = ", ".join(f"k{index}: 1" for index in range(1_000))
    merged = "\n".join(f"m{index}: {{<<: *a}}" for index in range(1_000))
    return f"metadata: {{name: a}}\nb: &a {{{keys}}}\n{merged}".encode()


def doubling() -> bytes:
    operations = [{"op": "add", "path": "/data/a", "value": "x" * 1_000}]
    operations += [
        {"op": "copy", "from": "/data", "path": f"/data/b{index}"} for index in range(30)
    ]
    return encoded(operations)


def copies() -> bytes:
    operations = [{"op": "add", "path": "/data/a", "value": "x" * 1_000_000}]
    operations += [
        {"op": "copy", "from": "/data/a", "path": f"/data/b{index}"} for index in range(9_000)
    ]
    return encoded(operations)


def shifts() -> bytes:
    """Return insertions at the start of a long list."""
    values = list(range(30_000))
    operations: list[Any] = [{"op": "add", "path": "/spec/list", "value": values}]
    operations += [{"op": "add", "path": "/spec/list/0", "value": 0}] * 4_900
    return encoded(operations)


def finalizers(count: int) -> list[str]:
    return [f"a.b/{index}" for index in range(count)]


def deleted_values() -> bytes:
    gone = [f"c.d/{index}" for index in range(40_000)]
    return encoded({"metadata": {"$deleteFromPrimitiveList/finalizers": gone}})


def variables(count: int) -> list[dict[str, str]]:
    return [{"name": f"V{index}", "value": "1"} for index in range(count)]


def deleted_items() -> bytes:
    gone = [{"name": f"W{index}", "$patch": "delete"} for index in range(15_000)]
    return encoded({"spec": {"containers": [{"name": "main", "env": gone}]}})


def retained() -> bytes:
    data = {f"k{index}": "v" for index in range(20_000)}
    return encoded({"data": data | {"$retainKeys": list(data)}})


def nested(depth: int, before: str = '{"metadata":{"name":"a"},"x":', after: str = "}") -> bytes:
    return f"{before}{'[' * depth}{']' * depth}{after}".encode()


def nested_objects(depth: int, before: str, after: str) -> bytes:
    opened = '{"x":' * depth
    return f"{before}{opened}1{'}' * depth}{after}".encode()


def nested_schema(depth: int) -> bytes:
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


def long_list(field: str, items: Callable[[int], list[Any]], count: int) -> bytes:
    return encoded(pod("a", **{field: items(count)}))


def volume_items(count: int, path: str = "") -> list[Any]:
    items = [{"key": "a", "path": path or f"b{index}"} for index in range(count)]
    return [{"name": "v", "configMap": {"name": "c", "items": items}}]


def projected_items(count: int) -> list[Any]:
    sources = [
        {"configMap": {"name": "c", "items": [{"key": "a", "path": f"b/{index}"}]}}
        for index in range(count)
    ]
    sources.append({"configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}})
    return [{"name": "v", "projected": {"sources": sources}}]


def constraints(count: int) -> list[Any]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": f"a{index}",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
        }
        for index in range(count)
    ]


def ports(count: int, number: str, address: str = "") -> bytes:
    ports = []
    for index in range(count):
        port: dict[str, Any] = {"containerPort": 1}
        port["hostPort"] = int(number.replace("#", str(index + 1)))
        if address:
            high, low = divmod(index, 250)
            port["hostIP"] = address.replace("#", str(high), 1).replace("#", str(low))
        ports.append(port)
    return encoded(pod("a", containers=[{"name": "main", "image": "x", "ports": ports}]))


def field_of(number: int, content: bytes) -> bytes:
    """Return a field of a protobuf message."""
    size, length = len(content), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def protobuf(message: bytes) -> bytes:
    kind = field_of(1, field_of(1, b"v1") + field_of(2, b"Pod"))
    return b"k8s\0" + kind + field_of(2, message)


def wide_definition(count: int) -> bytes:
    document = definition("gadgets")
    properties = {f"p{index}": {"type": "string"} for index in range(count)}
    document["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": properties,
    }
    return encoded(document)


def listing(kind: str) -> dict[str, Any]:
    """Return a definition whose objects have a list that is merged by key."""
    items: dict[str, Any] = {"type": "integer"}
    listed: dict[str, Any] = {"type": "array", "x-kubernetes-list-type": kind}
    if kind == "map":
        items = {"type": "object", "required": ["k"], "properties": {"k": items}}
        listed["x-kubernetes-list-map-keys"] = ["k"]
    document = definition()
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["list"] = listed | {"items": items}
    return document
