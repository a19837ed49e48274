{{/* The raft addresses of all nodes, as --peers has them. */}}
{{- define "mintleaf.peers" -}}
{{- $peers := list -}}
{{- range $id := untilStep 1 (add1 (int .Values.replicas) | int) 1 -}}
{{- $peers = append $peers (printf "%d=%s-%d.%s-nodes:9080" $id $.Release.Name $id $.Release.Name) -}}
{{- end -}}
{{- join "," $peers -}}
{{- end -}}

{{/* The HTTP addresses of all nodes, as --url has them. */}}
{{- define "mintleaf.urls" -}}
{{- $urls := list -}}
{{- $scheme := ternary "https" "http" (not (empty .Values.tls.secret)) -}}
{{- range $id := untilStep 1 (add1 (int .Values.replicas) | int) 1 -}}
{{- $urls = append $urls (printf "%s://%s-%d.%s-nodes:8080" $scheme $.Release.Name $id $.Release.Name) -}}
{{- end -}}
{{- join "," $urls -}}
{{- end -}}

{{/* The disk of a node. */}}
{{- define "mintleaf.disk" -}}
# ReadWriteOncePod where the volumes are of a CSI driver.
accessModes: [ReadWriteOnce]
{{- with .Values.storage.className }}
storageClassName: {{ . }}
{{- end }}
resources: { requests: { storage: {{ .Values.storage.size }} } }
{{- end -}}

{{/* How a probe asks where clients ask by TLS. */}}
{{- define "mintleaf.scheme" -}}
{{- if .Values.tls.secret }}, scheme: HTTPS{{ end -}}
{{- end -}}
