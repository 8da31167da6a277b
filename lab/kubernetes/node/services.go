package node

import (
	"context"
	"fmt"
	"log"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

// services makes the cluster address of each Service, and the balancer address that it gives to those of the type
// LoadBalancer, lead to the endpoints: destination addresses are translated by the kernel, as kube-proxy does.
type services struct {
	client    kubernetes.Interface
	services  corelisters.ServiceLister
	slices    discoverylisters.EndpointSliceLister
	changed   chan struct{}
	addrs     map[string]string
	addrsUsed int
	rules     string
}

// settleTime is how long changes are gathered.
const settleTime = 20 * time.Millisecond

func newServices(client kubernetes.Interface, factory informers.SharedInformerFactory) *services {
	all := &services{
		client:   client,
		services: factory.Core().V1().Services().Lister(),
		slices:   factory.Discovery().V1().EndpointSlices().Lister(),
		changed:  make(chan struct{}, 1),
		addrs:    map[string]string{},
	}
	notice := func() {
		select {
		case all.changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notice() }, UpdateFunc: func(_, _ any) { notice() }, DeleteFunc: func(any) { notice() },
	}
	factory.Core().V1().Services().Informer().AddEventHandler(handler)
	factory.Discovery().V1().EndpointSlices().Informer().AddEventHandler(handler)
	return all
}

func (all *services) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-all.changed:
		}
		if err := all.apply(ctx); err != nil && ctx.Err() == nil {
			log.Print("services: ", err)
		}
		time.Sleep(settleTime)
	}
}

func (all *services) apply(ctx context.Context) error {
	list, err := all.services.List(labels.Everything())
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b *corev1.Service) int { return strings.Compare(nameOf(a), nameOf(b)) })
	var rules ruleSet
	for _, service := range list {
		addrs := clusterAddrs(service)
		if service.Spec.Type == corev1.ServiceTypeLoadBalancer {
			addr := all.balancerAddr(service)
			addrs = append(addrs, addr)
			if err := all.assign(ctx, service, addr); err != nil {
				return err
			}
		}
		endpoints, err := all.slices.EndpointSlices(service.Namespace).List(
			labels.SelectorFromSet(labels.Set{discovery.LabelServiceName: service.Name}))
		if err != nil {
			return err
		}
		for _, port := range service.Spec.Ports {
			rules.add(addrs, port, targets(endpoints, port.Name))
		}
	}
	text := rules.String()
	if text == all.rules {
		return nil
	}
	run := exec.CommandContext(ctx, "nft", "-f", "-")
	run.Stdin = strings.NewReader(text)
	if output, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, output)
	}
	all.rules = text
	return nil
}

func nameOf(service *corev1.Service) string { return service.Namespace + "/" + service.Name }

func clusterAddrs(service *corev1.Service) []string {
	return slices.DeleteFunc(slices.Clone(service.Spec.ClusterIPs), func(addr string) bool {
		return addr == "" || addr == corev1.ClusterIPNone || strings.Contains(addr, ":")
	})
}

// GivesAddr tells whether a Service that asks for this address gets it.
func GivesAddr(wanted string) bool { return strings.HasPrefix(wanted, "10.97.255.") }

// balancerAddr is the one that the Service asks for, if it is one of the node's; another is kept for the life of the agent.
func (all *services) balancerAddr(service *corev1.Service) string {
	if wanted := service.Spec.LoadBalancerIP; GivesAddr(wanted) {
		return wanted
	}
	addr, ok := all.addrs[string(service.UID)]
	if !ok {
		all.addrsUsed++
		addr = fmt.Sprintf("10.97.%d.%d", all.addrsUsed/250, all.addrsUsed%250+1)
		all.addrs[string(service.UID)] = addr
	}
	return addr
}

func (all *services) assign(ctx context.Context, service *corev1.Service, addr string) error {
	have := service.Status.LoadBalancer.Ingress
	if len(have) == 1 && have[0].IP == addr {
		return nil
	}
	mode := corev1.LoadBalancerIPModeVIP
	service = service.DeepCopy()
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: addr, IPMode: &mode}}
	_, err := all.client.CoreV1().Services(service.Namespace).UpdateStatus(ctx, service, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // The change that came between is seen next.
	}
	return err
}

// targets are the ready endpoints of a port; those that are ending and still serve if there is no other.
func targets(list []*discovery.EndpointSlice, port string) []string {
	var ready, ending []string
	for _, slice := range list {
		if slice.AddressType != discovery.AddressTypeIPv4 {
			continue
		}
		number := int32(0)
		for _, candidate := range slice.Ports {
			if candidate.Port != nil && (candidate.Name == nil && port == "" || candidate.Name != nil && *candidate.Name == port) {
				number = *candidate.Port
			}
		}
		if number == 0 {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			target := fmt.Sprintf("%s . %d", endpoint.Addresses[0], number)
			condition := endpoint.Conditions
			if condition.Ready == nil || *condition.Ready {
				ready = append(ready, target)
			} else if condition.Serving != nil && *condition.Serving {
				ending = append(ending, target)
			}
		}
	}
	if len(ready) == 0 {
		ready = ending
	}
	slices.Sort(ready)
	return slices.Compact(ready)
}

// ruleSet is the whole table of the agent as nft reads it.
type ruleSet struct {
	verdicts []string
	chains   strings.Builder
	count    int
}

func (rules *ruleSet) add(addrs []string, port corev1.ServicePort, targets []string) {
	protocol := strings.ToLower(string(port.Protocol))
	if len(targets) == 0 || len(addrs) == 0 || (protocol != "tcp" && protocol != "udp") {
		return
	}
	rules.count++
	var choices []string
	for index, target := range targets {
		choices = append(choices, fmt.Sprintf("%d : %s", index, target))
	}
	fmt.Fprintf(&rules.chains, "chain service%d { meta l4proto %s dnat ip to numgen random mod %d map { %s }; }\n",
		rules.count, protocol, len(targets), strings.Join(choices, ", "))
	for _, addr := range addrs {
		rules.verdicts = append(rules.verdicts, fmt.Sprintf("%s . %s . %d : goto service%d", addr, protocol, port.Port, rules.count))
	}
}

// String makes one transaction. What leads to no endpoint is refused at once, as kube-proxy does.
func (rules *ruleSet) String() string {
	lookup := ""
	if len(rules.verdicts) > 0 {
		lookup = fmt.Sprintf("ip daddr . meta l4proto . th dport vmap { %s };", strings.Join(rules.verdicts, ", "))
	}
	refuse := fmt.Sprintf("ip daddr { %s, %s } meta l4proto tcp reject with tcp reset; ip daddr { %s, %s } reject;",
		ServicePrefix, balancerPrefix, ServicePrefix, balancerPrefix)
	return fmt.Sprintf(`table ip weir
delete table ip weir
table ip weir {
%schain lookup { %s }
chain arriving { type nat hook prerouting priority dstnat; jump lookup; }
chain local { type nat hook output priority -100; jump lookup; }
chain leaving { type nat hook postrouting priority srcnat; ct status dnat ip saddr %s masquerade; }
chain forwarded { type filter hook forward priority filter; %s }
chain sent { type filter hook output priority filter; %s }
}
`, rules.chains.String(), lookup, podPrefix, refuse, refuse)
}
