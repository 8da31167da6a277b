// Package manifests installs Weir in a cluster by its manifests alone, as its users do, with the rights and the restrictions that these state. It
// has everything serve, and then looks at what the pods may do and what they have asked for.
package manifests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/lab/kubernetes/cluster"
)

// Options of a check.
type Options struct {
	// Definitions is the folder with the resource definitions of the Gateway API.
	Definitions string
	// Files are applied, one after the other.
	Files []string
	// Alternatives have the names of objects of the others: the API server judges them without keeping them.
	Alternatives []string
	Releases     []Release
	// Helm installs the chart in the end. Without the program, nothing does.
	Helm, Chart string
}

// Release is what one installation of the chart is called. Its classes have its name, too.
type Release struct{ Namespace, Name string }

// ParseReleases reads NAMESPACE/NAME, with commas between several.
func ParseReleases(text string) ([]Release, error) {
	var releases []Release
	for each := range strings.SplitSeq(text, ",") {
		namespace, name, found := strings.Cut(each, "/")
		if !found {
			return nil, fmt.Errorf("%q is no NAMESPACE/NAME", each)
		}
		releases = append(releases, Release{namespace, name})
	}
	return releases, nil
}

// timeMax bounds a check.
const timeMax = 8 * time.Minute

// check is one under way.
type check struct {
	Options
	cluster *cluster.Cluster
	applier *cluster.Applier
	applied []*unstructured.Unstructured
}

// Run returns all that is wrong.
func Run(ctx context.Context, in *cluster.Cluster, options Options) error {
	limited, cancel := context.WithTimeout(ctx, timeMax)
	defer cancel()
	applier, err := in.NewApplier()
	if err != nil {
		return err
	}
	of := &check{Options: options, cluster: in, applier: applier}
	if err := applier.Folder(limited, options.Definitions); err != nil {
		return err
	}
	// What is wrong with one step does not hinder the next, but without the objects there is nothing to look at.
	applied := of.apply(limited)
	if err := of.serve(limited); err != nil {
		return errors.Join(applied, err)
	}
	failures := []error{applied}
	steps := []func(context.Context) error{of.checkProcesses, of.checkSelectors, of.checkAdmission, of.checkMoved, of.checkRights, of.checkRefused, of.checkFollows, of.checkLeft}
	// Without releases there is Helm alone.
	if len(of.Releases) == 0 {
		steps = nil
	}
	for _, step := range append(steps, of.checkHelm) {
		failures = append(failures, step(limited))
	}
	return errors.Join(failures...)
}

// apply takes each file as it is written. Pods are judged twice: a warning comes with their Deployment, a refusal with themselves.
func (of *check) apply(ctx context.Context) error {
	var failures []error
	for _, file := range slices.Concat(of.Files, of.Alternatives) {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		isAlternative := slices.Contains(of.Alternatives, file)
		if !isAlternative {
			if err := of.warnInNamespaces(ctx, text); err != nil {
				return err
			}
		}
		objects, err := of.cluster.ApplyStrictly(ctx, text, isAlternative)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", file, err))
		}
		fmt.Printf("applied,%s,%d objects\n", file, len(objects))
		if !isAlternative {
			of.applied = append(of.applied, objects...)
		}
	}
	return errors.Join(failures...)
}

// warnInNamespaces makes the namespaces of a file, with a label that has the API server warn of Deployments whose pods it would refuse.
func (of *check) warnInNamespaces(ctx context.Context, text []byte) error {
	for document := range strings.SplitSeq(string(text), "---\n") {
		if !strings.Contains(document, "\nkind: Namespace\n") {
			continue
		}
		_, name, _ := strings.Cut(document, "\n  name: ")
		name, _, _ = strings.Cut(name, "\n")
		namespace := object("v1", "Namespace", "", name)
		namespace.SetLabels(map[string]string{"pod-security.kubernetes.io/warn": "restricted"})
		if err := of.applier.Create(ctx, namespace); err != nil {
			return err
		}
	}
	return nil
}

func object(version, kind, namespace, name string) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	made.SetNamespace(namespace)
	made.SetName(name)
	return made
}

// awaitMax is long for all that is awaited, also on a busy machine.
const awaitMax = 60 * time.Second

// await tries until there is no error any more.
func await(ctx context.Context, what string, try func() error) error {
	limited, cancel := context.WithTimeout(ctx, awaitMax)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-limited.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
