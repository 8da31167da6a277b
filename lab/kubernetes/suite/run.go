package suite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"weir.dev/lab/kubernetes/cluster"
	"weir.dev/lab/kubernetes/weir"
)

// Options of one run.
type Options struct {
	Report, Version, Profiles, Test, Skipped, Features string
	// Output has everything that the suite prints.
	Output string
}

// Result of a run: names of tests as the suite has them.
type Result struct {
	Passed, Failed, Skipped []string
	// Reasons has lines with an error, by test.
	Reasons map[string][]string
	Took    time.Duration
}

// limit of one run; it takes 2 to 4 minutes.
const limit = 20 * time.Minute

// Run runs the suite against a cluster. An error means that it could not run, not that tests failed.
func Run(ctx context.Context, against *cluster.Cluster, options Options) (*Result, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	output, err := os.Create(options.Output)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	run := exec.CommandContext(limited, own, append([]string{"suite"}, options.arguments()...)...)
	run.Env = append(os.Environ(), "KUBECONFIG="+against.Kubeconfig())
	run.Stdout, run.Stderr = output, output
	began := time.Now()
	runErr := run.Run()
	if ctx.Err() != nil {
		return nil, errors.New("stopped by a signal")
	}
	if limited.Err() != nil {
		return nil, fmt.Errorf("the suite did not end within %s: see %s", limit, options.Output)
	}
	result, err := readOutput(options.Output)
	if err != nil {
		return nil, err
	}
	result.Took = time.Since(began).Round(time.Second)
	if len(result.Passed)+len(result.Failed) == 0 {
		return nil, fmt.Errorf("the suite ran no test (%v): see %s", runErr, options.Output)
	}
	if runErr != nil && len(result.Failed) == 0 {
		result.Failed = []string{"TestConformance"}
	}
	return result, nil
}

// A Gateway can ask for one of these addresses: the node gives it to a Service that wants it, or has none such.
const (
	usableAddress   = "10.97.255.7"
	unusableAddress = "192.0.2.7"
)

func (options *Options) arguments() []string {
	all := []string{
		"-test.v", "-test.timeout=" + limit.String(), "--gateway-class=" + weir.ClassName,
		"--conformance-profiles=" + options.Profiles, "--cleanup-base-resources=false", "--debug=false",
		"--organization=Weir", "--project=weir", "--url=https://github.com/weir-proxy/weir", "--version=" + options.Version,
		"--contact=https://github.com/weir-proxy/weir",
		"--usable-address=" + usableAddress, "--unusable-address=" + unusableAddress,
	}
	for _, optional := range []struct{ name, value string }{
		{"report-output", options.Report}, {"run-test", options.Test}, {"skip-tests", options.Skipped}, {"supported-features", options.Features},
	} {
		if optional.value != "" {
			all = append(all, "--"+optional.name+"="+optional.value)
		}
	}
	return all
}

var (
	verdict = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): TestConformance/([^/ ]+) \(`)
	inside  = regexp.MustCompile(`^=== (?:RUN|CONT|NAME)\s+TestConformance/([^/ ]+)`)
	reason  = regexp.MustCompile(`^\s+(\S+\.go:\d+: .*|Error:.*|Messages:.*)`)
)

// reasonsMax are kept of each test.
const reasonsMax = 3

func readOutput(name string) (*Result, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	result := &Result{Reasons: map[string][]string{}}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(make([]byte, 64*1024), 16*1024*1024)
	current := ""
	for scanner.Scan() {
		result.readLine(scanner.Text(), &current)
	}
	return result, scanner.Err()
}

func (result *Result) readLine(text string, current *string) {
	if found := inside.FindStringSubmatch(text); found != nil {
		*current = found[1]
		return
	}
	if found := verdict.FindStringSubmatch(text); found != nil {
		switch found[1] {
		case "PASS":
			result.Passed = append(result.Passed, found[2])
		case "FAIL":
			result.Failed = append(result.Failed, found[2])
		default:
			result.Skipped = append(result.Skipped, found[2])
		}
		return
	}
	if found := reason.FindStringSubmatch(text); found != nil && (strings.HasPrefix(found[1], "Error:") || strings.HasPrefix(found[1], "Messages:")) {
		if len(result.Reasons[*current]) < reasonsMax {
			result.Reasons[*current] = append(result.Reasons[*current], strings.Join(strings.Fields(found[1]), " "))
		}
	}
}

// String names each failed test with the first reasons.
func (result *Result) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Conformance: %d tests passed, %d failed, %d left out as not supported, in %s.\n",
		len(result.Passed), len(result.Failed), len(result.Skipped), result.Took)
	slices.Sort(result.Failed)
	for _, name := range result.Failed {
		fmt.Fprintf(&text, "  failed: %s\n", name)
		for _, why := range result.Reasons[name] {
			fmt.Fprintf(&text, "    %s\n", why)
		}
	}
	return text.String()
}
