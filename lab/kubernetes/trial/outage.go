package trial

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"weir.dev/lab/kubernetes/cluster"
)

// runOutage stops the API server under load, changes what it has meanwhile by a second one that Weir does not know, and measures how long
// after its return each change has an effect. No request may fail.
func runOutage(ctx context.Context, in *cluster.Cluster, options Options) error {
	on, err := newSite(ctx, in, max(2, options.Pods))
	if err != nil {
		return err
	}
	pods, err := on.pods(ctx)
	if err != nil {
		return err
	}
	if err := on.pin(ctx, on.applier, pods[0].Status.PodIP); err != nil {
		return err
	}
	sending := startLoad(ctx, on.addr, options.PerSecond)
	asking := newProbe(on.addr)
	fmt.Println("time,outage_s,changed_ms,endpoint_ms,deleted_ms,created_ms")
	for round := range options.Times {
		leaving, coming := fmt.Sprintf("path-%d", round), fmt.Sprintf("path-%d", round+1)
		changing := markedRoute("changing", "echo", "/changing", fmt.Sprint(round))
		if err := on.applier.Object(ctx, changing); err != nil {
			return err
		}
		if err := on.applier.Object(ctx, markedRoute(leaving, "echo", "/"+leaving, "here")); err != nil {
			return err
		}
		isHere := func(got answer) bool { return got.mark == "here" }
		if err := asking.await(ctx, "", "/"+leaving, leaving, isHere); err != nil {
			return err
		}
		began, to := time.Now(), pods[(round+1)%2]
		if err := in.StopServer(); err != nil {
			return err
		}
		err := in.WithOtherServer(func(applier *cluster.Applier) error {
			if err := applier.Object(ctx, markedRoute("changing", "echo", "/changing", fmt.Sprint(round+1))); err != nil {
				return err
			}
			if err := on.pin(ctx, applier, to.Status.PodIP); err != nil {
				return err
			}
			if err := applier.Delete(ctx, markedRoute(leaving, "echo", "/"+leaving, "here")); err != nil {
				return err
			}
			return applier.Object(ctx, markedRoute(coming, "echo", "/"+coming, "here"))
		})
		if err != nil {
			return err
		}
		if err := pause(ctx, options.Outage-time.Since(began)); err != nil {
			return err
		}
		if got, err := asking.ask(ctx, "", "/changing"); err != nil || got.mark != fmt.Sprint(round) {
			return fmt.Errorf("in the outage, the route is not as before: %+v, %v", got, err)
		}
		if err := in.StartServer(); err != nil {
			return err
		}
		returned := time.Now()
		var took [4]time.Duration
		for index, effect := range []struct {
			path   string
			wanted func(answer) bool
		}{
			{"/changing", func(got answer) bool { return got.mark == fmt.Sprint(round+1) }},
			{"/pinned", func(got answer) bool { return got.pod == to.Name }},
			{"/" + leaving, func(got answer) bool { return got.mark == "" && got.status == http.StatusOK }},
			{"/" + coming, isHere},
		} {
			if err := asking.await(ctx, "", effect.path, effect.path, effect.wanted); err != nil {
				return err
			}
			took[index] = time.Since(returned)
		}
		fmt.Printf("%d,%.1f,%.0f,%.0f,%.0f,%.0f\n", round+1, returned.Sub(began).Seconds(),
			inMillis(took[0]), inMillis(took[1]), inMillis(took[2]), inMillis(took[3]))
		// The node and the controllers are to be there again, too.
		if err := pause(ctx, 3*time.Second); err != nil {
			return err
		}
	}
	return sending.end()
}
