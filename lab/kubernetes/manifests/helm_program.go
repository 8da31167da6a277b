package manifests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// chartWord stands for the packed chart.
const chartWord = "CHART"

// helmProgram is Helm, with a packed chart.
type helmProgram struct {
	program, kubeconfig, folder, chart string
}

// newHelm packs the chart as a repository has it: without the files that `.helmignore` names.
func newHelm(ctx context.Context, of *check, folder string) (*helmProgram, error) {
	helm := &helmProgram{program: of.Helm, kubeconfig: of.cluster.Kubeconfig(), folder: folder}
	if _, err := helm.run(ctx, "package", of.Chart, "--destination", folder); err != nil {
		return nil, err
	}
	packed, err := filepath.Glob(filepath.Join(folder, "*.tgz"))
	if err != nil {
		return nil, err
	}
	if len(packed) != 1 {
		return nil, fmt.Errorf("Helm has packed %v", packed)
	}
	helm.chart = packed[0]
	return helm, nil
}

// run returns what the program prints.
func (of *helmProgram) run(ctx context.Context, arguments ...string) (string, error) {
	line := []string{"--kubeconfig", of.kubeconfig, "--namespace", released}
	for _, each := range arguments {
		line = append(line, strings.ReplaceAll(each, chartWord, of.chart))
	}
	command := exec.CommandContext(ctx, of.program, line...)
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+of.folder, "HELM_CONFIG_HOME="+of.folder, "HELM_DATA_HOME="+of.folder)
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w: %s%s", strings.Join(arguments, " "), err, &output, &problems)
	}
	if text := problems.String(); strings.Contains(strings.ToLower(text), "warn") {
		return "", fmt.Errorf("helm %s: %s", strings.Join(arguments, " "), text)
	}
	return output.String(), nil
}

// objects are those that Helm has made, as it keeps them.
func (of *helmProgram) objects(ctx context.Context) ([]*unstructured.Unstructured, error) {
	text, err := of.run(ctx, "get", "manifest", released)
	if err != nil {
		return nil, err
	}
	var made []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		each := &unstructured.Unstructured{}
		if err := decoder.Decode(each); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if len(each.Object) > 0 {
			made = append(made, each)
		}
	}
	if len(made) == 0 {
		return nil, errors.New("the release has no objects")
	}
	return made, nil
}

// checkUnknown is an error while Helm knows a release.
func (of *helmProgram) checkUnknown(ctx context.Context) error {
	known, err := of.run(ctx, "list", "--all", "--short")
	if err == nil && strings.TrimSpace(known) != "" {
		err = fmt.Errorf("Helm still knows %s", known)
	}
	return err
}
