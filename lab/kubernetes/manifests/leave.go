package manifests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	networking "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// otherAddr is what another controller says of an Ingress that Weir does not serve any more.
const otherAddr = "203.0.113.9"

// checkFollows has a listener come and its Gateway go: the NetworkPolicy of the Gateway has to do so, too.
func (of *check) checkFollows(ctx context.Context) error {
	release := of.Releases[0]
	gateway := object(gatewayVersion, "Gateway", tenant+"-"+release.Name, "passing")
	listener := func(name string, port int64) any {
		return map[string]any{"name": name, "port": port, "protocol": "HTTP"}
	}
	listeners := []any{listener("first", 80)}
	gateway.Object["spec"] = map[string]any{"gatewayClassName": release.Name, "listeners": listeners}
	if err := of.applier.Create(ctx, gateway); err != nil {
		return err
	}
	policy := object("networking.k8s.io/v1", "NetworkPolicy", gateway.GetNamespace(), "passing-"+release.Name)
	opens := func(wanted ...string) error {
		return await(ctx, "NetworkPolicy "+policy.GetName(), func() error {
			have, err := of.applier.Read(ctx, policy)
			if err != nil {
				return err
			}
			rules, _, _ := unstructured.NestedSlice(have.Object, "spec", "ingress")
			if open := openPorts(rules); !slices.Equal(open, wanted) {
				return fmt.Errorf("it opens %v, not %v", open, wanted)
			}
			return nil
		})
	}
	if err := opens("80"); err != nil {
		return err
	}
	if err := of.change(ctx, gateway, append(listeners, listener("second", 8080)), "spec", "listeners"); err != nil {
		return err
	}
	if err := opens("80", "8080"); err != nil {
		return err
	}
	if err := of.applier.Delete(ctx, gateway); err != nil {
		return err
	}
	err := await(ctx, "NetworkPolicy "+policy.GetName()+" of a Gateway that is gone", func() error {
		_, err := of.applier.Read(ctx, policy)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("it is still there")
	})
	if err == nil {
		fmt.Printf("follows,%s,a NetworkPolicy has the listeners of its Gateway, and goes with it\n", release.Name)
	}
	return err
}

// checkLeft moves the objects of each release to a class of no controller: what Weir has told of them has to go, and what another controller tells
// then has to stay.
func (of *check) checkLeft(ctx context.Context) error {
	for _, release := range of.Releases {
		namespace := tenant + "-" + release.Name
		gateway := object(gatewayVersion, "Gateway", namespace, "front")
		ingress := object("networking.k8s.io/v1", "Ingress", tenant, "ingress-"+release.Name)
		if err := of.change(ctx, gateway, "left", "spec", "gatewayClassName"); err != nil {
			return err
		}
		if err := of.change(ctx, ingress, "left", "spec", "ingressClassName"); err != nil {
			return err
		}
		if err := of.awaitNothingTold(ctx, namespace, gateway, ingress); err != nil {
			return fmt.Errorf("class %s: %w", release.Name, err)
		}
		if err := of.keepsOthers(ctx, ingress); err != nil {
			return err
		}
		fmt.Printf("left,%s,nothing is told of its Gateway, ListenerSet, routes and Ingress\n", release.Name)
	}
	return nil
}

const gatewayVersion = "gateway.networking.k8s.io/v1"

func (of *check) awaitNothingTold(ctx context.Context, namespace string, gateway, ingress *unstructured.Unstructured) error {
	for _, step := range []struct {
		named *unstructured.Unstructured
		path  []string
	}{
		{gateway, []string{"addresses"}}, {gateway, []string{"listeners"}}, {ingress, []string{"loadBalancer", "ingress"}},
		{object(gatewayVersion, "HTTPRoute", namespace, "web"), []string{"parents"}},
		{object(gatewayVersion, "BackendTLSPolicy", namespace, "encrypted"), []string{"ancestors"}},
		{object(gatewayVersion, "ListenerSet", namespace, "more"), []string{"listeners"}},
	} {
		err := await(ctx, step.named.GetKind()+" "+step.named.GetName(), func() error {
			have, err := of.applier.Read(ctx, step.named)
			if err != nil {
				return err
			}
			if left, _, _ := unstructured.NestedSlice(have.Object, append([]string{"status"}, step.path...)...); len(left) > 0 {
				return fmt.Errorf("its status still has %v", left)
			}
			// A default of the API server, or nothing.
			isTold := func(condition string) bool { return !strings.HasSuffix(condition, "=Unknown") }
			if told := conditionsOf(have); slices.ContainsFunc(told, isTold) {
				return fmt.Errorf("its conditions are %v", told)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keepsOthers has another controller tell an address, and Weir look at the Ingress once more.
func (of *check) keepsOthers(ctx context.Context, named *unstructured.Unstructured) error {
	client := of.cluster.Client.NetworkingV1().Ingresses(named.GetNamespace())
	ingress, err := client.Get(ctx, named.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	ingress.Status.LoadBalancer.Ingress = []networking.IngressLoadBalancerIngress{{IP: otherAddr}}
	if _, err := client.UpdateStatus(ctx, ingress, metav1.UpdateOptions{FieldManager: "another-controller"}); err != nil {
		return err
	}
	if err := of.change(ctx, named, []any{map[string]any{"host": "other.example"}}, "spec", "rules"); err != nil {
		return err
	}
	// Nothing says that nothing happens.
	time.Sleep(2 * time.Second)
	ingress, err = client.Get(ctx, named.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if told := ingress.Status.LoadBalancer.Ingress; len(told) != 1 || told[0].IP != otherAddr {
		return fmt.Errorf("Ingress %s: the address of another controller became %v", named.GetName(), told)
	}
	return nil
}

func (of *check) change(ctx context.Context, named *unstructured.Unstructured, value any, path ...string) error {
	changed := object(named.GetAPIVersion(), named.GetKind(), named.GetNamespace(), named.GetName())
	if err := unstructured.SetNestedField(changed.Object, value, path...); err != nil {
		return err
	}
	return of.applier.Patch(ctx, changed)
}
