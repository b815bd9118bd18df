{{- define "signalbox.fullname" -}}
{{- if contains "signalbox" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-signalbox" (.Release.Name | trunc 42 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "signalbox.selector" -}}
app.kubernetes.io/name: signalbox
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "signalbox.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{ include "signalbox.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "signalbox.tokenSecret" -}}
{{- .Values.token.existingSecret | default (printf "%s-token" (include "signalbox.fullname" .)) -}}
{{- end -}}

{{- define "signalbox.databaseSecret" -}}
{{- .Values.database.existingSecret | default (printf "%s-addresses" (include "signalbox.fullname" .)) -}}
{{- end -}}

{{- define "signalbox.redisSecret" -}}
{{- .Values.redis.existingSecret | default (printf "%s-addresses" (include "signalbox.fullname" .)) -}}
{{- end -}}

{{- /* Every name by which it is reached. Probes and Prometheus come by the pod's address. */ -}}
{{- define "signalbox.allowedHosts" -}}
{{- $name := include "signalbox.fullname" . -}}
{{- $service := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- $hosts := concat (list (ternary "[$(POD_IP)]" "$(POD_IP)" .Values.ipv6) "localhost" "127.0.0.1") $service -}}
{{- $port := int .Values.service.port -}}
{{- if and (ne $port 80) (ne $port 7420) -}}
{{- range $service -}}
{{- $hosts = append $hosts (printf "%s:%d" . $port) -}}
{{- end -}}
{{- end -}}
{{- if .Values.ingress.enabled -}}
{{- $hosts = concat $hosts .Values.ingress.hosts -}}
{{- end -}}
{{- concat $hosts .Values.allowedHosts | uniq | join "," -}}
{{- end -}}

{{- /* What a schema cannot say. */ -}}
{{- define "signalbox.check" -}}
{{- $engine := .Values.database.engine -}}
{{- if eq $engine "sqlite" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- fail (printf "replicas is %d, but a SQLite file is for one server. Set database.engine to postgres or mysql, or replicas to 1." (int .Values.replicas)) -}}
{{- end -}}
{{- if or .Values.database.url .Values.database.existingSecret -}}
{{- fail "database.url and database.existingSecret are not for sqlite, whose file is in the volume. Set database.engine to postgres or mysql, or leave them out." -}}
{{- end -}}
{{- else -}}
{{- if and (not .Values.database.url) (not .Values.database.existingSecret) -}}
{{- fail (printf "database.engine is %s, so its address is needed: name a secret in database.existingSecret, or give database.url." $engine) -}}
{{- end -}}
{{- if and .Values.database.url (not (regexMatch (ternary "^postgres(ql)?://" "^(mysql|mariadb)://" (eq $engine "postgres")) .Values.database.url)) -}}
{{- fail (printf "database.url is no address of a %s database." $engine) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.redis.enabled (not .Values.redis.url) (not .Values.redis.existingSecret) -}}
{{- fail "redis.enabled is true, so its address is needed: name a secret in redis.existingSecret, or give redis.url." -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled is true, so ingress.hosts must name the hosts: the server refuses requests for any other name." -}}
{{- end -}}
{{- if and .Values.networkPolicy.egress.enabled (not .Values.networkPolicy.egress.rules) (or (ne $engine "sqlite") .Values.redis.enabled) -}}
{{- fail "networkPolicy.egress.enabled is true, so networkPolicy.egress.rules must let the server reach its database and Redis: it could not start." -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.token.existingSecret) -}}
{{- fail "serviceMonitor.enabled is true, so serviceMonitor.token.existingSecret must name a secret with a token of the scope read: /metrics is not open to everybody." -}}
{{- end -}}
{{- if and .Values.scaling.enabled (not .Values.scaling.token.existingSecret) -}}
{{- fail "scaling.enabled is true, so scaling.token.existingSecret must name a secret with a token of the scope read: GET /v1/scaling is not open to everybody." -}}
{{- end -}}
{{- end -}}
