// Package trial measures what users of Weir notice of changes in a cluster: failed requests in rollouts, and the time
// from a change to its effect.
package trial

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/lab/kubernetes/cluster"
)

// site is a Gateway with one route to a Deployment of echo servers without preStop.
type site struct {
	lines   siteLines
	cluster *cluster.Cluster
	applier *cluster.Applier
	addr    string
	probe   *probe
}

// siteLines are what differs between sites, as part of their YAML.
type siteLines struct {
	// protocol follows the port of the Service.
	protocol string
	// lifecycle belongs to the container of pods.
	lifecycle string
}

const siteObjects = `apiVersion: v1
kind: Namespace
metadata: {name: trial}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: front, namespace: trial}
spec:
  gatewayClassName: weir
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: trial}
spec: {selector: {app: echo}, ports: [{port: 80, targetPort: 3000%s}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: echo, namespace: trial}
spec:
  parentRefs: [{name: front}]
  rules: [{backendRefs: [{name: echo, port: 80}]}]
---
apiVersion: v1
kind: Service
metadata: {name: pinned, namespace: trial}
spec: {ports: [{port: 80, targetPort: 3000}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: pinned, namespace: trial}
spec:
  parentRefs: [{name: front}]
  rules: [{matches: [{path: {value: /pinned}}], backendRefs: [{name: pinned, port: 80}]}]
`

const echoDeployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: echo, namespace: trial}
spec:
  replicas: %d
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}, annotations: {revision: "%d"}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: echo
        image: lab-echo
        args: [echo]
        readinessProbe: {tcpSocket: {port: 3000}, periodSeconds: 1}
        %s
`

func newSite(ctx context.Context, in *cluster.Cluster, replicas int) (*site, error) {
	return newSiteWith(ctx, in, replicas, siteLines{})
}

func newSiteWith(ctx context.Context, in *cluster.Cluster, replicas int, lines siteLines) (*site, error) {
	applier, err := in.NewApplier()
	if err != nil {
		return nil, err
	}
	made := &site{lines: lines, cluster: in, applier: applier}
	if err := applier.Text(ctx, fmt.Appendf(nil, siteObjects, lines.protocol)); err != nil {
		return nil, err
	}
	if err := made.roll(ctx, replicas, 0); err != nil {
		return nil, err
	}
	for made.addr == "" {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, fmt.Errorf("the Gateway has no address: %w", err)
		}
		made.addr = made.gatewayAddr(ctx)
	}
	made.probe = newProbe(made.addr)
	if err := made.probe.await(ctx, "", "/", "the Gateway", func(got answer) bool { return got.status == http.StatusOK }); err != nil {
		return nil, err
	}
	// The API server holds back creations for 2 s if the definition of their kind is younger than that (`justCreated` in customresource_handler.go of
	// apiextensions-apiserver), so that others of a cluster hear of it first. That is no part of what is measured.
	return made, applier.TryCreate(ctx, routeOf("early", "echo"))
}

// gatewayAddr is "" until the Gateway is programmed.
func (of *site) gatewayAddr(ctx context.Context) string {
	wanted := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway"}}
	wanted.SetNamespace("trial")
	wanted.SetName("front")
	have, err := of.applier.Read(ctx, wanted)
	if err != nil {
		return ""
	}
	conditions, _, _ := unstructured.NestedSlice(have.Object, "status", "conditions")
	programmed := false
	for _, each := range conditions {
		condition, ok := each.(map[string]any)
		programmed = programmed || ok && condition["type"] == "Programmed" && condition["status"] == "True"
	}
	addrs, _, _ := unstructured.NestedSlice(have.Object, "status", "addresses")
	if !programmed || len(addrs) == 0 {
		return ""
	}
	addr, _ := addrs[0].(map[string]any)
	value, _ := addr["value"].(string)
	return value
}

// roll applies the Deployment and returns when exactly its new pods are ready and no old one is left.
func (of *site) roll(ctx context.Context, replicas, revision int) error {
	if err := of.applier.Text(ctx, fmt.Appendf(nil, echoDeployment, replicas, revision, of.lines.lifecycle)); err != nil {
		return err
	}
	for {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("the rollout did not end: %w", err)
		}
		pods, err := of.cluster.Client.CoreV1().Pods("trial").List(ctx, metav1.ListOptions{LabelSelector: "app=echo"})
		if err != nil {
			return err
		}
		current := 0
		for _, pod := range pods.Items {
			if pod.Annotations["revision"] == fmt.Sprint(revision) && pod.DeletionTimestamp == nil && isReady(&pod) {
				current++
			}
		}
		if current == replicas && len(pods.Items) == replicas {
			return nil
		}
	}
}

// pods are those of the Deployment.
func (of *site) pods(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := of.cluster.Client.CoreV1().Pods("trial").List(ctx, metav1.ListOptions{LabelSelector: "app=echo"})
	if err != nil {
		return nil, err
	}
	return pods.Items, nil
}

// pin makes one address the only endpoint of the Service that has no selector.
func (of *site) pin(ctx context.Context, applier *cluster.Applier, addr string) error {
	return applier.Text(ctx, fmt.Appendf(nil, `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: pinned, namespace: trial, labels: {kubernetes.io/service-name: pinned}}
addressType: IPv4
ports: [{name: "", port: 3000, protocol: TCP}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
`, addr))
}

// pinnedSlice names the EndpointSlice of that Service.
func pinnedSlice() *unstructured.Unstructured {
	slice := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice"}}
	slice.SetNamespace("trial")
	slice.SetName("pinned")
	return slice
}

// routeOf is a route of everything to a Service.
func routeOf(name, service string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
		"metadata": map[string]any{"name": name, "namespace": "trial"},
		"spec": map[string]any{
			"parentRefs": []any{map[string]any{"name": "front"}},
			"rules": []any{map[string]any{
				"backendRefs": []any{map[string]any{"name": service, "port": int64(80)}},
			}},
		},
	}}
}

// markedRoute is a route for a path to a Service whose responses have a mark.
func markedRoute(name, service, path, mark string) *unstructured.Unstructured {
	route := routeOf(name, service)
	rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules")
	rule := rules[0].(map[string]any)
	rule["matches"] = []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": path}}}
	rule["filters"] = []any{map[string]any{
		"type":                   "ResponseHeaderModifier",
		"responseHeaderModifier": map[string]any{"set": []any{map[string]any{"name": "Mark", "value": mark}}},
	}}
	_ = unstructured.SetNestedSlice(route.Object, rules, "spec", "rules")
	return route
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func pause(ctx context.Context, length time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(length):
		return nil
	}
}
