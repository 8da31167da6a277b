package node

import (
	"context"
	"fmt"
	"log"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pod is what runs of one.
type pod struct {
	object *corev1.Pod
	number int
	addr   string
	// stopped is closed when the pod begins to end.
	stopped chan struct{}
	// gone is closed when its processes have ended.
	gone chan struct{}

	mutex      sync.Mutex
	stopping   bool
	containers []*process
	reported   string
	reporting  sync.Mutex
	began      time.Time
}

// begin starts a pod that is seen for the first time.
func (agent *Agent) begin(ctx context.Context, object *corev1.Pod) {
	number := agent.numbers.take()
	begun := &pod{
		object: object, number: number, addr: podAddr(number),
		stopped: make(chan struct{}), gone: make(chan struct{}), began: time.Now(),
	}
	agent.mutex.Lock()
	agent.pods[object.UID] = begun
	agent.mutex.Unlock()
	go func() {
		if err := agent.start(ctx, begun); err != nil && ctx.Err() == nil {
			log.Printf("pod %s/%s: %v", object.Namespace, object.Name, err)
		}
	}()
}

// start makes network and volumes, then the containers. Containers that initialise run one after the other before.
func (agent *Agent) start(ctx context.Context, begun *pod) error {
	if err := addNetwork(begun.number); err != nil {
		return err
	}
	volumes, err := agent.makeVolumes(ctx, begun)
	if err != nil {
		return err
	}
	for index := range begun.object.Spec.InitContainers {
		first := newProcess(begun, &begun.object.Spec.InitContainers[index])
		if err := first.start(agent, volumes); err != nil {
			return err
		}
		<-first.ended
		if code := first.exitCode(); code != 0 {
			return fmt.Errorf("container %s ended with %d: %s", first.spec.Name, code, first.lastLines())
		}
	}
	begun.mutex.Lock()
	if begun.stopping {
		begun.mutex.Unlock()
		return nil
	}
	for index := range begun.object.Spec.Containers {
		begun.containers = append(begun.containers, newProcess(begun, &begun.object.Spec.Containers[index]))
	}
	begun.mutex.Unlock()
	for _, each := range begun.containers {
		if err := each.start(agent, volumes); err != nil {
			return err
		}
		go agent.supervise(ctx, begun, each, volumes)
		go agent.probe(ctx, begun, each)
	}
	agent.report(ctx, begun)
	return nil
}

// supervise starts a container again that has ended though its pod has not.
func (agent *Agent) supervise(ctx context.Context, begun *pod, each *process, volumes map[string]string) {
	pause := time.Second
	for {
		<-each.endedNow()
		policy := begun.object.Spec.RestartPolicy
		if begun.isStopping() || policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && each.exitCode() == 0 {
			agent.report(ctx, begun)
			return
		}
		agent.report(ctx, begun)
		select {
		case <-begun.stopped:
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Minute)
		if begun.isStopping() {
			return
		}
		each.restarts++
		if err := each.start(agent, volumes); err != nil {
			log.Printf("container %s of pod %s/%s: %v", each.spec.Name, begun.object.Namespace, begun.object.Name, err)
			return
		}
		agent.report(ctx, begun)
	}
}

func (begun *pod) isStopping() bool {
	begun.mutex.Lock()
	defer begun.mutex.Unlock()
	return begun.stopping
}

// end lets the containers of a pod end: what they want to do before, SIGTERM, and after the time of grace SIGKILL.
func (agent *Agent) end(ctx context.Context, known *pod, graceSeconds int64) {
	known.mutex.Lock()
	if known.stopping {
		known.mutex.Unlock()
		if graceSeconds == 0 {
			known.kill(syscall.SIGKILL)
		}
		return
	}
	known.stopping = true
	close(known.stopped)
	containers := known.containers
	known.mutex.Unlock()
	deadline := time.Now().Add(time.Duration(graceSeconds) * time.Second)
	var all sync.WaitGroup
	for _, each := range containers {
		all.Go(func() { each.stop(deadline) })
	}
	all.Wait()
	close(known.gone)
	if err := removeNetwork(known.number); err != nil && ctx.Err() == nil {
		log.Print(err)
	}
	agent.removeVolumes(known)
	agent.forget(ctx, known.object)
	agent.mutex.Lock()
	delete(agent.pods, known.object.UID)
	agent.mutex.Unlock()
	agent.numbers.give(known.number)
}

func (begun *pod) kill(signal syscall.Signal) {
	begun.mutex.Lock()
	defer begun.mutex.Unlock()
	for _, each := range begun.containers {
		each.signal(signal)
	}
}

func (begun *pod) problems() []string {
	begun.mutex.Lock()
	defer begun.mutex.Unlock()
	var problems []string
	for _, each := range begun.containers {
		if each.restarts > 0 {
			problems = append(problems, fmt.Sprintf("container %s of pod %s/%s ended %d times, last with %d: %s", each.spec.Name,
				begun.object.Namespace, begun.object.Name, each.restarts, each.exitCode(), each.lastLines()))
		}
	}
	return problems
}

func (agent *Agent) podFolder(of *pod) string {
	return filepath.Join(agent.Folder, "pods", string(of.object.UID))
}
