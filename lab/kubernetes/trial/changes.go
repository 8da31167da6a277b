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
	var created, changed, deleted latencies
	fmt.Println("kind,change,ms")
	for index := range (options.Changes + 2) / 3 {
		path := fmt.Sprintf("/change-%d", index)
		route := markedRoute("changing", path, "first")
		took, err := asking.awaitEffect(ctx, "", path, "a new route", func() error { return on.applier.Object(ctx, route) },
			func(got answer) bool { return got.mark == "first" })
		if err != nil {
			return err
		}
		created = append(created, took)
		route = markedRoute("changing", path, "second")
		took, err = asking.awaitEffect(ctx, "", path, "another route", func() error { return on.applier.Object(ctx, route) },
			func(got answer) bool { return got.mark == "second" })
		if err != nil {
			return err
		}
		changed = append(changed, took)
		took, err = asking.awaitEffect(ctx, "", path, "a route that is gone", func() error { return on.applier.Delete(ctx, route) },
			func(got answer) bool { return got.mark == "" && got.status == http.StatusOK })
		if err != nil {
			return err
		}
		deleted = append(deleted, took)
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
	var moved latencies
	fmt.Println("kind,change,ms")
	for index := range options.Changes {
		to := pods[(index+1)%2]
		took, err := asking.awaitEffect(ctx, "", "/pinned", "another endpoint", func() error { return on.pin(ctx, on.applier, to.Status.PodIP) },
			func(got answer) bool { return got.pod == to.Name })
		if err != nil {
			return err
		}
		moved = append(moved, took)
	}
	moved.print("endpoint")
	return sending.end()
}
