package manifests

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/lab/kubernetes/certificate"
)

// tenant is the namespace of Gateways, Ingresses and servers.
const tenant = "tenant"

// common are the servers of all releases.
const common = `apiVersion: v1
kind: Namespace
metadata:
  name: tenant
  labels: {pod-security.kubernetes.io/enforce: restricted}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo, namespace: tenant}
spec:
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: echo
        image: lab-echo
        args: [echo]
        readinessProbe: {tcpSocket: {port: 3000}, periodSeconds: 1}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
---
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: tenant}
spec: {selector: {app: echo}, ports: [{port: 80, targetPort: 3000}]}
`

// ofClass has at least one object of each kind whose status Weir writes, and an Ingress that has an Event.
var ofClass = template.Must(template.New("").Parse(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: front, namespace: tenant-{{.}}}
spec:
  gatewayClassName: {{.}}
  allowedListeners: {namespaces: {from: Same}}
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: front}]}}
  - {name: tls, port: 8443, protocol: TLS, tls: {mode: Terminate, certificateRefs: [{name: front}]}}
  - {name: tcp, port: 9100, protocol: TCP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: wrong, namespace: tenant-{{.}}}
spec:
  gatewayClassName: {{.}}
  infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: absent}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more, namespace: tenant-{{.}}}
spec:
  parentRef: {name: front}
  listeners: [{name: more, port: 8080, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: tenant-{{.}}}
spec:
  parentRefs: [{name: front}, {kind: ListenerSet, name: more}]
  rules: [{backendRefs: [{name: echo, namespace: tenant, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls, namespace: tenant-{{.}}}
spec:
  parentRefs: [{name: front, sectionName: http}]
  hostnames: [calls.example]
  rules: [{backendRefs: [{name: echo, namespace: tenant, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: secure, namespace: tenant-{{.}}}
spec:
  parentRefs: [{name: front, sectionName: tls}]
  hostnames: [secure.example]
  rules: [{backendRefs: [{name: echo, namespace: tenant, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: bytes, namespace: tenant-{{.}}}
spec:
  parentRefs: [{name: front, sectionName: tcp}]
  rules: [{backendRefs: [{name: echo, namespace: tenant, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: from-{{.}}, namespace: tenant}
spec:
  from:
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: tenant-{{.}}}
  - {group: gateway.networking.k8s.io, kind: GRPCRoute, namespace: tenant-{{.}}}
  - {group: gateway.networking.k8s.io, kind: TLSRoute, namespace: tenant-{{.}}}
  - {group: gateway.networking.k8s.io, kind: TCPRoute, namespace: tenant-{{.}}}
  to: [{group: "", kind: Service}]
---
apiVersion: v1
kind: Service
metadata: {name: encrypted, namespace: tenant-{{.}}}
spec: {ports: [{port: 443}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: encrypted, namespace: tenant-{{.}}}
spec:
  parentRefs: [{name: front}]
  rules: [{matches: [{path: {value: /encrypted}}], backendRefs: [{name: encrypted, port: 443}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: encrypted, namespace: tenant-{{.}}}
spec:
  targetRefs: [{group: "", kind: Service, name: encrypted}]
  validation: {hostname: encrypted.example, wellKnownCACertificates: System}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: ingress-{{.}}
  namespace: tenant
  annotations: {nginx.ingress.kubernetes.io/unheard-of: "1"}
spec:
  ingressClassName: {{.}}
  rules: [{host: {{.}}.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: echo, port: {number: 80}}}}]}}]
`))

// statuses are those that have to be written.
var statuses = []struct{ kind, name, condition string }{
	{"Gateway", "front", "Programmed"}, {"ListenerSet", "more", "Programmed"},
	{"HTTPRoute", "web", "Accepted"}, {"GRPCRoute", "calls", "Accepted"}, {"TLSRoute", "secure", "Accepted"},
	{"TCPRoute", "bytes", "Accepted"}, {"BackendTLSPolicy", "encrypted", "Accepted"},
}

// serve returns when a request passes each Gateway and each Ingress, and each status is there.
func (of *check) serve(ctx context.Context) error {
	if err := of.makeCertificates(ctx); err != nil {
		return err
	}
	if _, err := of.cluster.ApplyStrictly(ctx, []byte(common), false); err != nil {
		return err
	}
	for _, release := range of.Releases {
		var text bytes.Buffer
		if err := ofClass.Execute(&text, release.Name); err != nil {
			return err
		}
		if _, err := of.cluster.ApplyStrictly(ctx, text.Bytes(), false); err != nil {
			return err
		}
	}
	if err := of.awaitDeployments(ctx); err != nil {
		return err
	}
	for _, release := range of.Releases {
		if err := of.serveClass(ctx, release.Name); err != nil {
			return fmt.Errorf("class %s: %w", release.Name, err)
		}
		fmt.Printf("served,%s,a Gateway and an Ingress with all statuses\n", release.Name)
	}
	return nil
}

// makeCertificates makes the namespaces of Gateways with what their listeners need, and the default certificate of each release.
func (of *check) makeCertificates(ctx context.Context) error {
	for _, release := range of.Releases {
		namespace := object("v1", "Namespace", "", tenant+"-"+release.Name)
		namespace.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
		if err := of.applier.Create(ctx, namespace); err != nil {
			return err
		}
		for _, at := range []Release{{tenant + "-" + release.Name, "front"}, {release.Namespace, "wildcard"}} {
			secret, err := certificate.Secret(at.Namespace, at.Name, at.Name, "*.example")
			if err != nil {
				return err
			}
			if err := of.applier.Text(ctx, secret); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitDeployments returns when all pods of all manifests are ready.
func (of *check) awaitDeployments(ctx context.Context) error {
	for _, each := range of.applied {
		if each.GetKind() != "Deployment" {
			continue
		}
		err := await(ctx, "Deployment "+each.GetName(), func() error {
			have, err := of.applier.Read(ctx, each)
			if err != nil {
				return err
			}
			wanted, _, _ := unstructured.NestedInt64(have.Object, "spec", "replicas")
			ready, _, _ := unstructured.NestedInt64(have.Object, "status", "availableReplicas")
			if ready != wanted {
				conditions, _, _ := unstructured.NestedSlice(have.Object, "status", "conditions")
				return fmt.Errorf("%d of %d pods are ready: %v", ready, wanted, conditions)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (of *check) serveClass(ctx context.Context, class string) error {
	for _, each := range statuses {
		named := object("gateway.networking.k8s.io/v1", each.kind, tenant+"-"+class, each.name)
		if err := of.awaitCondition(ctx, named, each.condition, "True"); err != nil {
			return err
		}
	}
	wrong := object("gateway.networking.k8s.io/v1", "Gateway", tenant+"-"+class, "wrong")
	if err := of.awaitCondition(ctx, wrong, "Accepted", "False"); err != nil {
		return err
	}
	gateway := object("gateway.networking.k8s.io/v1", "Gateway", tenant+"-"+class, "front")
	ingress := object("networking.k8s.io/v1", "Ingress", tenant, "ingress-"+class)
	for _, step := range []struct {
		named *unstructured.Unstructured
		path  []string
		field string
		urls  []string
	}{
		{gateway, []string{"status", "addresses"}, "value", []string{"http://%s/", "https://%s/", "http://%s:8080/", "http://%s:9100/"}},
		{ingress, []string{"status", "loadBalancer", "ingress"}, "ip", []string{"http://%s/"}},
	} {
		addr, err := of.awaitAddr(ctx, step.named, step.path, step.field)
		if err != nil {
			return err
		}
		for _, url := range step.urls {
			if err := awaitResponse(ctx, fmt.Sprintf(url, addr), class+".example"); err != nil {
				return err
			}
		}
	}
	return of.awaitEvent(ctx, ingress)
}

// awaitAddr returns the first address that the status of an object has.
func (of *check) awaitAddr(ctx context.Context, named *unstructured.Unstructured, path []string, field string) (string, error) {
	addr := ""
	err := await(ctx, named.GetKind()+" "+named.GetName(), func() error {
		have, err := of.applier.Read(ctx, named)
		if err != nil {
			return err
		}
		addrs, _, _ := unstructured.NestedSlice(have.Object, path...)
		if len(addrs) == 0 {
			return errors.New("its status has no address")
		}
		first, _ := addrs[0].(map[string]any)
		addr, _ = first[field].(string)
		return nil
	})
	return addr, err
}

func (of *check) awaitCondition(ctx context.Context, named *unstructured.Unstructured, condition, wanted string) error {
	return await(ctx, fmt.Sprintf("%s %s is not %s=%s", named.GetKind(), named.GetName(), condition, wanted), func() error {
		have, err := of.applier.Read(ctx, named)
		if err != nil {
			return err
		}
		if !slices.Contains(conditionsOf(have), condition+"="+wanted) {
			return fmt.Errorf("status %v", have.Object["status"])
		}
		return nil
	})
}

// conditionsOf are those of an object, of all its parents and ancestors.
func conditionsOf(have *unstructured.Unstructured) []string {
	var all []string
	take := func(of map[string]any) {
		conditions, _, _ := unstructured.NestedSlice(of, "conditions")
		for _, each := range conditions {
			condition, _ := each.(map[string]any)
			all = append(all, fmt.Sprintf("%v=%v", condition["type"], condition["status"]))
		}
	}
	status, _, _ := unstructured.NestedMap(have.Object, "status")
	take(status)
	for _, list := range []string{"parents", "ancestors"} {
		parents, _, _ := unstructured.NestedSlice(status, list)
		for _, each := range parents {
			if parent, ok := each.(map[string]any); ok {
				take(parent)
			}
		}
	}
	return all
}

// awaitResponse returns when the echo server has answered.
func awaitResponse(ctx context.Context, url, host string) error {
	client := &http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: host},
		},
	}
	return await(ctx, url, func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		request.Host = host
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK || response.Header.Get("Pod") == "" {
			return fmt.Errorf("%s, not from the echo server", response.Status)
		}
		return nil
	})
}

// awaitEvent returns when the author of an Ingress has been told of the annotation that nothing knows.
func (of *check) awaitEvent(ctx context.Context, ingress *unstructured.Unstructured) error {
	return await(ctx, "Event of "+ingress.GetName(), func() error {
		events, err := of.cluster.Client.CoreV1().Events(ingress.GetNamespace()).List(ctx, metav1.ListOptions{
			FieldSelector: "involvedObject.kind=Ingress,involvedObject.name=" + ingress.GetName(),
		})
		if err != nil {
			return err
		}
		if len(events.Items) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
}
