package manifests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// wantedStatus is what the kernel says of a process without any privilege.
var wantedStatus = map[string]string{
	"Uid": "65532 65532 65532 65532", "Gid": "65532 65532 65532 65532", "Groups": "",
	"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapBnd": "0000000000000000", "NoNewPrivs": "1",
}

// checkProcesses looks at each process of Weir: it is what counts, not what a manifest says.
func (of *check) checkProcesses(context.Context) error {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	var failures []error
	seen := 0
	for _, name := range names {
		line, err := os.ReadFile(name)
		if err != nil || !strings.HasPrefix(string(line), "weir\x00") {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		if err != nil {
			continue
		}
		seen++
		for text := range strings.Lines(string(status)) {
			key, value, _ := strings.Cut(text, ":")
			if wanted, known := wantedStatus[key]; known && strings.Join(strings.Fields(value), " ") != wanted {
				failures = append(failures, fmt.Errorf("%q: %s is %s", strings.ReplaceAll(string(line), "\x00", " "), key, value))
			}
		}
	}
	fmt.Printf("processes,%d without privileges\n", seen)
	if wanted := len(of.Releases) * 3; seen < wanted {
		failures = append(failures, fmt.Errorf("%d processes of Weir instead of %d or more", seen, wanted))
	}
	return errors.Join(failures...)
}

// checkSelectors looks at what selects pods: budgets, policies and Services that select none protect nothing.
func (of *check) checkSelectors(ctx context.Context) error {
	made, err := of.networkPolicies(ctx)
	if err != nil {
		return err
	}
	failures := []error{of.checkPorts(ctx, made)}
	for _, each := range slices.Concat(of.applied, made) {
		var path []string
		switch each.GetKind() {
		case "PodDisruptionBudget":
			path = []string{"spec", "selector", "matchLabels"}
			failures = append(failures, of.awaitBudget(ctx, each))
		case "NetworkPolicy":
			path = []string{"spec", "podSelector", "matchLabels"}
		case "Service":
			path = []string{"spec", "selector"}
		default:
			continue
		}
		selector, _, err := unstructured.NestedStringMap(each.Object, path...)
		if err != nil {
			return err
		}
		pods, err := of.cluster.Client.CoreV1().Pods(each.GetNamespace()).List(ctx, metav1.ListOptions{LabelSelector: labels.FormatLabels(selector)})
		if err != nil {
			return err
		}
		fmt.Printf("selects,%s,%s/%s,%d pods\n", each.GetKind(), each.GetNamespace(), each.GetName(), len(pods.Items))
		// Each selects the pods of one of two Deployments.
		deployments := map[string]bool{}
		for _, pod := range pods.Items {
			deployments[pod.Spec.ServiceAccountName] = true
		}
		if len(deployments) != 1 || len(selector) == 0 {
			failures = append(failures, fmt.Errorf("%s %s selects pods of %d Deployments", each.GetKind(), each.GetName(), len(deployments)))
		}
	}
	return errors.Join(failures...)
}

// networkPolicies are those that controllers have made for Gateways.
func (of *check) networkPolicies(ctx context.Context) ([]*unstructured.Unstructured, error) {
	list, err := of.cluster.Client.NetworkingV1().NetworkPolicies(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: madeByController})
	if err != nil {
		return nil, err
	}
	var made []*unstructured.Unstructured
	for _, each := range list.Items {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&each)
		if err != nil {
			return nil, err
		}
		policy := &unstructured.Unstructured{Object: fields}
		policy.SetKind("NetworkPolicy")
		made = append(made, policy)
	}
	return made, nil
}

// madeByController selects the objects of Gateways.
const madeByController = "app.kubernetes.io/managed-by=weir-controller"

// checkPorts compares the policies of Gateways with their Services: what a Service sends to a pod has to be let in, from anywhere.
func (of *check) checkPorts(ctx context.Context, policies []*unstructured.Unstructured) error {
	services, err := of.cluster.Client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: madeByController})
	if err != nil {
		return err
	}
	open := map[string]bool{}
	for _, policy := range policies {
		rules, _, _ := unstructured.NestedSlice(policy.Object, "spec", "ingress")
		for _, port := range openPorts(rules) {
			open[policy.GetNamespace()+"/"+policy.GetName()+":"+port] = true
		}
	}
	var failures []error
	count := 0
	for _, service := range services.Items {
		for _, port := range service.Spec.Ports {
			count++
			if at := fmt.Sprintf("%s/%s:%s", service.Namespace, service.Name, port.TargetPort.String()); !open[at] {
				failures = append(failures, fmt.Errorf("no NetworkPolicy opens %s", at))
			}
		}
	}
	fmt.Printf("policies,%d open %d ports of %d Services\n", len(policies), count, len(services.Items))
	// Each release has a Gateway, and each has listeners and a set.
	if len(services.Items) < len(of.Releases) || len(open) != count {
		failures = append(failures, fmt.Errorf("%d ports of Services, %d of NetworkPolicies", count, len(open)))
	}
	return errors.Join(failures...)
}

// openPorts are those that rules open to everything.
func openPorts(rules []any) []string {
	var open []string
	for _, each := range rules {
		rule, _ := each.(map[string]any)
		ports, _, _ := unstructured.NestedSlice(rule, "ports")
		if rule["from"] != nil {
			continue
		}
		for _, port := range ports {
			open = append(open, fmt.Sprint(port.(map[string]any)["port"]))
		}
	}
	return open
}

func (of *check) awaitBudget(ctx context.Context, budget *unstructured.Unstructured) error {
	return await(ctx, "PodDisruptionBudget "+budget.GetName(), func() error {
		have, err := of.applier.Read(ctx, budget)
		if err != nil {
			return err
		}
		allowed, _, _ := unstructured.NestedInt64(have.Object, "status", "disruptionsAllowed")
		if allowed != 1 {
			return fmt.Errorf("its status is %v", have.Object["status"])
		}
		return nil
	})
}

// checkAdmission has each namespace refuse a pod with privileges, so that those which run were judged.
func (of *check) checkAdmission(ctx context.Context) error {
	var failures []error
	for _, each := range of.applied {
		if each.GetKind() != "Namespace" {
			continue
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "privileged"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "any", Image: "any"}}},
		}
		_, err := of.cluster.Client.CoreV1().Pods(each.GetName()).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) {
			failures = append(failures, fmt.Errorf("namespace %s takes any pod: %v", each.GetName(), err))
		}
	}
	return errors.Join(failures...)
}
