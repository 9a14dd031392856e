"""Reads from Kubernetes' Go types what no schema has: omitempty, inlining, protobuf numbers.

Downloads the API modules with ``go mod download`` and reads their ``types.go`` and
``generated.proto`` files. Used by the two generate scripts next to it.
"""

import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

VERSION = "v0.36.3"
MODULES = (
    "k8s.io/api",
    "k8s.io/apimachinery",
    "k8s.io/apiextensions-apiserver",
    "k8s.io/kube-aggregator",
)
# OpenAPI package prefix -> module and directory.
PREFIXES = {
    "io.k8s.api.": ("k8s.io/api", ""),
    "io.k8s.apimachinery.": ("k8s.io/apimachinery", ""),
    "io.k8s.apiextensions-apiserver.": ("k8s.io/apiextensions-apiserver", ""),
    "io.k8s.kube-aggregator.": ("k8s.io/kube-aggregator", ""),
}


@dataclass(frozen=True)
class Field:
    """One field of a Go struct.

    Attributes:
        type: Go type, such as ``*metav1.Time``.
        json: name in JSON; empty when the struct is inlined.
        omit_empty: whether an empty value is left out.
        omit_zero: whether an empty struct is left out.
        number: protobuf field number, 0 when it has none.
        proto: name in the protobuf message.
    """

    type: str
    json: str
    omit_empty: bool
    omit_zero: bool
    number: int
    proto: str


def download(wanted: dict[str, str]) -> dict[str, Path]:
    """Download modules and return the directory of each.

    Args:
        wanted: version of each module.
    """
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "go.mod").write_text("module generate\n\ngo 1.24\n")
        output = subprocess.run(
            ["go", "mod", "download", "-json", *(f"{name}@{wanted[name]}" for name in wanted)],
            cwd=directory,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    decoder, found, position = json.JSONDecoder(), {}, 0
    while position < len(output.rstrip()):
        document, position = decoder.raw_decode(output, position)
        found[document["Path"]] = Path(document["Dir"])
        position += 1
    return found


def package_directory(modules: dict[str, Path], package: str) -> Path:
    """Return the directory of the Go package of an OpenAPI package name."""
    for prefix, (module, _) in PREFIXES.items():
        if package.startswith(prefix):
            return modules[module] / package.removeprefix(prefix).replace(".", "/")
    raise KeyError(package)


_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([][*.\w]+)\s+`([^`]*)`", re.MULTILINE)
_NAMED = re.compile(r"^type (\w+) (string|bool|u?int\d*|float\d+|\[\]\w+|map\[.*)$", re.MULTILINE)


def read_structs(directory: Path) -> tuple[dict[str, list[Field]], dict[str, str]]:
    """Return the structs of a package, and its named types that are not structs."""
    text = "\n".join(path.read_text() for path in sorted(directory.glob("*types*.go")))
    extra = directory / "fields_proto.go"
    if extra.exists():
        text += extra.read_text()
    structs = {}
    for struct, body in _STRUCT.findall(text):
        fields = []
        for name, go_type, tags in _FIELD.findall(body):
            found = re.search(r'json:"([^"]*)"', tags)
            if found is None:
                continue
            json_name, *options = found[1].split(",")
            proto = re.search(r'protobuf:"([^"]*)"', tags)
            parts = proto[1].split(",") if proto else []
            number = int(parts[1]) if len(parts) > 1 else 0
            named = next((part[5:] for part in parts if part.startswith("name=")), "")
            inline = "inline" in options
            fields.append(
                Field(
                    go_type,
                    "" if inline else json_name,
                    "omitempty" in options,
                    "omitzero" in options,
                    number,
                    named or json_name or name[:1].lower() + name[1:],
                )
            )
        structs[struct] = fields
    return structs, dict(_NAMED.findall(text))


_SCALARS = re.compile(r"string|bool|byte|u?int\d*|float\d+")
_FOREIGN_STRUCTS = re.compile(r"(metav1|corev1|resource|intstr|runtime|v1|apiextensions)\.")


_ALIASES = {"metav1": "v1", "corev1": "v1", "apiextensions": "v1"}


def type_name(go_type: str, package: str) -> str:
    """Return a type as Go prints it outside of its package; for a pointer, the type it points to.

    Args:
        go_type: as in the source, such as ``[]Protocol``.
        package: last part of the path of the package it is in, such as ``v1``.
    """
    go_type = go_type.removeprefix("*")
    if go_type.startswith("[]"):
        return f"[]{_element_name(go_type[2:], package)}"
    if go_type.startswith("map["):
        key, _, value = go_type[4:].partition("]")
        return f"map[{type_name(key, package)}]{_element_name(value, package)}"
    if _SCALARS.fullmatch(go_type):
        return "uint8" if go_type == "byte" else go_type
    prefix, dot, name = go_type.rpartition(".")
    return f"{_ALIASES.get(prefix, prefix) if dot else package}.{name}"


def _element_name(go_type: str, package: str) -> str:
    pointer = "*" if go_type.startswith("*") else ""
    return pointer + type_name(go_type, package)


def is_struct(field: Field, structs: dict[str, list[Field]]) -> bool:
    """Return whether the field is a struct by value, which ``omitempty`` does not omit."""
    return field.type in structs or bool(_FOREIGN_STRUCTS.match(field.type))


def is_always_written(field: Field, structs: dict[str, list[Field]]) -> bool:
    """Return whether Go writes the field even if it is not set."""
    return not field.omit_zero and (not field.omit_empty or is_struct(field, structs))


def is_dropped_when_empty(field: Field, structs: dict[str, list[Field]]) -> bool:
    """Return whether Go omits the field when it has the zero value of its type."""
    if not field.omit_empty or field.type.startswith("*"):
        return False
    if field.type.startswith(("[]", "map[")) or _SCALARS.fullmatch(field.type):
        return True
    return not is_struct(field, structs)
