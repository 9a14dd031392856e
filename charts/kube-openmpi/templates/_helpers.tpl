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
{{- with regexFind `_EDIT_ME_|<your[_-][^<>\s]*>` $found -}}
{{- printf "%s: replace %s by a value of your own\n" $path . -}}
{{- end -}}
{{- end -}}
{{- end -}}
