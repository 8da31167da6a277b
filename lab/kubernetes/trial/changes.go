package trial

import (
	"context"
	"fmt"
	"net/http"

	"weir.dev/lab/kubernetes/cluster"
)

// runRouteChanges measures from the write of an HTTPRoute to its effect: one that is new, one that changes, one that goes.
func runRouteChanges(ctx context.Context, in *cluster.Cluster, options Options) error {
	on, err := newSite(ctx, in, options.Pods)
	if err != nil {
		return err
	}
	if err := on.addRoutes(ctx, 0, options.Routes, options.Services); err != nil {
		return err
	}
	sending := startLoad(ctx, on.addr, options.PerSecond)
	asking := newProbe(on.addr)
	telling, err := on.watchTold(ctx, routeOf("changing", ""))
	if err != nil {
		return err
	}
	var created, changed, deleted effects
	fmt.Println("kind,change,written_ms,told_ms,ms")
	for index := range (options.Changes + 2) / 3 {
		path := fmt.Sprintf("/change-%d", index)
		for _, step := range []struct {
			what   string
			into   *effects
			stays  bool
			change func() error
			wanted func(answer) bool
		}{
			{"a new route", &created, true,
				func() error { return on.applier.Create(ctx, markedRoute("changing", "echo", path, "first")) },
				func(got answer) bool { return got.mark == "first" }},
			{"another route", &changed, true,
				func() error { return on.applier.Patch(ctx, markedRoute("changing", "echo", path, "second")) },
				func(got answer) bool { return got.mark == "second" }},
			{"a route that is gone", &deleted, false,
				func() error { return on.applier.Delete(ctx, routeOf("changing", "")) },
				func(got answer) bool { return got.mark == "" && got.status == http.StatusOK }},
		} {
			took, err := asking.awaitEffect(ctx, "", path, step.what, step.change, step.wanted)
			if err != nil {
				return err
			}
			if err := telling.complete(ctx, &took); err != nil {
				return err
			}
			*step.into = append(*step.into, took)
			if !step.stays {
				continue
			}
			if err := telling.settle(ctx); err != nil {
				return err
			}
		}
	}
	created.print("created")
	changed.print("changed")
	deleted.print("deleted")
	return sending.end()
}

// runEndpointChanges measures from the write of an EndpointSlice to the first request that its new endpoint gets.
func runEndpointChanges(ctx context.Context, in *cluster.Cluster, options Options) error {
	on, err := newSite(ctx, in, max(2, options.Pods))
	if err != nil {
		return err
	}
	if err := on.addRoutes(ctx, 0, options.Routes, options.Services); err != nil {
		return err
	}
	pods, err := on.pods(ctx)
	if err != nil {
		return err
	}
	sending := startLoad(ctx, on.addr, options.PerSecond)
	asking := newProbe(on.addr)
	if err := on.pin(ctx, on.applier, pods[0].Status.PodIP); err != nil {
		return err
	}
	if err := asking.await(ctx, "", "/pinned", "the pinned route", func(got answer) bool { return got.pod == pods[0].Name }); err != nil {
		return err
	}
	telling, err := on.watchTold(ctx, pinnedSlice())
	if err != nil {
		return err
	}
	// It tells first of what is there.
	if _, err := telling.next(ctx); err != nil {
		return err
	}
	var moved effects
	fmt.Println("kind,change,written_ms,told_ms,ms")
	for index := range options.Changes {
		to := pods[(index+1)%2]
		took, err := asking.awaitEffect(ctx, "", "/pinned", "another endpoint", func() error { return on.pin(ctx, on.applier, to.Status.PodIP) },
			func(got answer) bool { return got.pod == to.Name })
		if err != nil {
			return err
		}
		if err := telling.complete(ctx, &took); err != nil {
			return err
		}
		moved = append(moved, took)
	}
	moved.print("endpoint")
	return sending.end()
}
