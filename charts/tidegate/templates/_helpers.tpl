{{- define "tidegate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 46 characters: Kubernetes labels the pod of Redis with this name, "-redis", "-" and a hash of 10 characters. A
     label has at most 63. */}}
{{- define "tidegate.fullname" -}}
{{- $name := include "tidegate.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 46 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 46 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 46 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Called with a dict of `root` and `component`. */}}
{{- define "tidegate.selector" -}}
app.kubernetes.io/name: {{ include "tidegate.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Called with a dict of `root`, `component` and, if there are any, `more` labels. One map, so that no label occurs twice. */}}
{{- define "tidegate.labels" -}}
{{- $labels := include "tidegate.selector" . | fromYaml -}}
{{- $_ := set $labels "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .root.Release.Service -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") -}}
{{- toYaml (mergeOverwrite $labels .root.Values.commonLabels (.more | default dict)) -}}
{{- end -}}

{{/* Registry and nodes, for the pods of gateways and of Redis. */}}
{{- define "tidegate.placement" -}}
{{- $placement := dict -}}
{{- with .Values.image.pullSecrets -}}
{{- $_ := set $placement "imagePullSecrets" . -}}
{{- end -}}
{{- range $key := list "priorityClassName" "nodeSelector" "tolerations" -}}
{{- with get $.Values $key -}}
{{- $_ := set $placement $key . -}}
{{- end -}}
{{- end -}}
{{- with $placement -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tidegate.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ default .Chart.AppVersion $image.tag }}
{{- end -}}
{{- end -}}

{{- define "tidegate.redisUrl" -}}
{{- $redis := .Values.redis -}}
{{- if eq $redis.kind "bundled" -}}
redis://tidegate:${REDIS_PASSWORD}@{{ include "tidegate.fullname" . }}-redis:6379
{{- else if $redis.urlSecret.name -}}
${REDIS_URL}
{{- else -}}
{{ required "redis.kind is external: set redis.url, or redis.urlSecret.name" $redis.url }}
{{- end -}}
{{- end -}}

{{/* Values that no schema can compare with each other. */}}
{{- define "tidegate.validate" -}}
{{- if eq .Values.redis.kind "none" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) -}}
{{- fail "redis.kind is none: each gateway counts alone, so set replicas: 1 and disable autoscaling, or choose bundled or external" -}}
{{- end -}}
{{- end -}}
{{- if and (ne .Values.redis.kind "external") (or .Values.redis.url .Values.redis.urlSecret.name) -}}
{{- fail (printf "redis.kind is %s: redis.url and redis.urlSecret need redis.kind: external" .Values.redis.kind) -}}
{{- end -}}
{{- if and .Values.redis.url .Values.redis.urlSecret.name -}}
{{- fail "redis.url and redis.urlSecret exclude each other: set one of them" -}}
{{- end -}}
{{- $open := regexReplaceAll "[$][{][A-Za-z_][A-Za-z0-9_]*[}]" (.Values.redis.url | default "") "" -}}
{{- if regexMatch "://[^:@]*:.+@|sentinelPassword=[^&]" $open -}}
{{- fail "redis.url has a password, which the ConfigMap would show: write ${REDIS_PASSWORD}, or set redis.urlSecret" -}}
{{- end -}}
{{- if not .Values.config.routes -}}
{{- fail "config.routes is empty: list your routes, and their limits under config.limits, as in README.md" -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if or (eq .name "TIDEGATE_SECRET") (and (eq .name "TIDEGATE_ADMIN_TOKEN") (not $.Values.admin.tokens)) -}}
{{- fail (printf "extraEnv: the chart sets %s: use secrets" .name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.tls.clientCa (not .Values.tls.secretName) -}}
{{- fail "tls.clientCa is a key of the Secret tls.secretName, which is not set" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (not .Values.autoscaling.cpu) (not .Values.autoscaling.requestsPerSecond) -}}
{{- fail "autoscaling is enabled without a metric: set autoscaling.cpu or autoscaling.requestsPerSecond" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas is above autoscaling.maxReplicas" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.admin.service.enabled) -}}
{{- fail "serviceMonitor needs admin.service.enabled; podMonitor needs no Service" -}}
{{- end -}}
{{- end -}}

{{/* The keys that only a restart changes. Pods carry their checksum; all other keys are reloaded. */}}
{{- define "tidegate.restartKeys" -}}
{{- $fullname := include "tidegate.fullname" . -}}
{{- $admin := dict "address" (printf "%s:9901" .Values.listenAddress) -}}
{{- if .Values.admin.tokens -}}
{{- $_ := set $admin "tokens" .Values.admin.tokens -}}
{{- else -}}
{{- $_ := set $admin "token" "${TIDEGATE_ADMIN_TOKEN}" -}}
{{- end -}}
{{- $hosts := list -}}
{{- if .Values.admin.service.enabled -}}
{{- $service := printf "%s-admin" $fullname -}}
{{- $inside := printf "%s.%s" $service .Release.Namespace -}}
{{- $hosts = list $service $inside (printf "%s.svc" $inside) (printf "%s.svc.cluster.local" $inside) -}}
{{- end -}}
{{- with concat $hosts .Values.admin.hosts -}}
{{- $_ := set $admin "hosts" . -}}
{{- end -}}
{{- $store := "memory" -}}
{{- if ne .Values.redis.kind "none" -}}
{{- $url := dict "url" (include "tidegate.redisUrl" .) -}}
{{- $store = dict "redis" (merge $url .Values.redis.settings) -}}
{{- end -}}
{{- $keys := dict "admin" $admin "store" $store "secret" "${TIDEGATE_SECRET}" -}}
{{- range $key := list "log" "overrides_file" -}}
{{- with get $.Values.config $key -}}
{{- $_ := set $keys $key . -}}
{{- end -}}
{{- end -}}
{{- toYaml $keys -}}
{{- end -}}

{{- define "tidegate.gateway.yaml" -}}
{{- $listen := list (printf "%s:8080" .Values.listenAddress) -}}
{{- with .Values.tls.secretName -}}
{{- $tls := dict "cert" "/etc/tidegate-tls/tls.crt" "key" "/etc/tidegate-tls/tls.key" -}}
{{- with $.Values.tls.clientCa -}}
{{- $_ := set $tls "client_ca" (printf "/etc/tidegate-tls/%s" .) -}}
{{- $_ := set $tls "client_cert" $.Values.tls.clientCert -}}
{{- end -}}
{{- $listen = append $listen (dict "address" (printf "%s:8443" $.Values.listenAddress) "tls" $tls) -}}
{{- end -}}
{{- $timeouts := dict "timeouts" (dict "drain" (printf "%ds" (int .Values.drainSeconds))) -}}
{{- $own := mergeOverwrite (dict "listen" $listen) $timeouts (include "tidegate.restartKeys" . | fromYaml) -}}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $own) -}}
{{- end -}}
