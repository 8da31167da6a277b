package trial

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/lab/kubernetes/certificate"
	"weir.dev/lab/kubernetes/cluster"
)

// ingressService is the Service of the manifest for Ingresses.
var ingressService = struct{ namespace, name string }{"weir-ingress", "weir-ingress"}

// ingressSite is Weir in front of all Ingresses of the trial.
type ingressSite struct {
	cluster *cluster.Cluster
	applier *cluster.Applier
	asker
}

// runIngress has the Deployment of the manifests serve Ingresses with the annotations of ingress-nginx: requests, statuses, Events, and changes.
func runIngress(ctx context.Context, in *cluster.Cluster, _ Options) error {
	on, err := newIngressSite(ctx, in)
	if err != nil {
		return err
	}
	fmt.Println("kind,what,status,service,path,host,field,subject,ms")
	var failures []error
	for _, step := range []func(context.Context) error{on.askAll, on.askLimited, on.askCanary, on.checkStatuses, on.checkEvents, on.changeAll} {
		failures = append(failures, step(ctx))
	}
	return errors.Join(failures...)
}

func newIngressSite(ctx context.Context, in *cluster.Cluster) (*ingressSite, error) {
	applier, err := in.NewApplier()
	if err != nil {
		return nil, err
	}
	on := &ingressSite{cluster: in, applier: applier}
	service, err := in.Client.CoreV1().Services(ingressService.namespace).Get(ctx, ingressService.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("this trial needs --manifests with a folder that has the manifest for Ingresses: %w", err)
	}
	// The certificate is there first: what is missing is told to authors.
	if err := applier.Text(ctx, []byte(ingressServers)); err != nil {
		return nil, err
	}
	if err := on.writeCertificate(ctx, "tls", "first", "tls.example", "open.example"); err != nil {
		return nil, err
	}
	texts := []string{fmt.Sprintf(ingressServer, "first", 2), fmt.Sprintf(ingressServer, "second", 1)}
	for _, each := range ingresses {
		texts = append(texts, each.text())
	}
	if err := applier.Text(ctx, []byte(strings.Join(texts, ""))); err != nil {
		return nil, err
	}
	for on.addr == "" {
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, fmt.Errorf("the Service has no address: %w", err)
		}
		service, err = in.Client.CoreV1().Services(ingressService.namespace).Get(ctx, ingressService.name, metav1.GetOptions{})
		if err == nil && len(service.Status.LoadBalancer.Ingress) > 0 {
			on.addr = service.Status.LoadBalancer.Ingress[0].IP
		}
	}
	// Both pods are there when the Deployment says so, and each has what the other has soon after.
	for {
		deployment, err := in.Client.AppsV1().Deployments(ingressService.namespace).Get(ctx, ingressService.name, metav1.GetOptions{})
		if err == nil && deployment.Status.AvailableReplicas == *deployment.Spec.Replicas {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, fmt.Errorf("the Deployment of Weir is not available: %w", err)
		}
	}
	for _, path := range []string{"plain", "canary", "basic"} {
		asked := request{what: "the first requests", host: path + ".example", path: "/app"}
		for ctx.Err() == nil {
			got, err := on.ask(ctx, asked)
			if err == nil && got.status != http.StatusNotFound && got.status < 500 {
				break
			}
			_ = pause(ctx, 100*time.Millisecond)
		}
	}
	return on, pause(ctx, time.Second)
}

func (of *ingressSite) writeCertificate(ctx context.Context, name, subject string, hosts ...string) error {
	secret, err := certificate.Secret("trial", name, subject, hosts...)
	if err != nil {
		return err
	}
	return of.applier.Text(ctx, secret)
}

func (of *ingressSite) askAll(ctx context.Context) error {
	var failures []error
	for _, asked := range ingressRequests {
		got, took, err := of.await(ctx, asked)
		failures = append(failures, err)
		got.print("request", asked.what, took)
	}
	return errors.Join(failures...)
}

// askLimited asks more often than `limit-rps` permits.
func (of *ingressSite) askLimited(ctx context.Context) error {
	statuses, err := of.count(ctx, "limited.example", 40, func(got reply) string { return fmt.Sprint(got.status) })
	if err != nil {
		return err
	}
	fmt.Printf("# limit-rps 1 and a burst of 2, two pods, 40 requests in a row: %d answered 200, %d answered 429\n", statuses["200"], statuses["429"])
	// A pod gives two at once and one for each second that the requests take.
	if statuses["200"] < 1 || statuses["200"] > 12 || statuses["200"]+statuses["429"] != 40 {
		return fmt.Errorf("limit-rps: %v", statuses)
	}
	return nil
}

// askCanary counts the share of `canary-weight`.
func (of *ingressSite) askCanary(ctx context.Context) error {
	services, err := of.count(ctx, "canary.example", 300, func(got reply) string { return got.service })
	if err != nil {
		return err
	}
	fmt.Printf("# canary-weight 30, 300 requests: %d went to the canary\n", services["second"])
	// Five standard deviations to each side.
	if services["second"] < 50 || services["second"] > 130 || services["first"]+services["second"] != 300 {
		return fmt.Errorf("canary-weight: %v", services)
	}
	return nil
}

func (of *ingressSite) count(ctx context.Context, host string, times int, by func(reply) string) (map[string]int, error) {
	counts := map[string]int{}
	for range times {
		got, err := of.ask(ctx, request{host: host, path: "/"})
		if err != nil {
			return nil, err
		}
		counts[by(got)]++
	}
	return counts, nil
}

// checkStatuses awaits the address of the Service in each Ingress of the class, and in no other.
func (of *ingressSite) checkStatuses(ctx context.Context) error {
	served := 0
	for _, each := range ingresses {
		if each.class != "" {
			continue
		}
		if err := of.awaitStatus(ctx, each.name, of.addr); err != nil {
			return err
		}
		served++
	}
	fmt.Printf("# status.loadBalancer: %d Ingresses have the address of the Service\n", served)
	return of.awaitStatus(ctx, "foreign", "")
}

func (of *ingressSite) awaitStatus(ctx context.Context, name, wanted string) error {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		addr := ""
		have, err := of.cluster.Client.NetworkingV1().Ingresses("trial").Get(limited, name, metav1.GetOptions{})
		if err == nil && len(have.Status.LoadBalancer.Ingress) > 0 {
			addr = have.Status.LoadBalancer.Ingress[0].IP
		}
		if err == nil && addr == wanted {
			return nil
		}
		if pause(limited, 50*time.Millisecond) != nil {
			return fmt.Errorf("the status of %s has the address %q instead of %q: %v", name, addr, wanted, err)
		}
	}
}

// eventsWanted are those that authors get, by reason, and a part of the message.
var eventsWanted = []struct{ ingress, reason, part string }{
	{"unknown", "NotApplied", "nginx.ingress.kubernetes.io/unheard-of: ingress-nginx has no such annotation"},
	{"closed", "NotServed", "nginx.ingress.kubernetes.io/configuration-snippet: "},
	{"without", "NotApplied", "served without it, as weir.dev/serve-without asks"},
	{"absent", "NotApplied", "absent"},
}

// checkEvents awaits what authors are told, and that the others are told nothing.
func (of *ingressSite) checkEvents(ctx context.Context) error {
	for _, wanted := range eventsWanted {
		if err := of.awaitEvent(ctx, wanted.ingress, wanted.reason, wanted.part); err != nil {
			return err
		}
	}
	events, err := of.cluster.Client.CoreV1().Events("trial").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Ingress"})
	if err != nil {
		return err
	}
	for _, each := range events.Items {
		fmt.Printf("# Event of %s: %s: %s\n", each.InvolvedObject.Name, each.Reason, each.Message)
		if !slices.ContainsFunc(eventsWanted, func(wanted struct{ ingress, reason, part string }) bool {
			return wanted.ingress == each.InvolvedObject.Name
		}) {
			return fmt.Errorf("an Event of %s that nothing asks for: %s", each.InvolvedObject.Name, each.Message)
		}
	}
	return nil
}

func (of *ingressSite) awaitEvent(ctx context.Context, name, reason, part string) error {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		events, err := of.cluster.Client.CoreV1().Events("trial").List(limited, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
		if err == nil {
			for _, each := range events.Items {
				if each.Reason == reason && strings.Contains(each.Message, part) && each.Type == "Warning" {
					return nil
				}
			}
		}
		if pause(limited, 100*time.Millisecond) != nil {
			return fmt.Errorf("%s has no Event %s with %q", name, reason, part)
		}
	}
}

// named is an object of the trial.
func named(version, kind, name string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	made.SetNamespace("trial")
	made.SetName(name)
	return made
}
