package weir

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"weir.dev/lab/kubernetes/node"
)

// acceptAll lets the suite get past its preparations without a data plane, which tests the cluster itself.
func acceptAll(ctx context.Context, writer client.Client) error {
	holds := func(kind string, generation int64) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: generation, LastTransitionTime: metav1.Now()}
	}
	var classes gateway.GatewayClassList
	if err := writer.List(ctx, &classes); err != nil {
		return err
	}
	for _, class := range classes.Items {
		if class.Spec.ControllerName != controllerName || isCurrent(class.Status.Conditions, class.Generation) {
			continue
		}
		class.Status.Conditions = []metav1.Condition{holds("Accepted", class.Generation)}
		if err := writer.Status().Update(ctx, &class); err != nil {
			return err
		}
	}
	var gateways gateway.GatewayList
	if err := writer.List(ctx, &gateways); err != nil {
		return err
	}
	for _, each := range gateways.Items {
		if isCurrent(each.Status.Conditions, each.Generation) {
			continue
		}
		kind := gateway.IPAddressType
		each.Status.Conditions = []metav1.Condition{holds("Accepted", each.Generation), holds("Programmed", each.Generation)}
		each.Status.Addresses = []gateway.GatewayStatusAddress{{Type: &kind, Value: node.BridgeAddr}}
		each.Status.Listeners = nil
		for _, listener := range each.Spec.Listeners {
			each.Status.Listeners = append(each.Status.Listeners, gateway.ListenerStatus{
				Name: listener.Name, SupportedKinds: []gateway.RouteGroupKind{{Kind: "HTTPRoute"}},
				Conditions: []metav1.Condition{
					holds("Accepted", each.Generation), holds("ResolvedRefs", each.Generation), holds("Programmed", each.Generation),
				},
			})
		}
		if err := writer.Status().Update(ctx, &each); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

func isCurrent(conditions []metav1.Condition, generation int64) bool {
	return len(conditions) > 0 && conditions[0].ObservedGeneration == generation && conditions[0].Status == metav1.ConditionTrue
}
