package manifests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// released is the release that Helm installs. Its class, its namespace and the Gateway that it serves have its name, too.
const released = "released"

// helmStep is a command, and what has to be there after it.
type helmStep struct {
	what      string
	arguments []string
	// tag is that of the image of the controllers, and of the pods that they make.
	tag         string
	controllers int64
	hasPolicy   bool
}

// helmSteps follow each other.
var helmSteps = []helmStep{
	{"install", []string{
		"install", released, chartWord, "--create-namespace", "--wait", "--set", "image.repository=registry.example/weir,image.tag=first",
		"--set", "controller.replicas=1,controllerName=example.net/released,gatewayClass.name=" + released,
	}, "first", 1, true},
	{"upgrade", []string{
		"upgrade", released, chartWord, "--wait", "--reuse-values", "--set", "image.tag=second,controller.replicas=2,networkPolicy.create=false",
	}, "second", 2, false},
	{"rollback", []string{"rollback", released, "1", "--wait"}, "first", 1, true},
	// It replaces objects, also those whose fields others have written.
	{"forced upgrade", []string{"upgrade", released, chartWord, "--wait", "--reuse-values", "--force"}, "first", 1, true},
}

var releasedGateway = object(gatewayVersion, "Gateway", tenant, released)

// ofReleased is a Gateway with a route.
const ofReleased = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: released, namespace: tenant}
spec:
  gatewayClassName: released
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: released, namespace: tenant}
spec:
  parentRefs: [{name: released}]
  rules: [{backendRefs: [{name: echo, port: 80}]}]
`

// checkHelm installs the chart as its users do, changes the release and removes it.
func (of *check) checkHelm(ctx context.Context) error {
	if of.Helm == "" {
		return nil
	}
	folder, err := os.MkdirTemp("", "helm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	helm, err := newHelm(ctx, of, folder)
	if err != nil {
		return err
	}
	if _, err := of.cluster.ApplyStrictly(ctx, []byte(ofReleased), false); err != nil {
		return err
	}
	made, err := of.followRelease(ctx, helm, helmSteps)
	if err != nil {
		return err
	}
	addr, err := of.awaitAddr(ctx, releasedGateway, []string{"status", "addresses"}, "value")
	if err != nil {
		return err
	}
	if err := of.uninstall(ctx, helm, made, addr); err != nil {
		return fmt.Errorf("helm uninstall: %w", err)
	}
	// What was left of the Gateway is taken up again.
	if _, err = of.followRelease(ctx, helm, helmSteps[:1]); err != nil {
		return err
	}
	if again, err := of.awaitAddr(ctx, releasedGateway, []string{"status", "addresses"}, "value"); err != nil || again != addr {
		return fmt.Errorf("the address of the Gateway was %s, and is %s: %w", addr, again, err)
	}
	return nil
}

// followRelease judges what each step leaves. From the first one on, every request to the Gateway has to be answered. It returns the objects of the
// release.
func (of *check) followRelease(ctx context.Context, helm *helmProgram, steps []helmStep) ([]*unstructured.Unstructured, error) {
	var made []*unstructured.Unstructured
	var begun *requests
	for _, step := range steps {
		_, err := helm.run(ctx, step.arguments...)
		if err == nil {
			made, err = of.judgeStep(ctx, helm, step, made)
		}
		if err == nil && begun == nil {
			if begun, err = of.startRequests(ctx, releasedGateway); err == nil {
				defer begun.end()
			}
		}
		if err != nil {
			return nil, fmt.Errorf("helm %s: %w", step.what, err)
		}
		sent, failed := begun.counts()
		fmt.Printf("helm,%s,%d objects,%d requests,%d failed\n", step.what, len(made), sent, len(failed))
		if len(failed) > 0 {
			return nil, fmt.Errorf("helm %s: %d of %d requests failed: %w", step.what, len(failed), sent, failed[0])
		}
	}
	return made, nil
}

// uninstall leaves nothing but the Gateway and what was made for it. Its class is gone: it is not served any more.
func (of *check) uninstall(ctx context.Context, helm *helmProgram, made []*unstructured.Unstructured, addr string) error {
	if _, err := helm.run(ctx, "uninstall", released, "--wait"); err != nil {
		return err
	}
	if err := errors.Join(of.checkGone(ctx, made), helm.checkUnknown(ctx), of.checkPods(ctx, helmSteps[0].tag)); err != nil {
		return err
	}
	fmt.Printf("helm,uninstall,%d objects are gone\n", len(made))
	return await(ctx, "a Gateway without a class serves", func() error {
		response, err := http.Get("http://" + addr + "/")
		if err != nil {
			return nil
		}
		response.Body.Close()
		return errors.New(response.Status)
	})
}

// judgeStep compares what is there with what a step leaves. It returns the objects of the release.
func (of *check) judgeStep(ctx context.Context, helm *helmProgram, step helmStep, before []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	made, err := helm.objects(ctx)
	if err != nil {
		return nil, err
	}
	for _, each := range made {
		have, err := of.applier.Read(ctx, each)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", each.GetKind(), each.GetName(), err)
		}
		if owner := have.GetAnnotations()["meta.helm.sh/release-name"]; owner != released {
			return nil, fmt.Errorf("%s %s is of the release %q", each.GetKind(), each.GetName(), owner)
		}
	}
	// What the step before had and this one has not is gone.
	left := slices.DeleteFunc(slices.Clone(before), func(old *unstructured.Unstructured) bool {
		return slices.ContainsFunc(made, func(new *unstructured.Unstructured) bool {
			return old.GetKind() == new.GetKind() && old.GetNamespace() == new.GetNamespace() && old.GetName() == new.GetName()
		})
	})
	return made, errors.Join(of.checkGone(ctx, left), of.checkController(ctx, step), of.checkPods(ctx, step.tag), of.checkBinding(ctx))
}

func (of *check) checkGone(ctx context.Context, objects []*unstructured.Unstructured) error {
	var failures []error
	for _, each := range objects {
		failures = append(failures, await(ctx, each.GetKind()+" "+each.GetName(), func() error {
			switch _, err := of.applier.Read(ctx, each); {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			}
			return errors.New("it is still there")
		}))
	}
	return errors.Join(failures...)
}

// checkController looks at what the values of a step are for. Helm has waited for the pods.
func (of *check) checkController(ctx context.Context, step helmStep) error {
	have, err := of.cluster.Client.AppsV1().Deployments(released).Get(ctx, released+"-controller", metav1.GetOptions{})
	if err != nil {
		return err
	}
	container := have.Spec.Template.Spec.Containers[0]
	if int64(have.Status.AvailableReplicas) != step.controllers || !strings.HasSuffix(container.Image, ":"+step.tag) {
		return fmt.Errorf("%d controllers of %s are available", have.Status.AvailableReplicas, container.Image)
	}
	if slices.Contains(container.Args, "--network-policies") != step.hasPolicy {
		return fmt.Errorf("the arguments of the controller are %q", container.Args)
	}
	_, err = of.cluster.Client.NetworkingV1().NetworkPolicies(released).Get(ctx, released+"-controller", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if hasPolicy := err == nil; hasPolicy != step.hasPolicy {
		return fmt.Errorf("there is a NetworkPolicy: %v", hasPolicy)
	}
	return of.awaitCondition(ctx, object(gatewayVersion, "GatewayClass", "", released), "Accepted", "True")
}

// checkPods returns when all pods of the Gateway have an image.
func (of *check) checkPods(ctx context.Context, tag string) error {
	return await(ctx, "Deployment of the Gateway", func() error {
		have, err := of.cluster.Client.AppsV1().Deployments(tenant).Get(ctx, released+"-"+released, metav1.GetOptions{})
		if err != nil {
			return err
		}
		image, status := have.Spec.Template.Spec.Containers[0].Image, have.Status
		isDone := status.ObservedGeneration == have.Generation && status.Replicas == 2 && status.UpdatedReplicas == 2 && status.AvailableReplicas == 2
		if !isDone || !strings.HasSuffix(image, ":"+tag) {
			return fmt.Errorf("its image is %s, its status %v", image, status)
		}
		return nil
	})
}

// checkBinding returns when the account of the Gateway, and no other, has the rights of Gateways: the controller writes it, not Helm.
func (of *check) checkBinding(ctx context.Context) error {
	return await(ctx, "ClusterRoleBinding of Gateways", func() error {
		have, err := of.cluster.Client.RbacV1().ClusterRoleBindings().Get(ctx, released+"-gateway", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(have.Subjects) != 1 || have.Subjects[0].Namespace != tenant || have.Subjects[0].Name != released+"-"+released {
			return fmt.Errorf("its subjects are %v", have.Subjects)
		}
		return nil
	})
}
