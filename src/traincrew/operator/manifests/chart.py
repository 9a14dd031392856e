"""The Helm chart: the same templates in Helm's language."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from traincrew.api.crd import KINDS, definition
from traincrew.operator.manifests import rbac, workload
from traincrew.operator.manifests.checks import CHECKS
from traincrew.operator.manifests.template import (
    Document,
    Either,
    Image,
    Merged,
    Namespace,
    Text,
    Value,
    When,
    look_up,
)
from traincrew.operator.manifests.values import DEFAULTS, Values, plain
from traincrew.operator.manifests.yamltext import WIDTH, dump, dump_all, is_flow
from traincrew.operator.options import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "traincrew"
_KEEP = {"helm.sh/resource-policy": "keep"}


def files() -> dict[str, str]:
    """The chart's files by path."""
    templates: dict[str, list[Any]] = {
        "deployment": [workload.deployment()],
        "disruption-budget": [workload.disruption_budget()],
        "metrics": [workload.service(), workload.service_monitor()],
        "operator-role": [*rbac.operator_role(), *rbac.operator_binding()],
        "leader-election-role": [rbac.lease_role(), rbac.lease_binding()],
        "service-account": [rbac.service_account()],
        "user-roles": [*rbac.user_roles().values()],
    }
    return {
        "Chart.yaml": dump(_chart()),
        "values.yaml": _values_text(Values, plain(DEFAULTS)),
        "values.schema.json": json.dumps(values_schema(), indent=2) + "\n",
        "templates/NOTES.txt": _NOTES,
        "templates/_helpers.tpl": _HELPERS,
        "templates/checks.yaml": _checks(),
        "templates/crd.yaml": _definitions(),
        **{f"templates/{name}.yaml": _template(nodes) for name, nodes in templates.items()},
    }


def _chart() -> Document:
    return {
        "apiVersion": "v2",
        "name": NAME,
        "description": "Operator for distributed training jobs (ChainerJob).",
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["training", "mpi", "chainer", "operator"],
    }


# -- values -----------------------------------------------------------------------------------


def values_schema() -> Document:
    """The JSON schema of the values."""
    (reference,), definitions = msgspec.json.schema_components(
        [Values], ref_template="#/$defs/{name}"
    )
    top = definitions.pop(reference["$ref"].removeprefix("#/$defs/"))
    # What Helm hands to every chart that is part of another one.
    top["properties"]["global"] = {"type": "object"}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **top,
        "title": f"Values of the chart {NAME}",
        "definitions": definitions,
    }
    text = json.dumps(schema).replace("#/$defs/", "#/definitions/")
    document: Document = json.loads(text)
    return document


def _values_text(kind: type[Struct], values: Document, indent: int = 0) -> str:
    """The default values, with what they mean above each."""
    pad = " " * indent
    found = []
    about_kind = msgspec.inspect.type_info(kind)
    assert isinstance(about_kind, msgspec.inspect.StructType)
    for field in about_kind.fields:
        about, inner = _described(field.type)
        value = values[field.encode_name]
        comment = "".join(f"{pad}# {line}\n" for line in textwrap.wrap(about, WIDTH - indent - 2))
        if isinstance(inner, msgspec.inspect.StructType):
            text = f"{pad}{field.encode_name}:\n" + _values_text(inner.cls, value, indent + 2)
        else:
            text = textwrap.indent(dump({field.encode_name: value}), pad)
        found.append(comment + text)
    return ("\n" if indent == 0 else "").join(found)


def _described(kind: msgspec.inspect.Type) -> tuple[str, msgspec.inspect.Type]:
    if isinstance(kind, msgspec.inspect.Metadata):
        return str((kind.extra_json_schema or {}).get("description", "")), kind.type
    return "", kind


# -- templates --------------------------------------------------------------------------------


def _definitions() -> str:
    documents = [definition(kind) for kind in KINDS]
    for document in documents:
        document["metadata"]["annotations"] = _KEEP
    text = dump_all(documents)
    assert "{{" not in text, "Helm would take a part of the definition for its own"
    return f"{{{{- if .Values.crds.enabled }}}}\n{text}{{{{- end }}}}\n"


def _checks() -> str:
    """Renders to nothing, or fails with a sentence."""
    return "".join(
        f"{{{{- if {check.condition} }}}}\n{{{{- fail {json.dumps(check.message)} }}}}\n"
        "{{- end }}\n"
        for check in CHECKS
    )


def _template(nodes: list[Any]) -> str:
    text = []
    for node in nodes:
        document, condition = (
            (node.node, _condition(node)) if isinstance(node, When) else (node, "")
        )
        body = "\n".join(["---", *_lines(document, 0)])
        text.append(f"{{{{- if {condition} }}}}\n{body}\n{{{{- end }}}}" if condition else body)
    return "\n".join(text) + "\n"


def _condition(node: When) -> str:
    return f"not .Values.{node.path}" if node.negated else f".Values.{node.path}"


def _lines(node: Any, indent: int) -> Iterator[str]:
    """A mapping or list as lines of YAML in block style."""
    pad = " " * indent
    if isinstance(node, list):
        for item in node:
            yield from _conditional(item, lambda inner: _item(inner, indent))
        return
    if isinstance(node, Merged):
        yield from _lines(node.own, indent)
        yield f"{pad}{{{{- with .Values.{node.path} }}}}"
        yield f"{pad}{{{{- toYaml . | nindent {indent} }}}}"
        yield f"{pad}{{{{- end }}}}"
        return
    for key, value in node.items():
        if is_flow(key, node):
            yield f"{pad}{key}: {json.dumps(value)}"
            continue
        yield from _conditional(value, lambda inner, key=key: _entry(key, inner, indent))


def _conditional(node: Any, lines: Any) -> Iterator[str]:
    if not isinstance(node, When):
        yield from lines(node)
        return
    yield f"{{{{- if {_condition(node)} }}}}"
    yield from lines(node.node)
    yield "{{- end }}"


def _entry(key: str, value: Any, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(value, Value) and _is_tree(value):
        yield f"{pad}{key}:"
        yield f"{pad}  {{{{- toYaml .Values.{value.path} | nindent {indent + 2} }}}}"
    elif isinstance(value, dict | list | Merged) and value:
        yield f"{pad}{key}:"
        yield from _lines(value, indent + 2)
    else:
        yield f"{pad}{key}: {_scalar(value)}"


def _item(item: Any, indent: int) -> Iterator[str]:
    pad = " " * indent
    if isinstance(item, dict | list) and item:
        first, *rest = _lines(item, indent + 2)
        yield f"{pad}- {first.lstrip()}"
        yield from rest
    else:
        yield f"{pad}- {_scalar(item)}"


def _is_tree(value: Value) -> bool:
    return isinstance(look_up(plain(DEFAULTS), value.path), dict | list)


def _scalar(node: Any) -> str:
    match node:
        case Value(path):
            default = look_up(plain(DEFAULTS), path)
            return f"{{{{ .Values.{path}{' | quote' if isinstance(default, str) else ''} }}}}"
        case Namespace() | Either() | Image() | Text():
            return f'"{_inline(node)}"'
    return dump(node).removesuffix("...\n").strip()


def _inline(node: Any) -> str:
    """Inside of a quoted string."""
    match node:
        case Value(path):
            return f"{{{{ .Values.{path} }}}}"
        case Namespace():
            return "{{ .Release.Namespace }}"
        case Either(value, Namespace()):
            return f"{{{{ .Values.{value.path} | default .Release.Namespace }}}}"
        case Image(path):
            return f"{{{{ include `{NAME}.image` (list .Values.{path} .Chart) }}}}"
        case Text(parts):
            return "".join(_inline(part) for part in parts)
    return str(node)


_HELPERS = """\
{{- /* The reference to an image: its repository with a digest, a tag, or the chart's version. */}}
{{- define "traincrew.image" -}}
{{- $image := index . 0 -}}
{{- $chart := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default $chart.AppVersion }}
{{- end -}}
{{- end }}
"""

_NOTES = """\
{{ .Values.name }} {{ .Chart.AppVersion }} is installed in namespace {{ .Release.Namespace }}.
{{- if .Values.watchNamespace }}
It serves the ChainerJobs and ElasticJobs of namespace {{ .Values.watchNamespace }}.
{{- else }}
It serves the ChainerJobs and ElasticJobs of all namespaces.
{{- end }}

Wait until it is ready:

  kubectl --namespace {{ .Release.Namespace }} rollout status deployment/{{ .Values.name }}

Then create a job, and watch it:

  kubectl create -f my-job.yaml
  kubectl get chainerjobs,elasticjobs
{{- if not .Values.crds.enabled }}

The CustomResourceDefinitions are not part of this release (crds.enabled is false).
Have them installed by somebody who may: traincrew manifests --crds-only | kubectl apply -f -
{{- else }}

Uninstalling this release keeps the CustomResourceDefinitions, and with them all jobs.
To delete both:

  kubectl delete crd chainerjobs.kubeflow.org elasticjobs.elastic.pytorch.org
{{- end }}
"""
