package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
)

// warnings are what the API server says beside its answers: deprecated versions, fields without an effect, pods that a level of Pod Security
// would refuse.
type warnings struct {
	mutex sync.Mutex
	texts []string
}

// HandleWarningHeader keeps one.
func (of *warnings) HandleWarningHeader(_ int, _, text string) {
	of.mutex.Lock()
	defer of.mutex.Unlock()
	of.texts = append(of.texts, text)
}

// ApplyStrictly applies every document of a YAML text as it is written: unknown and doubled fields are errors, and so is every warning. A dry run
// keeps nothing.
func (cluster *Cluster) ApplyStrictly(ctx context.Context, text []byte, dryRun bool) ([]*unstructured.Unstructured, error) {
	heard := &warnings{}
	config := rest.CopyConfig(cluster.Config)
	config.WarningHandler = heard
	applier, err := newApplier(config)
	if err != nil {
		return nil, err
	}
	force := true
	options := metav1.PatchOptions{FieldManager: fieldManager, Force: &force, FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	var applied []*unstructured.Unstructured
	var failures []error
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return applied, errors.Join(failures...)
		} else if err != nil {
			return nil, err
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			return nil, err
		}
		if len(object.Object) == 0 {
			continue
		}
		resource, err := applier.resource(ctx, object)
		if err != nil {
			return nil, err
		}
		_, err = resource.Patch(ctx, object.GetName(), types.ApplyPatchType, document, options)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err))
		}
		for _, warning := range heard.take() {
			failures = append(failures, fmt.Errorf("%s %s: warning: %s", object.GetKind(), object.GetName(), warning))
		}
		applied = append(applied, object)
	}
}

func (of *warnings) take() []string {
	of.mutex.Lock()
	defer of.mutex.Unlock()
	taken := slices.Clone(of.texts)
	of.texts = nil
	return taken
}
