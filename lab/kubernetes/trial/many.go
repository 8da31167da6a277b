package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"weir.dev/lab/kubernetes/cluster"
)

// writers write objects at once.
const writers = 16

// manyMark is in the responses of the routes that are made here.
const manyMark = "one of many"

func hostOf(index int) string { return fmt.Sprintf("route-%05d.example", index) }

// atOnce does something for each number, some at once, and returns the first error.
func atOnce(from, to int, do func(index int) error) error {
	var all sync.WaitGroup
	errs := make(chan error, writers)
	for writer := range writers {
		all.Go(func() {
			for index := from + writer; index < to; index += writers {
				if err := do(index); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// addRoutes returns when the routes from a number to another have an effect and are accepted.
func (of *site) addRoutes(ctx context.Context, from, to, services int) error {
	if to == from {
		return nil
	}
	if err := of.createServices(ctx, services); err != nil {
		return err
	}
	watched, stop := context.WithCancel(ctx)
	defer stop()
	watching, err := of.watchAccepted(watched, from, to)
	if err != nil {
		return err
	}
	if err := of.createRoutes(ctx, from, to, services); err != nil {
		return err
	}
	if err := of.awaitRoutes(ctx, from, to); err != nil {
		return err
	}
	return watching.await(ctx, to-from)
}

func (of *site) createServices(ctx context.Context, services int) error {
	return atOnce(0, services, func(index int) error {
		return of.applier.Text(ctx, fmt.Appendf(nil, `{apiVersion: v1, kind: Service, metadata: {name: service-%d, namespace: trial}, spec: {selector: {app: echo}, ports: [{port: 80, targetPort: 3000}]}}`, index))
	})
}

func (of *site) createRoutes(ctx context.Context, from, to, services int) error {
	return atOnce(from, to, func(index int) error {
		// The mark tells its responses from those of the route of all hosts.
		route := markedRoute(fmt.Sprintf("route-%05d", index), fmt.Sprintf("service-%d", index%max(1, services)), "/", manyMark)
		_ = unstructured.SetNestedStringSlice(route.Object, []string{hostOf(index)}, "spec", "hostnames")
		return of.applier.Create(ctx, route)
	})
}

// awaitRoutes returns when a request by each route is answered. It asks for one after the other, not to take the processors from those that
// write them.
func (of *site) awaitRoutes(ctx context.Context, from, to int) error {
	for index := from; index < to; index++ {
		err := of.probe.await(ctx, hostOf(index), "/", hostOf(index), func(got answer) bool { return got.mark == manyMark })
		if err != nil {
			return err
		}
	}
	return nil
}

// acceptedWatch counts the routes of a range that are accepted.
type acceptedWatch struct {
	mutex    sync.Mutex
	accepted map[string]bool
}

// watchAccepted begins before the routes are written.
func (of *site) watchAccepted(ctx context.Context, from, to int) (*acceptedWatch, error) {
	events, err := of.applier.Watch(ctx, routeOf("", ""))
	if err != nil {
		return nil, err
	}
	watching := &acceptedWatch{accepted: map[string]bool{}}
	go func() {
		for ctx.Err() == nil {
			watching.follow(events, from, to)
			// The API server ends the watch of a client that is slow. A new one begins with all objects.
			for {
				events, err = of.applier.Watch(ctx, routeOf("", ""))
				if err == nil || pause(ctx, 100*time.Millisecond) != nil {
					break
				}
			}
		}
	}()
	return watching, nil
}

// follow takes events until there are no more.
func (of *acceptedWatch) follow(events watch.Interface, from, to int) {
	defer events.Stop()
	for event := range events.ResultChan() {
		route, ok := event.Object.(*unstructured.Unstructured)
		if !ok || !isAccepted(route) {
			continue
		}
		number, err := strconv.Atoi(strings.TrimPrefix(route.GetName(), "route-"))
		if err == nil && number >= from && number < to {
			of.mutex.Lock()
			of.accepted[route.GetName()] = true
			of.mutex.Unlock()
		}
	}
}

func (of *acceptedWatch) await(ctx context.Context, wanted int) error {
	for {
		of.mutex.Lock()
		have := len(of.accepted)
		of.mutex.Unlock()
		if have >= wanted {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d routes are accepted: %w", have, wanted, err)
		}
	}
}

// isAccepted tells whether a route has been accepted as it is now.
func isAccepted(route *unstructured.Unstructured) bool {
	parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
	for _, each := range parents {
		parent, _ := each.(map[string]any)
		conditions, _, _ := unstructured.NestedSlice(parent, "conditions")
		for _, one := range conditions {
			condition, _ := one.(map[string]any)
			if condition["type"] == "Accepted" && condition["status"] == "True" && condition["observedGeneration"] == route.GetGeneration() {
				return true
			}
		}
	}
	return false
}

// runAttach measures how long many new routes of one Gateway take until all have an effect, and until all are accepted.
func runAttach(ctx context.Context, in *cluster.Cluster, options Options) error {
	on, err := newSite(ctx, in, options.Pods)
	if err != nil {
		return err
	}
	if err := on.createServices(ctx, options.Services); err != nil {
		return err
	}
	if err := pause(ctx, 2*time.Second); err != nil {
		return err
	}
	fmt.Println("time,routes,written_s,effective_s,accepted_s")
	var last error
	for round := range options.Times {
		from := round * options.Routes
		attaching, stop := context.WithCancel(ctx)
		defer stop()
		watching, err := on.watchAccepted(attaching, from, from+options.Routes)
		if err != nil {
			return err
		}
		began := time.Now()
		written := make(chan time.Duration, 1)
		go func() {
			last = on.createRoutes(ctx, from, from+options.Routes, options.Services)
			written <- time.Since(began)
		}()
		if err := on.awaitRoutes(ctx, from, from+options.Routes); err != nil {
			return err
		}
		effective := time.Since(began)
		if err := watching.await(ctx, options.Routes); err != nil {
			return err
		}
		accepted := time.Since(began)
		fmt.Printf("%d,%d,%.2f,%.2f,%.2f\n", round+1, options.Routes, (<-written).Seconds(), effective.Seconds(), accepted.Seconds())
		if last != nil {
			return last
		}
	}
	return nil
}

// runMemory prints the memory of Weir without routes, with half of them and with all.
func runMemory(ctx context.Context, in *cluster.Cluster, options Options) error {
	on, err := newSite(ctx, in, options.Pods)
	if err != nil {
		return err
	}
	fmt.Println("routes,rss_mb,pss_mb,private_mb")
	before := 0
	for _, routes := range []int{0, options.Routes / 2, options.Routes} {
		if err := on.addRoutes(ctx, before, routes, options.Services); err != nil {
			return err
		}
		before = routes
		// Statuses are echoed, and freed memory is given back.
		if err := pause(ctx, 10*time.Second); err != nil {
			return err
		}
		sizes, err := memoryOf("--kubernetes=trial/front")
		if err != nil {
			return err
		}
		fmt.Printf("%d,%.1f,%.1f,%.1f\n", routes, sizes["Rss"], sizes["Pss"], sizes["Private_Clean"]+sizes["Private_Dirty"])
	}
	return nil
}

// memoryOf is that of the process with an argument, in MB.
func memoryOf(argument string) (map[string]float64, error) {
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		text, err := os.ReadFile(line)
		words := strings.Split(string(text), "\x00")
		if err != nil || len(words) < 2 || words[1] != "serve" || !strings.Contains(string(text), argument) {
			continue
		}
		sizes, err := readSizes(filepath.Join(filepath.Dir(line), "smaps_rollup"))
		// The process that starts programs for it is a copy without memory of its own.
		if err == nil && sizes["Private_Dirty"] > 2 {
			return sizes, nil
		}
	}
	return nil, fmt.Errorf("no process with the argument %s", argument)
}

func readSizes(name string) (map[string]float64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	sizes := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 3 && words[2] == "kB" {
			kilobytes, _ := strconv.ParseFloat(words[1], 64)
			sizes[strings.TrimSuffix(words[0], ":")] = kilobytes * 1024 / 1e6
		}
	}
	return sizes, nil
}
