"""The chart of kube-openmpi, with its values: it renders one MPICluster.

The templates do in Helm's language what `traincrew.api.kinds.mpicluster.convert` does for
`traincrew mpi`; the suite ``suites/install`` compares the two.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from traincrew.api.kinds.mpicluster.convert import CHART_LABEL, HERITAGE, MAX_APP_NAME
from traincrew.api.kinds.mpicluster.transport import EXEC
from traincrew.api.kinds.mpicluster.types import (
    API_VERSION,
    DEFAULT_APP_NAME,
    KIND,
    MASTER_CONTAINER,
    WORKER_CONTAINER,
)
from traincrew.api.kinds.mpicluster.values import ChartValues, defaults
from traincrew.operator.manifests.chartvalues import schema_text, values_text
from traincrew.operator.manifests.yamltext import dump
from traincrew.operator.options import VERSION
from traincrew.predecessors import openmpichecks

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
        "templates/NOTES.txt": _filled(_NOTES),
        "templates/_helpers.tpl": _filled(_HELPERS),
        "templates/checks.yaml": openmpichecks.template(),
        "templates/mpi-cluster.yaml": _filled(_CLUSTER),
        "templates/ssh-key.yaml": _filled(_SSH_KEY),
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
        node["patternProperties"] = openmpichecks.hints(known, misplaced=name in _OFTEN_MISTAKEN)
        there = ", ".join(known)
        node["additionalProperties"] = {"const": f"left out: no such key; there are {there}"}
    return json.dumps(schema, indent=2) + "\n"


_WORDS: dict[str, Any] = {
    "@API_VERSION@": API_VERSION,
    "@APP_NAME@": DEFAULT_APP_NAME,
    "@CHART_LABEL@": CHART_LABEL,
    "@EXEC@": EXEC,
    "@HERITAGE@": HERITAGE,
    "@KIND@": KIND,
    "@MASTER@": MASTER_CONTAINER,
    "@MAX_APP_NAME@": MAX_APP_NAME,
    "@WORKER@": WORKER_CONTAINER,
}


def _filled(text: str) -> str:
    for word, value in _WORDS.items():
        text = text.replace(word, str(value))
    return text


# -- templates; values that null has removed are taken for empty ------------------------------

_HELPERS = """\
{{- /* The label app; empty if it is the default. */}}
{{- define "kube-openmpi.appName" -}}
{{- .Values.nameOverride | default "" | trunc @MAX_APP_NAME@ | trimSuffix "-" -}}
{{- end }}

{{- /* The Secret with the keys; empty if the values have none. */}}
{{- define "kube-openmpi.keySecretName" -}}
{{- $keys := .Values.sshKey | default dict -}}
{{- if and $keys.id_rsa $keys.id_rsa_pub }}{{ .Release.Name }}-ssh-key{{ end -}}
{{- end }}

{{- /* The spec of a pod: its role's values, those of the image, and the name of the container. */}}
{{- define "kube-openmpi.pod" -}}
{{- $given := index . 0 | default dict -}}
{{- $image := index . 1 | default dict -}}
{{- $scheduling := $given.customScheduling | default dict -}}
{{- if and $scheduling.enabled $scheduling.schedulerName -}}
schedulerName: {{ $scheduling.schedulerName | quote }}
{{ end -}}
{{- with $given.securityContext -}}
securityContext:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with $image.pullSecrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with $given.nodeSelector -}}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with $given.tolerations -}}
tolerations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with $given.affinity -}}
affinity:
  {{- toYaml . | nindent 2 }}
{{ end -}}
{{- with $given.volumes -}}
volumes:
  {{- toYaml . | nindent 2 }}
{{ end -}}
containers:
  - name: {{ index . 2 }}
    image: "{{ $image.repository }}:{{ $image.tag }}"
    {{- with $image.pullPolicy }}
    imagePullPolicy: {{ . }}
    {{- end }}
    {{- with $given.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $given.volumeMounts }}
    volumeMounts:
      {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}
"""

_CLUSTER = """\
---
{{- $image := .Values.image | default dict }}
{{- $gateway := .Values.sshGateway | default dict }}
{{- $master := .Values.mpiMaster | default dict }}
{{- $update := $master.autoUpdateHostfile | default dict }}
{{- $oneShot := $master.oneShot | default dict }}
{{- $workers := .Values.mpiWorkers | default dict }}
{{- $scheduling := $workers.customScheduling | default dict }}
{{- $secret := include "kube-openmpi.keySecretName" . }}
apiVersion: @API_VERSION@
kind: @KIND@
metadata:
  name: {{ .Release.Name | quote }}
spec:
  {{- with include "kube-openmpi.appName" . }}
  appName: {{ . | quote }}
  {{- end }}
  {{- if eq (.Values.transport | default "") "@EXEC@" }}
  transport: @EXEC@
  {{- end }}
  {{- if or (hasKey $update "enabled") (hasKey $update "updateEvery") }}
  hostfile:
    {{- if hasKey $update "enabled" }}
    autoUpdate: {{ $update.enabled }}
    {{- end }}
    {{- if hasKey $update "updateEvery" }}
    updateSeconds: {{ $update.updateEvery | int }}
    {{- end }}
  {{- end }}
  {{- if or $secret $gateway.enabled }}
  ssh:
    {{- with $secret }}
    keySecretName: {{ . | quote }}
    {{- end }}
    {{- if $gateway.enabled }}
    gateway:
      enabled: true
      {{- if hasKey $gateway "nodePort" }}
      nodePort: {{ $gateway.nodePort | int }}
      {{- end }}
    {{- end }}
  {{- end }}
  {{- if (.Values.networkPolicy | default dict).enabled }}
  networkPolicy:
    enabled: true
  {{- end }}
  master:
    {{- if $oneShot.enabled }}
    oneShot:
      command: {{ $oneShot.command | toJson }}
      {{- if hasKey $oneShot "autoScaleDownWorkers" }}
      scaleDownWorkers: {{ $oneShot.autoScaleDownWorkers }}
      {{- end }}
    {{- end }}
    template:
      spec:
        {{- include "kube-openmpi.pod" (list $master $image "@MASTER@") | nindent 8 }}
  workers:
    {{- if hasKey $workers "num" }}
    replicas: {{ $workers.num | int }}
    {{- end }}
    {{- with $workers.podManagementPolicy }}
    podManagementPolicy: {{ . }}
    {{- end }}
    {{- if and $scheduling.enabled ($scheduling.podDisruptionBudget | default dict).enabled }}
    podDisruptionBudget:
      enabled: true
    {{- end }}
    template:
      spec:
        {{- include "kube-openmpi.pod" (list $workers $image "@WORKER@") | nindent 8 }}
  {{- with .Values.appCodesToSync }}
  codeSync:
    {{- range . }}
    - name: {{ .name | quote }}
      repository: {{ .gitRepo | quote }}
      {{- with .gitBranch }}
      branch: {{ . | quote }}
      {{- end }}
      {{- with .fetchWaitSecond | int }}
      timeoutSeconds: {{ . }}
      {{- end }}
      {{- with .updateEvery | int }}
      updateSeconds: {{ . }}
      {{- end }}
      mountPath: {{ .mountPath | quote }}
      {{- with .subPath }}
      subPath: {{ . | quote }}
      {{- end }}
      {{- with .gitSecretName }}
      secretName: {{ . | quote }}
      {{- end }}
    {{- end }}
  {{- end }}
"""

_SSH_KEY = """\
{{- with include "kube-openmpi.keySecretName" . }}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ . | quote }}
  labels:
    app: {{ include "kube-openmpi.appName" $ | default "@APP_NAME@" | quote }}
    chart: @CHART_LABEL@
    release: {{ $.Release.Name | quote }}
    heritage: @HERITAGE@
type: Opaque
data:
  id_rsa: {{ $.Values.sshKey.id_rsa | b64enc }}
  id_rsa.pub: {{ $.Values.sshKey.id_rsa_pub | b64enc }}
  authorized_keys: {{ $.Values.sshKey.id_rsa_pub | b64enc }}
{{- end }}
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
