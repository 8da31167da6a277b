package trial

import (
	"context"
	"fmt"
	"time"

	"weir.dev/lab/kubernetes/cluster"
)

// Options of trials.
type Options struct {
	Name      string
	PerSecond int
	Times     int
	Pods      int
}

// Run runs a trial by its name and prints one line per step, as comma-separated values.
func Run(ctx context.Context, in *cluster.Cluster, options Options) error {
	limited, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	switch options.Name {
	case "rollout":
		steps := []int{}
		for range options.Times {
			steps = append(steps, options.Pods)
		}
		return runSteps(limited, in, options, options.Pods, steps)
	case "scale":
		return runSteps(limited, in, options, 1, []int{options.Pods, 1})
	}
	return fmt.Errorf("no trial %q: rollout or scale", options.Name)
}

// runSteps rolls the Deployment to each number of pods in turn, under load. A step to the same number replaces all pods.
func runSteps(ctx context.Context, in *cluster.Cluster, options Options, first int, steps []int) error {
	on, err := newSite(ctx, in, first)
	if err != nil {
		return err
	}
	sending := newLoad(on.addr)
	// Until the route has an effect.
	for sending.send(false) != nil {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("no answer by way of the Gateway: %w", err)
		}
	}
	loaded, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		sending.run(loaded, options.PerSecond)
		close(ended)
	}()
	fmt.Println("step,pods,seconds,sent,failed")
	revision, pods := 0, first
	for index, wanted := range steps {
		if wanted == pods {
			revision++
		}
		pods = wanted
		began := time.Now()
		if err := on.roll(ctx, wanted, revision); err != nil {
			stop()
			return err
		}
		sending.mutex.Lock()
		fmt.Printf("%d,%d,%.1f,%d,%d\n", index+1, wanted, time.Since(began).Seconds(), sending.sent, sending.failed)
		sending.mutex.Unlock()
	}
	err = pause(ctx, time.Second)
	stop()
	<-ended
	fmt.Printf("end,%d,,%d,%d\n", pods, sending.sent, sending.failed)
	for cause, count := range sending.causes {
		fmt.Printf("# %d times: %s\n", count, cause)
	}
	if err == nil && sending.failed > 0 {
		err = fmt.Errorf("%d of %d requests failed", sending.failed, sending.sent)
	}
	return err
}
