"""A chart's ``values.yaml`` and ``values.schema.json``, from the type of its values."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

import msgspec

from traincrew.operator.manifests.yamltext import WIDTH, dump

if TYPE_CHECKING:
    from msgspec import Struct

    from traincrew.operator.manifests.template import Document


def schema_text(chart: str, kind: type[Struct]) -> str:
    """Return the JSON schema of a chart's values."""
    (reference,), definitions = msgspec.json.schema_components(
        [kind], ref_template="#/$defs/{name}"
    )
    top = definitions.pop(reference["$ref"].removeprefix("#/$defs/"))
    # Helm passes it to every subchart.
    top["properties"]["global"] = {"type": "object"}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **top,
        "title": f"Values of the chart {chart}",
        "definitions": definitions,
    }
    return json.dumps(schema, indent=2).replace("#/$defs/", "#/definitions/") + "\n"


def values_text(kind: type[Struct], values: Document, indent: int = 0) -> str:
    """Return the default values, each with its description as a comment above it."""
    pad = " " * indent
    found = []
    about_kind = msgspec.inspect.type_info(kind)
    assert isinstance(about_kind, msgspec.inspect.StructType)
    for field in about_kind.fields:
        about, inner = _described(field.type)
        value = values[field.encode_name]
        comment = "".join(f"{pad}# {line}\n" for line in textwrap.wrap(about, WIDTH - indent - 2))
        if isinstance(inner, msgspec.inspect.StructType):
            text = f"{pad}{field.encode_name}:\n" + values_text(inner.cls, value, indent + 2)
        else:
            text = textwrap.indent(dump({field.encode_name: value}), pad)
        found.append(comment + text)
    return ("\n" if indent == 0 else "").join(found)


def _described(kind: msgspec.inspect.Type) -> tuple[str, msgspec.inspect.Type]:
    if isinstance(kind, msgspec.inspect.Metadata):
        return str((kind.extra_json_schema or {}).get("description", "")), kind.type
    return "", kind
