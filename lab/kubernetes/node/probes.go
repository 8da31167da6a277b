package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// eagerPeriod is the time between probes until the first one succeeds: shorter than any that a kubelet has, so that
// runs are short.
const eagerPeriod = 100 * time.Millisecond

// probe asks a container whether it is ready, by HTTP or TCP, for as long as it runs: also while it ends, as a kubelet.
func (agent *Agent) probe(ctx context.Context, of *pod, each *process) {
	probe := each.spec.ReadinessProbe
	if probe == nil {
		return
	}
	client := &http.Client{
		Timeout:       time.Duration(max(1, probe.TimeoutSeconds)) * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	period, failures, everReady := eagerPeriod, int32(0), false
	for {
		select {
		case <-ctx.Done():
			return
		case <-of.gone:
			return
		case <-time.After(period):
		}
		if err := ask(ctx, client, of, each.spec, probe.ProbeHandler); err == nil {
			failures = 0
			if !everReady {
				everReady, period = true, time.Duration(max(1, probe.PeriodSeconds))*time.Second
			}
		} else {
			failures++
		}
		ready := each.isRunning() && everReady && failures < max(1, probe.FailureThreshold)
		if each.setReady(ready) {
			agent.report(ctx, of)
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
