// A Kubernetes cluster on one machine for the tests of Weir: see README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"weir.dev/lab/kubernetes/cluster"
	"weir.dev/lab/kubernetes/manifests"
	"weir.dev/lab/kubernetes/suite"
	"weir.dev/lab/kubernetes/trial"
	"weir.dev/lab/kubernetes/weir"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: weir-kubernetes conformance [OPTION...] | trial NAME [OPTION...] | manifests [OPTION...] FILE... | keep [OPTION...]")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "program":
		os.Exit(cluster.RunProgram(os.Args[2], os.Args[3:]))
	case "suite":
		suite.RunHere(os.Args[2:])
	case "conformance", "keep", "trial", "manifests":
		if os.Getenv(insideVariable) == "" {
			os.Exit(enclose())
		}
		if err := run(os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "error: no command %q\n", os.Args[1])
		os.Exit(2)
	}
}

// run is the command inside its namespaces.
func run(command string, arguments []string) error {
	if err := prepareNamespaces(); err != nil {
		return err
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	tools := filepath.Dir(own)
	flags := flag.NewFlagSet(command, flag.ExitOnError)
	settings := cluster.Settings{
		Folder: "/run/weir-kubernetes", PodProgram: filepath.Join(tools, "pod"),
		Images: map[string]string{"echo-basic": filepath.Join(tools, "echo-basic"), "lab-echo": filepath.Join(tools, "pod")},
	}
	setup := weir.Setup{Definitions: filepath.Join(tools, "crds")}
	options := suite.Options{}
	trials := trial.Options{}
	checked := manifests.Options{Definitions: setup.Definitions}
	flags.IntVar(&trials.PerSecond, "rate", 0, "trial: requests per second meanwhile")
	flags.IntVar(&trials.Times, "times", 1, "trial: how often pods are replaced, routes attached or the API server stopped")
	flags.IntVar(&trials.Pods, "pods", 2, "trial: pods behind the routes")
	flags.IntVar(&trials.Changes, "changes", 200, "trial: changes whose effect is measured")
	flags.IntVar(&trials.Routes, "routes", 0, "trial: further routes")
	flags.IntVar(&trials.Services, "services", 100, "trial: Services that further routes lead to")
	flags.IntVar(&trials.PreStop, "pre-stop", 0, "rollout and scale: seconds for which pods serve before they are told to stop")
	flags.StringVar(&trials.Protocol, "protocol", "", "rollout and scale: protocol to the pods: h2c; by default HTTP/1")
	flags.DurationVar(&trials.Outage, "outage", 30*time.Second, "trial: how long the API server is stopped")
	flags.StringVar(&settings.Logs, "logs", "kubernetes-logs", "folder for what each program writes")
	flags.StringVar(&setup.Program, "weir", "", "Weir's program; without one, everything is accepted by a stub")
	flags.StringVar(&setup.Manifests, "manifests", "", "folder of manifests with Weir's controller; without it, one Deployment per Gateway is made here")
	flags.StringVar(&options.Report, "report", "", "file for the conformance report")
	flags.StringVar(&options.Version, "version", "", "version of Weir for the report")
	flags.StringVar(&options.Test, "test", "", "run one test of the suite only")
	flags.StringVar(&options.Profiles, "profiles", "GATEWAY-HTTP,GATEWAY-TLS,GATEWAY-GRPC", "profiles of the suite")
	flags.StringVar(&options.Skipped, "skip", "", "tests of the suite to leave out")
	flags.StringVar(&options.Features, "features", "", "features to test; by default, those that the GatewayClass lists")
	flags.Func("alternative", "manifests: a file that is judged and not kept; can be given several times", func(file string) error {
		checked.Alternatives = append(checked.Alternatives, file)
		return nil
	})
	flags.StringVar(&checked.Helm, "helm", "", "manifests: the program of Helm, which installs the chart and changes the release; without one, this is left out")
	flags.StringVar(&checked.Chart, "chart", "", "manifests: the folder of the chart")
	flags.Func("releases", "manifests: NAMESPACE/NAME of each release, with commas between", func(text string) (err error) {
		checked.Releases, err = manifests.ParseReleases(text)
		return err
	})
	name := ""
	if command == "trial" {
		if len(arguments) == 0 {
			return fmt.Errorf("which trial? %s", trial.Names())
		}
		name, arguments = arguments[0], arguments[1:]
	}
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if setup.Program != "" {
		settings.Images["weir"] = setup.Program
	}
	settings.Audit = command == "manifests"
	begun, err := cluster.Start(ctx, settings)
	if err != nil {
		return err
	}
	if command == "manifests" {
		checked.Files = flags.Args()
		return errors.Join(manifests.Run(ctx, begun, checked), begun.WriteLogs(nil))
	}
	if err := setup.Apply(ctx, begun); err != nil {
		return fmt.Errorf("cannot set up Weir: %w", err)
	}
	if command == "keep" {
		fmt.Printf("The cluster runs. From another terminal: nsenter -t %s -n -m -p, KUBECONFIG=%s. It ends on SIGTERM.\n", os.Getenv(insideVariable), begun.Kubeconfig())
		<-ctx.Done()
		return nil
	}
	if command == "trial" {
		return errors.Join(trial.Run(ctx, begun, name, trials), begun.WriteLogs(setup.Namespaces()))
	}
	options.Output = filepath.Join(settings.Logs, "suite.log")
	result, err := suite.Run(ctx, begun, options)
	if writeErr := begun.WriteLogs(setup.Namespaces()); writeErr != nil {
		fmt.Fprintln(os.Stderr, "logs of Weir:", writeErr)
	}
	for _, problem := range begun.Agent.Problems() {
		fmt.Println("problem:", problem)
	}
	if err != nil {
		return err
	}
	fmt.Print(result)
	if len(result.Failed) > 0 {
		return fmt.Errorf("%d tests failed: %s", len(result.Failed), strings.Join(result.Failed, ", "))
	}
	return nil
}
