"""Write the table that decodes protobuf request bodies.

    python -m hack.generate_protobuf

Needs Go. Reads ``generated.proto`` and the Go types of the API modules (see ``gotypes.py``) and
writes ``src/traincrew/local/apiserver/schema/data/protobuf.json.xz``: for every message, by the
name its schema has in OpenAPI, its fields by number as ``[JSON name, type, flags]``:

- type: ``s`` string, ``b`` bool, ``i`` integer, ``d`` double, ``y`` bytes, otherwise a message;
- flags: ``r`` repeated, ``m`` map from strings, ``o`` left out when empty, ``n`` inlined.
"""

import re
from pathlib import Path

from hack import generate_openapi, gotypes

TARGET = generate_openapi.SERVER_DATA / "protobuf.json.xz"

_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_PROTO_FIELD = re.compile(
    r"^  (optional|repeated)? ?(map<string, ?([.\w]+)>|[.\w]+) (\w+) = (\d+);", re.MULTILINE
)
_TYPES = {
    "string": "s",
    "bool": "b",
    "bytes": "y",
    "double": "d",
    "float": "d",
    "int32": "i",
    "int64": "i",
    "uint32": "i",
    "uint64": "i",
}


def open_api_name(name: str, package: str) -> str:
    """Return the OpenAPI name of a message such as ``k8s.io.api.core.v1.Pod``."""
    full = name.lstrip(".") if "." in name else f"{package}.{name}"
    if not full.startswith("k8s.io."):
        return full
    full = full.replace("k8s.io.", "io.k8s.", 1)
    for module in ("apiextensions-apiserver", "kube-aggregator"):
        full = full.replace(module.replace("-", "_"), module)
    return full


def read_messages(path: Path) -> tuple[str, dict[str, list[tuple[int, str, str, str]]]]:
    """Read package and messages of a generated.proto: number, name, type, ``r``, ``m`` or empty."""
    text = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
    declared = re.search(r"^package ([\w.]+);", text, re.MULTILINE)
    if declared is None:
        raise SystemExit(f"{path} declares no package")
    package = declared[1]
    messages = {}
    for message, body in _MESSAGE.findall(text):
        fields = []
        for label, whole, value, name, number in _PROTO_FIELD.findall(body):
            kind = value or whole
            kind = _TYPES.get(kind) or open_api_name(kind, package)
            flag = "m" if value else "r" if label == "repeated" else ""
            fields.append((int(number), name, kind, flag))
        messages[open_api_name(message, package)] = fields
    return package, messages


def main() -> None:
    """Write the table."""
    modules = gotypes.download(dict.fromkeys(gotypes.MODULES, gotypes.VERSION))
    messages: dict[str, list[tuple[int, str, str, str]]] = {}
    structs: dict[str, tuple[list[gotypes.Field], dict[str, list[gotypes.Field]]]] = {}
    for directory in modules.values():
        for path in sorted(directory.rglob("generated.proto")):
            package, found = read_messages(path)
            messages |= found
            prefix = open_api_name("", package).rstrip(".")
            read, _ = gotypes.read_structs(path.parent)
            structs |= {f"{prefix}.{name}": (fields, read) for name, fields in read.items()}
    pending = generate_openapi.root_names()
    table = {}
    while pending:
        name = pending.pop()
        if name in table or name not in messages:
            continue
        known, siblings = structs.get(name, ([], {}))
        by_number = {field.number: field for field in known}
        rows = {}
        for number, proto_name, kind, flag in messages[name]:
            field = by_number.get(number)
            flags = flag
            if field is not None and not field.json:
                flags += "n"
            elif field is not None and gotypes.is_dropped_when_empty(field, siblings):
                flags += "o"
            rows[number] = [field.json if field is not None else proto_name, kind, flags]
            if len(kind) > 1:
                pending.append(kind)
        table[name] = rows
    generate_openapi.write_xz(TARGET, table)


if __name__ == "__main__":
    main()
