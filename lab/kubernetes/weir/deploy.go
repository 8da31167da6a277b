package weir

import (
	"bytes"
	"context"
	"fmt"
	"text/template"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"weir.dev/lab/kubernetes/cluster"
)

// rights lets every pod read and write everything: manifests of Weir's controller have the real ones.
const rights = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: weir-lab}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts"}]
`

var objects = template.Must(template.New("").Parse(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{.Name}}-weir
  namespace: {{.Namespace}}
  ownerReferences: [{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, name: {{.Name}}, uid: {{.UID}}}]
spec:
  selector: {matchLabels: {weir-gateway: {{.Name}}}}
  template:
    metadata: {labels: {weir-gateway: {{.Name}}}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: weir
        image: weir
        args: [serve, --config=/etc/weir/weir.toml, --kubernetes={{.Namespace}}/{{.Name}}]
        readinessProbe: {httpGet: {path: /ready, port: 9900}, periodSeconds: 1}
        securityContext: {runAsUser: 65532, runAsGroup: 65532, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: config, mountPath: /etc/weir}, {name: state, mountPath: /var/lib/weir}]
      volumes:
      - {name: config, configMap: {name: {{.Name}}-weir}}
      - {name: state, emptyDir: {}}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{.Name}}-weir
  namespace: {{.Namespace}}
  ownerReferences: [{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, name: {{.Name}}, uid: {{.UID}}}]
data:
  weir.toml: |
    [admin]
    listen = "0.0.0.0:9900"
---
apiVersion: v1
kind: Service
metadata:
  name: {{.Name}}-weir
  namespace: {{.Namespace}}
  labels: {gateway.networking.k8s.io/gateway-name: {{.Name}}}
  ownerReferences: [{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, name: {{.Name}}, uid: {{.UID}}}]
spec:
  type: LoadBalancer
  selector: {weir-gateway: {{.Name}}}
  ports:
{{- range .Ports}}
  - {name: port-{{.}}, port: {{.}}, protocol: TCP}
{{- end}}
`))

// deployed is the generation of each Gateway whose objects are made.
var deployed = map[string]int64{}

func deployAll(ctx context.Context, reader client.Client, applier *cluster.Applier) error {
	var classes gateway.GatewayClassList
	if err := reader.List(ctx, &classes); err != nil {
		return err
	}
	ours := map[gateway.ObjectName]bool{}
	for _, class := range classes.Items {
		ours[gateway.ObjectName(class.Name)] = class.Spec.ControllerName == controllerName
	}
	var gateways gateway.GatewayList
	if err := reader.List(ctx, &gateways); err != nil {
		return err
	}
	for _, each := range gateways.Items {
		if !ours[each.Spec.GatewayClassName] || deployed[string(each.UID)] == each.Generation || each.DeletionTimestamp != nil {
			continue
		}
		text, err := objectsOf(&each)
		if err != nil {
			return err
		}
		if err := applier.Text(ctx, text); err != nil {
			return fmt.Errorf("Gateway %s/%s: %w", each.Namespace, each.Name, err)
		}
		deployed[string(each.UID)] = each.Generation
	}
	return nil
}

func objectsOf(each *gateway.Gateway) ([]byte, error) {
	var ports []gateway.PortNumber
	seen := map[gateway.PortNumber]bool{}
	for _, listener := range each.Spec.Listeners {
		if !seen[listener.Port] {
			seen[listener.Port] = true
			ports = append(ports, listener.Port)
		}
	}
	var text bytes.Buffer
	err := objects.Execute(&text, map[string]any{"Name": each.Name, "Namespace": each.Namespace, "UID": each.UID, "Ports": ports})
	return text.Bytes(), err
}
