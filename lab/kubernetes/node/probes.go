package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// eagerPeriod is the time between probes until the first one succeeds: shorter than any that a kubelet has, so that
// runs are short.
const eagerPeriod = 100 * time.Millisecond

// probing is one probe of a container, as it has gone since the container was started last.
type probing struct {
	spec     *corev1.Probe
	client   *http.Client
	began    time.Time
	failures int32
	// passed is whether it has succeeded once.
	passed bool
}

func newProbing(spec *corev1.Probe) *probing {
	return &probing{spec: spec, client: &http.Client{
		Timeout:       time.Duration(max(1, spec.TimeoutSeconds)) * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// wait is false when the pod is gone.
func (of *probing) wait(ctx context.Context, pod *pod) bool {
	period := eagerPeriod
	if of.passed {
		period = time.Duration(max(1, of.spec.PeriodSeconds)) * time.Second
	}
	select {
	case <-ctx.Done():
		return false
	case <-pod.gone:
		return false
	case <-time.After(period):
		return true
	}
}

// ask probes once, and begins anew with a container that was started again.
func (of *probing) ask(ctx context.Context, pod *pod, each *process) {
	if began := each.startedAt(); began != of.began {
		of.began, of.failures, of.passed = began, 0, false
	}
	if err := ask(ctx, of.client, pod, each.spec, of.spec.ProbeHandler); err != nil {
		of.failures++
	} else {
		of.failures, of.passed = 0, true
	}
}

// failed is whether it has failed too often in a row. Until its first success, probes come faster than their period.
func (of *probing) failed() bool {
	threshold := time.Duration(max(1, of.spec.FailureThreshold))
	if of.passed {
		return of.failures >= int32(threshold)
	}
	return time.Since(of.began) >= threshold*time.Duration(max(1, of.spec.PeriodSeconds))*time.Second
}

// probe asks a container whether it is ready, by HTTP or TCP, for as long as it runs: also while it ends, as a kubelet.
func (agent *Agent) probe(ctx context.Context, of *pod, each *process) {
	if each.spec.StartupProbe != nil || each.spec.LivenessProbe != nil {
		go agent.probeLife(ctx, of, each)
	}
	if each.spec.ReadinessProbe == nil {
		return
	}
	probing := newProbing(each.spec.ReadinessProbe)
	for probing.wait(ctx, of) {
		if each.isStarting() {
			continue
		}
		probing.ask(ctx, of, each)
		ready := each.isRunning() && probing.passed && probing.failures < max(1, probing.spec.FailureThreshold)
		if each.setReady(ready) {
			agent.report(ctx, of)
		}
	}
}

// probeLife ends a container that does not start in time, or does not live any more. It is started again as every container that ends.
func (agent *Agent) probeLife(ctx context.Context, of *pod, each *process) {
	startup, liveness := each.spec.StartupProbe, each.spec.LivenessProbe
	if startup == nil {
		startup = liveness
	}
	starting := newProbing(startup)
	var living *probing
	if liveness != nil {
		living = newProbing(liveness)
	}
	current := starting
	for current.wait(ctx, of) {
		if of.isStopping() {
			return
		}
		if each.startedAt() != starting.began || !starting.passed {
			current = starting
		}
		if !each.isRunning() {
			continue
		}
		current.ask(ctx, of, each)
		switch {
		case current.failed():
			log.Printf("container %s of pod %s/%s is ended: its probe fails", each.spec.Name, of.object.Namespace, of.object.Name)
			each.stop(time.Now().Add(10 * time.Second))
			current, starting.began = starting, time.Time{}
		case current == starting && starting.passed:
			each.setStarted()
			if living == nil {
				return
			}
			current = living
		}
	}
}

func (each *process) setReady(ready bool) bool {
	each.mutex.Lock()
	defer each.mutex.Unlock()
	changed := each.ready != ready
	each.ready = ready
	return changed
}

func ask(ctx context.Context, client *http.Client, of *pod, spec *corev1.Container, probe corev1.ProbeHandler) error {
	switch {
	case probe.HTTPGet != nil:
		scheme := "http"
		if probe.HTTPGet.Scheme == corev1.URISchemeHTTPS {
			scheme = "https"
		}
		url := fmt.Sprintf("%s://%s:%d%s", scheme, of.addr, portOf(spec, probe.HTTPGet.Port), probe.HTTPGet.Path)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		for _, header := range probe.HTTPGet.HTTPHeaders {
			request.Header.Set(header.Name, header.Value)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode >= http.StatusBadRequest {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		return nil
	case probe.TCPSocket != nil:
		target := fmt.Sprintf("%s:%d", of.addr, portOf(spec, probe.TCPSocket.Port))
		connection, err := net.DialTimeout("tcp", target, client.Timeout)
		if err != nil {
			return err
		}
		return connection.Close()
	}
	return fmt.Errorf("a kind of probe that this agent lacks")
}

func portOf(spec *corev1.Container, port intstr.IntOrString) int {
	if port.Type == intstr.Int {
		return port.IntValue()
	}
	for _, named := range spec.Ports {
		if named.Name == port.StrVal {
			return int(named.ContainerPort)
		}
	}
	return 0
}
