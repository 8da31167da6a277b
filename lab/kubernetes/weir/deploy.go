package weir

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"weir.dev/lab/kubernetes/cluster"
	"weir.dev/lab/kubernetes/node"
)

// rights lets every pod read and write everything: manifests of Weir's controller have the real ones.
const rights = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: weir-lab}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts"}]
`

// classKeeper serves no Gateway, and tells the status of the class before there is any.
const classKeeper = `apiVersion: apps/v1
kind: Deployment
metadata: {name: weir-class, namespace: default}
spec:
  selector: {matchLabels: {weir: class}}
  template:
    metadata: {labels: {weir: class}}
    spec:
      containers:
      - name: weir
        image: weir
        args: [serve, --kubernetes=default/none]
`

// deployment needs the address of the Service, so it comes second.
var deployment = template.Must(template.New("").Parse(`apiVersion: apps/v1
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
        args: [serve, "--kubernetes={{.Namespace}}/{{.Name}}", --gateway-address={{.Addr}}]
        readinessProbe: {httpGet: {path: /ready, port: 9000}, periodSeconds: 1}
        securityContext: {runAsUser: 65532, runAsGroup: 65532, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`))

var service = template.Must(template.New("").Parse(`apiVersion: v1
kind: Service
metadata:
  name: {{.Name}}-weir
  namespace: {{.Namespace}}
  labels: {gateway.networking.k8s.io/gateway-name: {{.Name}}{{range $key, $value := .Labels}}, {{$key}}: {{printf "%q" $value}}{{end}}}
  annotations: { {{- range $key, $value := .Annotations}}{{$key}}: {{printf "%q" $value}}, {{end -}} }
  ownerReferences: [{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, name: {{.Name}}, uid: {{.UID}}}]
spec:
  type: LoadBalancer
{{- if .Wanted}}
  loadBalancerIP: {{.Wanted}}
{{- end}}
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
		done, err := deployOne(ctx, reader, applier, &each)
		if err != nil {
			return fmt.Errorf("Gateway %s/%s: %w", each.Namespace, each.Name, err)
		}
		if done {
			deployed[string(each.UID)] = each.Generation
		}
	}
	return nil
}

// deployOne is not done until the Service has an address.
func deployOne(ctx context.Context, reader client.Client, applier *cluster.Applier, each *gateway.Gateway) (bool, error) {
	wanted := wantedAddr(each)
	values := map[string]any{
		"Name": each.Name, "Namespace": each.Namespace, "UID": each.UID, "Ports": portsOf(each), "Wanted": wanted,
		"Labels": nil, "Annotations": nil,
	}
	if infrastructure := each.Spec.Infrastructure; infrastructure != nil {
		values["Labels"], values["Annotations"] = infrastructure.Labels, infrastructure.Annotations
	}
	if err := applyTemplate(ctx, applier, service, values); err != nil {
		return false, err
	}
	var made corev1.Service
	if err := reader.Get(ctx, client.ObjectKey{Namespace: each.Namespace, Name: each.Name + "-weir"}, &made); err != nil {
		return false, err
	}
	if len(made.Status.LoadBalancer.Ingress) == 0 {
		return false, nil
	}
	addr := made.Status.LoadBalancer.Ingress[0].IP
	if node.GivesAddr(wanted) && addr != wanted {
		return false, nil
	}
	values["Addr"] = addr
	return true, applyTemplate(ctx, applier, deployment, values)
}

func applyTemplate(ctx context.Context, applier *cluster.Applier, of *template.Template, values map[string]any) error {
	var text bytes.Buffer
	if err := of.Execute(&text, values); err != nil {
		return err
	}
	return applier.Text(ctx, text.Bytes())
}

// wantedAddr is the first address that a Gateway asks for.
func wantedAddr(each *gateway.Gateway) string {
	for _, addr := range each.Spec.Addresses {
		if net.ParseIP(addr.Value) != nil {
			return addr.Value
		}
	}
	return ""
}

func portsOf(each *gateway.Gateway) []gateway.PortNumber {
	var ports []gateway.PortNumber
	for _, listener := range each.Spec.Listeners {
		if !slices.Contains(ports, listener.Port) {
			ports = append(ports, listener.Port)
		}
	}
	return ports
}
