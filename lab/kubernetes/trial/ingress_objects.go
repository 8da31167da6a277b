package trial

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ingressServers are two Services whose servers tell what they got, and the users of a password.
const ingressServers = `apiVersion: v1
kind: Namespace
metadata: {name: trial}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: other}
spec: {controller: other.example/ingress}
---
apiVersion: v1
kind: Secret
metadata: {name: users, namespace: trial}
type: Opaque
stringData: {auth: "ann:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n"}
`

const ingressServer = `---
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: trial}
spec: {selector: {app: %[1]s}, ports: [{port: 80, targetPort: 3000}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: trial}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: echo
        image: echo-basic
        env: [{name: SERVICE_NAME, value: %[1]s}]
        readinessProbe: {tcpSocket: {port: 3000}, periodSeconds: 1}
`

// ingress is one with a single host and path.
type ingress struct {
	name        string
	path        string
	service     string
	class       string
	secret      string
	annotations map[string]string
}

// nginx is the beginning of the annotations of ingress-nginx; others are written in full.
const nginx = "nginx.ingress.kubernetes.io/"

func (of ingress) host() string { return of.name + ".example" }

// text is its manifest, with a path for all where none is given.
func (of ingress) text() string {
	if of.path == "" {
		of.path = "/"
	}
	if of.service == "" {
		of.service = "first"
	}
	if of.class == "" {
		of.class = "weir"
	}
	kind := "Prefix"
	if strings.ContainsAny(of.path, "[(") {
		kind = "ImplementationSpecific"
	}
	annotations := []string{}
	for _, name := range slices.Sorted(maps.Keys(of.annotations)) {
		full := name
		if !strings.Contains(name, "/") {
			full = nginx + name
		}
		annotations = append(annotations, fmt.Sprintf("%s: %q", full, of.annotations[name]))
	}
	tls := ""
	if of.secret != "" {
		tls = fmt.Sprintf("tls: [{hosts: [%s], secretName: %s}], ", of.host(), of.secret)
	}
	// A canary is for the host of another.
	host := strings.TrimSuffix(of.name, "-canary") + ".example"
	return fmt.Sprintf(`---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s, namespace: trial, annotations: {%s}}
spec: {ingressClassName: %s, %srules: [{host: %s, http: {paths: [{path: %q, pathType: %s, backend: {service: {name: %s, port: {number: 80}}}}]}}]}
`, of.name, strings.Join(annotations, ", "), of.class, tls, host, of.path, kind, of.service)
}

// ingresses are those of the trial.
var ingresses = []ingress{
	{name: "plain", path: "/app"},
	{name: "regex", path: "/[a-z]{3}$", annotations: map[string]string{"use-regex": "true"}},
	{name: "rewrite", path: "/api(/|$)(.*)", annotations: map[string]string{"rewrite-target": "/$2"}},
	{name: "tls", secret: "tls"},
	{name: "open", secret: "tls", annotations: map[string]string{"ssl-redirect": "false"}},
	{name: "forced", annotations: map[string]string{"force-ssl-redirect": "true"}},
	{name: "canary"},
	{name: "canary-canary", service: "second", annotations: map[string]string{"canary": "true", "canary-weight": "30", "canary-by-header": "X-Canary"}},
	{name: "allowed", annotations: map[string]string{"whitelist-source-range": "10.0.0.0/8"}},
	{name: "refused", annotations: map[string]string{"whitelist-source-range": "192.0.2.0/24"}},
	{name: "denied", annotations: map[string]string{"denylist-source-range": "10.0.0.0/8"}},
	{name: "basic", annotations: map[string]string{"auth-type": "basic", "auth-secret": "users", "auth-realm": "staff"}},
	{name: "asked", annotations: map[string]string{"auth-url": "http://second.trial.svc.cluster.local/status/401"}},
	{name: "admitted", annotations: map[string]string{"auth-url": "http://second.trial.svc.cluster.local/status/200"}},
	{name: "limited", annotations: map[string]string{"limit-rps": "1", "limit-burst-multiplier": "2"}},
	{name: "sized", annotations: map[string]string{"proxy-body-size": "1k"}},
	{name: "cors", annotations: map[string]string{"enable-cors": "true", "cors-allow-origin": "https://page.example"}},
	{name: "vhost", annotations: map[string]string{"upstream-vhost": "inside.example"}},
	{name: "moved", annotations: map[string]string{"permanent-redirect": "https://elsewhere.example/new"}},
	{name: "root", annotations: map[string]string{"app-root": "/start"}},
	{name: "alias", annotations: map[string]string{"server-alias": "second-name.example"}},
	{name: "unknown", annotations: map[string]string{"unheard-of": "1"}},
	{name: "closed", annotations: map[string]string{"configuration-snippet": "deny all;"}},
	{name: "without", annotations: map[string]string{"configuration-snippet": "deny all;", "weir.dev/serve-without": "configuration-snippet"}},
	{name: "absent", service: "absent"},
	{name: "foreign", class: "other"},
}
