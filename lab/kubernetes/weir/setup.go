// Package weir installs Weir in a cluster of the lab: by its manifests and controller, or with one Deployment for each
// Gateway that is made here. Without a program, a stub accepts everything.
package weir

import (
	"context"
	"fmt"
	"os"
	"time"

	gatewayclient "sigs.k8s.io/controller-runtime/pkg/client"
	gateway "sigs.k8s.io/gateway-api/apis/v1"

	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"weir.dev/lab/kubernetes/cluster"
)

// ClassName is the GatewayClass of Weir.
const ClassName = "weir"

const controllerName = "weir.dev/gateway"

// Setup is how Weir gets into the cluster.
type Setup struct {
	// Definitions is the folder with the resource definitions of the Gateway API.
	Definitions string
	Program     string
	Manifests   string
}

const class = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: ` + ClassName + `}
spec: {controllerName: ` + controllerName + `}
`

// Apply applies definitions and manifests, and starts what makes Deployments if the controller does not.
func (setup *Setup) Apply(ctx context.Context, in *cluster.Cluster) error {
	applier, err := in.NewApplier()
	if err != nil {
		return err
	}
	if err := applier.Folder(ctx, setup.Definitions); err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := gateway.Install(scheme); err != nil {
		return err
	}
	client, err := gatewayclient.New(in.Config, gatewayclient.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if setup.Manifests != "" {
		if err := applier.Folder(ctx, setup.Manifests); err != nil {
			return err
		}
		return awaitClass(ctx, client)
	}
	if err := applier.Text(ctx, []byte(class)); err != nil {
		return err
	}
	if setup.Program == "" {
		go repeat(ctx, func() error { return acceptAll(ctx, client) })
		return nil
	}
	if err := applier.Text(ctx, []byte(rights)); err != nil {
		return err
	}
	if err := applier.Text(ctx, []byte(classKeeper)); err != nil {
		return err
	}
	go repeat(ctx, func() error { return deployAll(ctx, client, applier) })
	return awaitClass(ctx, client)
}

// awaitClass returns when Weir has accepted its class and says what it supports, by which the suite chooses its tests.
func awaitClass(ctx context.Context, reader gatewayclient.Client) error {
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		var found gateway.GatewayClass
		err := reader.Get(limited, gatewayclient.ObjectKey{Name: ClassName}, &found)
		if err == nil && len(found.Status.SupportedFeatures) > 0 {
			return nil
		}
		select {
		case <-limited.Done():
			return fmt.Errorf("Weir has not told the features of its GatewayClass: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Namespaces are those whose pods' output is kept; none for all.
func (setup *Setup) Namespaces() []string { return nil }

func repeat(ctx context.Context, step func() error) {
	said := ""
	for ctx.Err() == nil {
		// While the API server is away, the same is said once.
		if err := step(); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			fmt.Fprintln(os.Stderr, "weir:", said)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
