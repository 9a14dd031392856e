{{- /* The label app; empty if it is the default. */}}
{{- define "kube-openmpi.appName" -}}
{{- .Values.nameOverride | default "" | trunc 63 | trimSuffix "-" -}}
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
