"""Generates the reference page of a kind from its schema."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from traincrew.api.crd import Kind, schema

if TYPE_CHECKING:
    from collections.abc import Iterator

POD_TEMPLATE_PAGE = "https://kubernetes.io/docs/concepts/workloads/pods/#pod-templates"


class Field(NamedTuple):
    """One row of the table."""

    path: str
    type: str
    default: str
    limits: str
    description: str


def page(kind: Kind) -> str:
    """Return the reference page of a kind, in Markdown."""
    whole = schema(kind)
    spec, status = whole["properties"]["spec"], whole["properties"]["status"]
    names = ", ".join(f"`{name}`" for name in (kind.plural, *kind.short_names))
    columns = ", ".join(
        f"{column.name} (`{column.json_path}`{', with `-o wide`' if column.priority else ''})"
        for column in kind.columns
    )
    groups = "".join(
        f" The same kind is also served as `{group}/{kind.version}`, for manifests that have it."
        for group in kind.older_groups
    )
    refused = "\n".join(f"- {place}: {_plain(message)}" for place, message in _rules(whole, ""))
    return f"""\
# {kind.kind}

<!-- Generated from the types by hack/reference.py; change those, not this page. -->

{whole["description"]} `apiVersion: {kind.group}/{kind.version}`, namespaced; kubectl knows it as
{names}, and lists it with `kubectl get all`.{groups}

## Spec

An unknown field is refused when the job is created.

{_table(_fields(spec, "spec"))}

`template` is a [pod template]({POD_TEMPLATE_PAGE}) as in any
Job or Deployment. `apiVersion` and `kind` inside a template are accepted and ignored.

## Validation

In addition to the limits in the table, a job is refused at `kubectl create` with these messages:

{refused}

What only the operator can check makes the job `Failed` with reason `FailedValidation` and a message
that names the field and the fix.

## Status

{kind.status.words}

{_table(_fields(status, "status", skip=_JOB_STATUS), limits=False)}

[The states of a job](../design/status.md) explains phases, conditions, reasons and events.

`kubectl get` shows {columns}.
"""


_JOB_STATUS = frozenset({"active", "ready", "succeeded", "failed", "terminating", "conditions"})


def _fields(node: dict[str, Any], path: str, skip: frozenset[str] = frozenset()) -> Iterator[Field]:
    required = node.get("required", ())
    for name, child in node.get("properties", {}).items():
        if name in skip:
            continue
        yield from _field(child, f"{path}.{name}", name in required)


def _field(node: dict[str, Any], path: str, required: bool) -> Iterator[Field]:
    values = node.get("additionalProperties")
    template = path.endswith(".template")
    default = "required" if required else ""
    if "default" in node:
        default = f"`{json.dumps(node['default'])}`".replace('"', "")
    yield Field(
        path=path,
        type=_template_type(node) if template else _type(node),
        default=default,
        limits=_limits(node),
        description=node.get("description", ""),
    )
    if template:
        return
    if isinstance(values, dict):
        yield from _fields(values, f"{path}.<name>")
    if isinstance(node.get("items"), dict):
        yield from _fields(node["items"], f"{path}[]")
    yield from _fields(node, path)


def _template_type(node: dict[str, Any]) -> str:
    """Return what a template is of: pods, or Jobs whose ``spec`` has a template of pods."""
    spec = node.get("properties", {}).get("spec", {})
    return "Job template" if "template" in spec.get("properties", {}) else "pod template"


def _type(node: dict[str, Any]) -> str:
    values = node.get("additionalProperties")
    if isinstance(values, dict):
        return f"map of {values['type']}s" if "type" in values else "map of quantities"
    if node.get("format") == "date-time":
        return "time"
    if isinstance(node.get("items"), dict):
        return f"list of {node['items']['type']}s"
    kind: str = node.get("type", "any")
    return kind


def _limits(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    low, high = node.get("minimum"), node.get("maximum")
    if low is not None and high is not None and high < 2**31 - 1:
        return f"{low} to {high}"
    if low is not None:
        return f"at least {low}"
    if "maxItems" in node:
        return f"at most {node['maxItems']}"
    if "maxProperties" in node:
        return f"at most {node['maxProperties']}"
    return ""


def _table(fields: Iterator[Field], *, limits: bool = True) -> str:
    lines = ["| field | type | |", "|---|---|---|"]
    if limits:
        lines = ["| field | type | default | allowed | |", "|---|---|---|---|---|"]
    for field in fields:
        cells = [f"`{field.path}`", field.type]
        if limits:
            cells += [field.default, field.limits]
        lines.append(f"| {' | '.join([*cells, _plain(field.description)])} |")
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Escape text for a Markdown table."""
    return text.replace("|", "\\|").replace("<", "\\<")


def _rules(node: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    place = f"`{path}`" if path else "the object"
    for rule in node.get("x-kubernetes-validations", ()):
        yield place, rule["message"]
    for name, child in node.get("properties", {}).items():
        yield from _rules(child, f"{path}.{name}".removeprefix("."))
    if isinstance(node.get("items"), dict):
        yield from _rules(node["items"], f"{path}[]")
    if isinstance(node.get("additionalProperties"), dict):
        yield from _rules(node["additionalProperties"], f"{path}.<name>")
