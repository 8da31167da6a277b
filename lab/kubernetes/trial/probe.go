package trial

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"time"
)

// answer is what a probe got.
type answer struct {
	status int
	pod    string
	mark   string
}

// probe asks by one connection.
type probe struct {
	client *http.Client
	addr   string
}

func newProbe(addr string) *probe {
	return &probe{client: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}, addr: addr}
}

func (of *probe) ask(ctx context.Context, host, path string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+of.addr+path, nil)
	if err != nil {
		return answer{}, err
	}
	if host != "" {
		request.Host = host
	}
	response, err := of.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return answer{}, err
	}
	return answer{response.StatusCode, response.Header.Get("Pod"), response.Header.Get("Mark")}, nil
}

// probePause is between two requests, and so the precision of what is measured. With less, the probe takes a processor from what it measures.
const probePause = time.Millisecond

// effectTimeMax makes a change without an effect an error.
const effectTimeMax = 2 * time.Minute

// await asks until the answer is as wanted.
func (of *probe) await(ctx context.Context, host, path, what string, wanted func(answer) bool) error {
	limited, cancel := context.WithTimeout(ctx, effectTimeMax)
	defer cancel()
	for {
		got, err := of.ask(limited, host, path)
		if err == nil && wanted(got) {
			return nil
		}
		if limited.Err() != nil {
			return fmt.Errorf("%s has no effect: last %+v, %v", what, got, err)
		}
		time.Sleep(probePause)
	}
}

// effect is how long after the beginning of a change something had happened.
type effect struct {
	began time.Time
	// written is when the API server had answered.
	written time.Duration
	// told is when the API server told a watch of it.
	told time.Duration
	// took is when the first response had what was wanted.
	took time.Duration
}

// awaitEffect makes a change and waits for its effect: the API server's own part is in it.
func (of *probe) awaitEffect(ctx context.Context, host, path, what string, change func() error, wanted func(answer) bool) (effect, error) {
	began := time.Now()
	written := make(chan error, 1)
	var answered time.Duration
	go func() {
		err := change()
		answered = time.Since(began)
		written <- err
	}()
	err := of.await(ctx, host, path, what, wanted)
	took := time.Since(began)
	if writeErr := <-written; writeErr != nil {
		return effect{}, fmt.Errorf("%s: %w", what, writeErr)
	}
	return effect{began: began, written: answered, took: took}, err
}

// effects are those of one kind of change.
type effects []effect

// print prints each in turn, and what they come to.
func (of effects) print(kind string) {
	var written, told, took, own latencies
	for index, each := range of {
		fmt.Printf("%s,%d,%.1f,%.1f,%.1f\n", kind, index+1, inMillis(each.written), inMillis(each.told), inMillis(each.took))
		written, told, took = append(written, each.written), append(told, each.told), append(took, each.took)
		own = append(own, each.took-each.told)
	}
	fmt.Printf("# %s: %d changes, ms to the effect: %s\n", kind, len(of), took.summary())
	fmt.Printf("# %s: until the API server answered: %s\n", kind, written.summary())
	fmt.Printf("# %s: until the API server told a watch: %s\n", kind, told.summary())
	fmt.Printf("# %s: from then to the effect: %s\n", kind, own.summary())
}

// latencies are those of one kind of event.
type latencies []time.Duration

// quantile is that of the nearest rank.
func (of latencies) quantile(part float64) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[max(0, int(math.Ceil(part*float64(len(sorted))))-1)]
}

func (of latencies) summary() string {
	return fmt.Sprintf("p50 %.1f, p90 %.1f, p99 %.1f, longest %.1f",
		inMillis(of.quantile(0.5)), inMillis(of.quantile(0.9)), inMillis(of.quantile(0.99)), inMillis(of.quantile(1)))
}

func inMillis(length time.Duration) float64 { return float64(length.Microseconds()) / 1000 }
