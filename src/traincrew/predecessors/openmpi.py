"""The chart of kube-openmpi, with its values: it renders one MPICluster.

Its templates are generated from what `traincrew mpi` makes of values, and from the same checks:
`traincrew.api.kinds.mpicluster.convert` and `traincrew.api.kinds.mpicluster.valuesrules`. By hand
are the helpers below, and what Helm says after an installation.

Helm prints a value that does not match a pattern of the schema, and a value may be a private key or
a token: so patterns are in the template, whose errors have the key and a text of ours only.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from traincrew.api import placeholders
from traincrew.api.kinds.mpicluster import convert, valuesrules
from traincrew.api.kinds.mpicluster.types import KIND
from traincrew.api.kinds.mpicluster.values import ChartValues, defaults
from traincrew.api.kinds.mpicluster.valuescheck import NAME, in_values, key_of
from traincrew.operator.manifests.chartvalues import schema_text, values_text
from traincrew.operator.manifests.yamltext import dump
from traincrew.operator.options import VERSION
from traincrew.predecessors import openmpihints
from traincrew.predecessors.gotemplate import Writer

if TYPE_CHECKING:
    from traincrew.operator.manifests.template import Document

CHART = "kube-openmpi"
_OFTEN_MISTAKEN = ("", "MasterValues", "WorkerValues", "MasterScheduling")
"""Mappings of the schema in which keys of others are written; the first is all values."""


def files() -> dict[str, str]:
    """Return the chart's files by path."""
    return {
        "Chart.yaml": dump(_chart()),
        "values.yaml": values_text(ChartValues, defaults()),
        "values.schema.json": _schema(),
        "templates/NOTES.txt": _NOTES,
        "templates/_helpers.tpl": _HELPERS.replace("@PLACEHOLDER@", placeholders.PATTERN),
        "templates/mpi-cluster.yaml": _cluster(),
        "templates/ssh-key.yaml": _secret(),
    }


def _chart() -> Document:
    return {
        "apiVersion": "v2",
        "name": CHART,
        "description": f"An MPI cluster ({KIND}), from the values of kube-openmpi.",
        "type": "application",
        "version": VERSION,
        "appVersion": VERSION,
    }


def _schema() -> str:
    """Return the schema of the values.

    Of a key that does not exist, Helm reports the path and the value that it must have: that text
    names the nearest key, or all that there are.
    """
    schema = json.loads(schema_text(CHART, ChartValues))
    for name, node in (("", schema), *schema["definitions"].items()):
        known = [key for key in node["properties"] if key != "global"]
        node["patternProperties"] = openmpihints.hints(known, misplaced=name in _OFTEN_MISTAKEN)
        there = ", ".join(known)
        node["additionalProperties"] = {"const": f"left out: no such key; there are {there}"}
    return json.dumps(schema, indent=2) + "\n"


# -- templates ------------------------------------------------------------------------------------


def _cluster() -> str:
    """Return the template of the MPICluster; it fails with all problems of a kind at once."""
    of_cluster = (valuesrules.limits(), valuesrules.of_cluster())
    writer = _writer((valuesrules.OF_VALUES, convert.CLUSTER))
    writer.line("$problems := list")
    lines = '(include "kube-openmpi.placeholders" (list "" $values) | splitList "\\n" | compact)'
    writer.line(f"$problems = concat $problems {lines}")
    _failing(writer)
    writer.comment("What is wrong in the values.")
    writer.checks(valuesrules.OF_VALUES)
    _failing(writer)
    writer.comment("What becomes of them.")
    writer.assign("cluster", convert.CLUSTER)
    writer.sections("cluster", of_cluster)
    for checks in of_cluster:
        writer.comment("What is wrong in that; a problem names the key.")
        writer.checks(checks, _key, in_values)
        _failing(writer)
    writer.output("toYaml $cluster")
    return writer.text()


def _secret() -> str:
    """Return the template of the Secret with the keys, if the values have some."""
    writer = _writer((convert.HAS_KEYS, convert.SECRET))
    with writer.block(f"if {convert.HAS_KEYS.go()}"):
        writer.assign("secret", convert.SECRET)
        writer.output("toYaml $secret")
    return writer.text()


def _writer(parts: Any) -> Writer:
    """Return a writer of a template that has begun with the values that parts get."""
    writer = Writer(CHART)
    writer.line("$values := .Values")
    writer.line("$name := .Release.Name")
    writer.sections("values", parts)
    return writer


def _failing(writer: Writer) -> None:
    with writer.block("if $problems"):
        writer.line('fail (join "\\n" $problems)')


def _key(field: str) -> str:
    return key_of(field).replace(NAME, "the release's name")


_HELPERS = """\
{{- /* Sets a key of a mapping, unless the value is empty: false and 0 are values. */}}
{{- define "kube-openmpi.set" -}}
{{- $value := index . 2 -}}
{{- if or $value (kindIs "bool" $value) (kindIs "float64" $value) -}}
{{- $_ := set (index . 0) (index . 1) $value -}}
{{- end -}}
{{- end -}}

{{- /* A line for each placeholder below a path. */}}
{{- define "kube-openmpi.placeholders" -}}
{{- $path := index . 0 -}}
{{- $found := index . 1 -}}
{{- if kindIs "map" $found -}}
{{- range $key, $inner := $found -}}
{{- $inside := printf "%s.%s" $path $key | trimPrefix "." -}}
{{- include "kube-openmpi.placeholders" (list $inside $inner) -}}
{{- end -}}
{{- else if kindIs "slice" $found -}}
{{- range $index, $inner := $found -}}
{{- include "kube-openmpi.placeholders" (list (printf "%s[%d]" $path $index) $inner) -}}
{{- end -}}
{{- else if kindIs "string" $found -}}
{{- with regexFind `@PLACEHOLDER@` $found -}}
{{- printf "%s: replace %s by a value of your own\\n" $path . -}}
{{- end -}}
{{- end -}}
{{- end -}}
"""

_NOTES = """\
{{- $namespace := .Release.Namespace -}}
{{- $oneShot := (.Values.mpiMaster | default dict).oneShot | default dict -}}
The MPI cluster {{ .Release.Name }} is created in namespace {{ $namespace }}.

Watch it:

  kubectl --namespace {{ $namespace }} get mpicluster {{ .Release.Name }} --watch
{{- if $oneShot.enabled }}

Read the output of its command:

  kubectl --namespace {{ $namespace }} logs --follow {{ .Release.Name }}-master
{{- else }}

Run a command on it when its phase is Running:

  kubectl --namespace {{ $namespace }} exec -it {{ .Release.Name }}-master -- mpiexec \\
    --allow-run-as-root --hostfile /kube-openmpi/generated/hostfile hostname
{{- end }}
"""
