{{- define "hopcache.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "hopcache.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hopcache.labels" -}}
{{ include "hopcache.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "hopcache.secret" -}}
{{- .Values.secrets.existing | default (include "hopcache.name" .) -}}
{{- end }}

{{/* A setting's variable: entry.ttl becomes HOPCACHE_ENTRY__TTL. */}}
{{- define "hopcache.variable" -}}
HOPCACHE_{{ . | upper | replace "." "__" }}
{{- end }}

{{/* Settings that the chart derives, so that `settings` must not name them. */}}
{{- define "hopcache.derived" -}}
node.name node.peer_advertise node.bolt_advertise node.client_addr node.peer_addr node.admin_addr node.bolt_addr
node.admin_token_file node.drain node.client_tls.cert_file node.client_tls.key_file node.admin_tls.cert_file
node.admin_tls.key_file cluster.seeds cluster.key cluster.key_file origin.uri origin.auth origin.user
origin.password_file origin.ca_file store.uri store.ca_file
{{- end }}
