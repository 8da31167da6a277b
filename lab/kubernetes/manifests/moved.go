package manifests

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// kindsOfGateway are those that a controller makes for each Gateway, with their versions.
var kindsOfGateway = [][2]string{
	{"v1", "ServiceAccount"}, {"v1", "ConfigMap"}, {"rbac.authorization.k8s.io/v1", "RoleBinding"}, {"networking.k8s.io/v1", "NetworkPolicy"},
	{"v1", "Service"}, {"policy/v1", "PodDisruptionBudget"}, {"apps/v1", "Deployment"},
}

// objectsOfGateway are those of a Gateway of a class.
func objectsOfGateway(namespace, gateway, class string) []*unstructured.Unstructured {
	var made []*unstructured.Unstructured
	for _, kind := range kindsOfGateway {
		made = append(made, object(kind[0], kind[1], namespace, gateway+"-"+class))
	}
	return made
}

// checkMoved gives each release a Gateway, which then changes to the class of the next one: its controller makes what belongs to the Gateway, and
// that of before removes what it has made, and nothing else.
func (of *check) checkMoved(ctx context.Context) error {
	next := map[string]string{}
	for i, release := range of.Releases {
		next[release.Name] = of.Releases[(i+1)%len(of.Releases)].Name
	}
	gateway := func(release Release) *unstructured.Unstructured {
		return object(gatewayVersion, "Gateway", tenant+"-"+release.Name, "moving")
	}
	var bystanders []*unstructured.Unstructured
	for _, release := range of.Releases {
		made := gateway(release)
		made.Object["spec"] = map[string]any{"gatewayClassName": release.Name, "listeners": []any{map[string]any{"name": "http", "port": int64(80), "protocol": "HTTP"}}}
		if err := of.applier.Create(ctx, made); err != nil {
			return err
		}
	}
	for _, release := range of.Releases {
		if err := of.awaitAvailable(ctx, gateway(release), release.Name); err != nil {
			return err
		}
		similar, err := of.makeSimilar(ctx, gateway(release).GetNamespace(), "moving-"+release.Name)
		if err != nil {
			return err
		}
		// What the controller has made for another Gateway stays, too.
		bystanders = append(append(bystanders, similar...), objectsOfGateway(gateway(release).GetNamespace(), "front", release.Name)...)
		if err := of.change(ctx, gateway(release), next[release.Name], "spec", "gatewayClassName"); err != nil {
			return err
		}
	}
	for _, release := range of.Releases {
		if err := of.awaitAvailable(ctx, gateway(release), next[release.Name]); err != nil {
			return err
		}
		if err := of.checkSelected(ctx, gateway(release).GetNamespace(), "moving-"+next[release.Name]); err != nil {
			return err
		}
		if err := of.checkGone(ctx, objectsOfGateway(gateway(release).GetNamespace(), "moving", release.Name)); err != nil {
			return err
		}
		bystanders = append(bystanders, objectsOfGateway(gateway(release).GetNamespace(), "moving", next[release.Name])...)
	}
	for _, each := range bystanders {
		if _, err := of.applier.Read(ctx, each); err != nil {
			return fmt.Errorf("%s %s: %w", each.GetKind(), each.GetName(), err)
		}
	}
	for _, release := range of.Releases {
		if err := of.applier.Delete(ctx, gateway(release)); err != nil {
			return err
		}
		if err := of.checkGone(ctx, objectsOfGateway(gateway(release).GetNamespace(), "moving", next[release.Name])); err != nil {
			return err
		}
	}
	fmt.Printf("moved,%d Gateways to the class of another controller; %d other objects stay\n", len(of.Releases), len(bystanders))
	return nil
}

// awaitAvailable returns when everything that a class gives a Gateway is there, and a pod serves.
func (of *check) awaitAvailable(ctx context.Context, gateway *unstructured.Unstructured, class string) error {
	for _, each := range objectsOfGateway(gateway.GetNamespace(), gateway.GetName(), class) {
		err := await(ctx, each.GetKind()+" "+each.GetName(), func() error {
			have, err := of.applier.Read(ctx, each)
			if err != nil || each.GetKind() != "Deployment" {
				return err
			}
			if available, _, _ := unstructured.NestedInt64(have.Object, "status", "availableReplicas"); available == 0 {
				return errors.New("no pod is available")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSelected looks at the pods that a Service has connections sent to, while those of the class of before are still there.
func (of *check) checkSelected(ctx context.Context, namespace, name string) error {
	service, err := of.cluster.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	pods, err := of.cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.FormatLabels(service.Spec.Selector)})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if pod.Spec.ServiceAccountName != name {
			return fmt.Errorf("Service %s selects the pod %s", name, pod.Name)
		}
	}
	return nil
}

// makeSimilar makes a ConfigMap that the Gateway does not own, and one without the label of the controller, otherwise as it has made one.
func (of *check) makeSimilar(ctx context.Context, namespace, name string) ([]*unstructured.Unstructured, error) {
	made, err := of.applier.Read(ctx, object("v1", "ConfigMap", namespace, name))
	if err != nil {
		return nil, err
	}
	notOwned, unlabelled := object("v1", "ConfigMap", namespace, name+"-not-owned"), object("v1", "ConfigMap", namespace, name+"-unlabelled")
	notOwned.SetLabels(made.GetLabels())
	for _, each := range []*unstructured.Unstructured{notOwned, unlabelled} {
		each.SetAnnotations(made.GetAnnotations())
	}
	unlabelled.SetOwnerReferences(made.GetOwnerReferences())
	for _, each := range []*unstructured.Unstructured{notOwned, unlabelled} {
		if err := of.applier.Create(ctx, each); err != nil {
			return nil, err
		}
	}
	return []*unstructured.Unstructured{notOwned, unlabelled}, nil
}
