package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// fieldManager owns the fields of what is applied.
const fieldManager = "weir-lab"

// Applier writes objects of any kind, as `kubectl apply --server-side` does.
type Applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// NewApplier needs a server that is ready.
func (cluster *Cluster) NewApplier() (*Applier, error) {
	return newApplier(cluster.Config)
}

func newApplier(config *rest.Config) (*Applier, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	discovering, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cache := memory.NewMemCacheClient(discovering)
	return &Applier{client, restmapper.NewDeferredDiscoveryRESTMapper(cache)}, nil
}

// Folder applies every YAML file of a folder, in the order of their names.
func (applier *Applier) Folder(ctx context.Context, folder string) error {
	names, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("%s has no YAML files", folder)
	}
	slices.Sort(names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := applier.Text(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Text applies every document of a YAML text.
func (applier *Applier) Text(ctx context.Context, text []byte) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := applier.Object(ctx, object); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// Object applies one. A kind that the server does not have yet is waited for: its definition may have been applied
// just before.
func (applier *Applier) Object(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := applier.resource(ctx, object)
	if err != nil {
		return err
	}
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// Create writes an object that is not there yet.
func (applier *Applier) Create(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := applier.resource(ctx, object)
	if err != nil {
		return err
	}
	_, err = resource.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
	return err
}

// TryCreate has an object judged that is not there yet, and keeps nothing.
func (applier *Applier) TryCreate(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := applier.resource(ctx, object)
	if err != nil {
		return err
	}
	_, err = resource.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager, DryRun: []string{metav1.DryRunAll}})
	return err
}

// Patch changes what this object says of one that is there, as `kubectl apply` does by default.
func (applier *Applier) Patch(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := applier.resource(ctx, object)
	if err != nil {
		return err
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = resource.Patch(ctx, object.GetName(), types.MergePatchType, text, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// Watch yields the objects of the kind and namespace of this one, and their changes.
func (applier *Applier) Watch(ctx context.Context, object *unstructured.Unstructured) (watch.Interface, error) {
	resource, err := applier.resource(ctx, object)
	if err != nil {
		return nil, err
	}
	return resource.Watch(ctx, metav1.ListOptions{})
}

// Delete removes an object.
func (applier *Applier) Delete(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := applier.resource(ctx, object)
	if err != nil {
		return err
	}
	return resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{})
}

// Read is an object as the server has it.
func (applier *Applier) Read(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	resource, err := applier.resource(ctx, object)
	if err != nil {
		return nil, err
	}
	return resource.Get(ctx, object.GetName(), metav1.GetOptions{})
}

func (applier *Applier) resource(ctx context.Context, object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := object.GroupVersionKind()
	deadline := time.Now().Add(30 * time.Second)
	for {
		mapping, err := applier.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err == nil {
			if mapping.Scope.Name() == meta.RESTScopeNameRoot {
				return applier.client.Resource(mapping.Resource), nil
			}
			namespace := object.GetNamespace()
			if namespace == "" {
				namespace = metav1.NamespaceDefault
			}
			return applier.client.Resource(mapping.Resource).Namespace(namespace), nil
		}
		if !meta.IsNoMatchError(err) || time.Now().After(deadline) || ctx.Err() != nil {
			return nil, err
		}
		time.Sleep(100 * time.Millisecond)
		applier.mapper.Reset()
	}
}
