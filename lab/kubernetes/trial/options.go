package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir.dev/lab/kubernetes/cluster"
)

// Options of trials.
type Options struct {
	// PerSecond is the number of requests per second during a trial; 0: none.
	PerSecond int
	// Times is how often pods are replaced, or the API server is stopped.
	Times int
	// Pods of the Deployment behind the routes.
	Pods int
	// Changes whose effect is measured.
	Changes int
	// Routes beside the measured ones.
	Routes int
	// Services that these routes lead to.
	Services int
	// PreStop is for how many seconds pods serve before they are told to stop, in rollouts.
	PreStop int
	// Protocol to the pods in rollouts: h2c, or "" for HTTP/1.
	Protocol string
	// Outage is how long the API server is stopped.
	Outage time.Duration
}

// timeMax bounds a trial.
const timeMax = 40 * time.Minute

var trials = map[string]func(context.Context, *cluster.Cluster, Options) error{
	"rollout":  runRollout,
	"scale":    runScale,
	"route":    runRouteChanges,
	"endpoint": runEndpointChanges,
	"attach":   runAttach,
	"memory":   runMemory,
	"outage":   runOutage,
	"ingress":  runIngress,
}

// Names of all trials.
func Names() string {
	names := make([]string, 0, len(trials))
	for name := range trials {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Run runs a trial by its name and prints comma-separated values, and what they come to in lines that begin with #.
func Run(ctx context.Context, in *cluster.Cluster, name string, options Options) error {
	run, known := trials[name]
	if !known {
		return fmt.Errorf("no trial %q: %s", name, Names())
	}
	limited, cancel := context.WithTimeout(ctx, timeMax)
	defer cancel()
	return run(limited, in, options)
}
