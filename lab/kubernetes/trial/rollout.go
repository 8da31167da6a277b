package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir.dev/lab/kubernetes/cluster"
)

func runRollout(ctx context.Context, in *cluster.Cluster, options Options) error {
	steps := []int{}
	for range options.Times {
		steps = append(steps, options.Pods)
	}
	return runSteps(ctx, in, options, options.Pods, steps)
}

func runScale(ctx context.Context, in *cluster.Cluster, options Options) error {
	return runSteps(ctx, in, options, 1, []int{options.Pods, 1})
}

// runSteps rolls the Deployment to each number of pods in turn, under load. A step to the same number replaces all pods.
func runSteps(ctx context.Context, in *cluster.Cluster, options Options, first int, steps []int) error {
	lines := siteLines{}
	if options.PreStop > 0 {
		lines.lifecycle = fmt.Sprintf("lifecycle: {preStop: {sleep: {seconds: %d}}}", options.PreStop)
	}
	if options.Protocol != "" {
		lines.protocol = ", appProtocol: kubernetes.io/" + options.Protocol
	}
	on, err := newSiteWith(ctx, in, first, lines)
	if err != nil {
		return err
	}
	sending := startLoad(ctx, on.addr, options.PerSecond)
	fmt.Println("step,pods,seconds,sent,failed")
	revision, pods := 0, first
	for index, wanted := range steps {
		if wanted == pods {
			revision++
		}
		pods = wanted
		began := time.Now()
		if err := on.roll(ctx, wanted, revision); err != nil {
			_ = sending.end()
			return err
		}
		sent, failed := sending.counts()
		fmt.Printf("%d,%d,%.1f,%d,%d\n", index+1, wanted, time.Since(began).Seconds(), sent, failed)
	}
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	failed := sending.end()
	// What pods have written is read soon after.
	if err := pause(ctx, time.Second); err != nil {
		return err
	}
	return errors.Join(failed, sending.judgePosts(in.Agent.DoneBy))
}
