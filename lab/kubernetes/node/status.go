package node

import (
	"context"
	"encoding/json"
	"log"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// report writes the status of a pod if it has changed.
func (agent *Agent) report(ctx context.Context, of *pod) {
	of.reporting.Lock()
	defer of.reporting.Unlock()
	pods := agent.Client.CoreV1().Pods(of.object.Namespace)
	for {
		status := of.status()
		encoded, _ := json.Marshal(status.ContainerStatuses)
		summary := string(status.Phase) + string(encoded)
		if summary == of.reported {
			return
		}
		object, err := pods.Get(ctx, of.object.Name, metav1.GetOptions{})
		if err != nil || object.UID != of.object.UID {
			return
		}
		object.Status = status
		_, err = pods.UpdateStatus(ctx, object, metav1.UpdateOptions{})
		if err == nil {
			of.reported = summary
			return
		}
		if !apierrors.IsConflict(err) {
			if !apierrors.IsNotFound(err) && ctx.Err() == nil {
				log.Printf("cannot write the status of pod %s/%s: %v", object.Namespace, object.Name, err)
			}
			return
		}
	}
}

func (of *pod) status() corev1.PodStatus {
	of.mutex.Lock()
	defer of.mutex.Unlock()
	began := metav1.NewTime(of.began)
	status := corev1.PodStatus{
		PodIP: of.addr, PodIPs: []corev1.PodIP{{IP: of.addr}}, StartTime: &began,
		HostIP: bridgeAddr, HostIPs: []corev1.HostIP{{IP: bridgeAddr}},
	}
	ready, running, failed := true, false, false
	for _, each := range of.containers {
		container := each.status()
		ready = ready && container.Ready
		running = running || container.State.Terminated == nil
		failed = failed || container.State.Terminated != nil && container.State.Terminated.ExitCode != 0
		status.ContainerStatuses = append(status.ContainerStatuses, container)
	}
	switch {
	case running:
		status.Phase = corev1.PodRunning
	case failed:
		status.Phase = corev1.PodFailed
	default:
		status.Phase = corev1.PodSucceeded
	}
	is := func(kind corev1.PodConditionType, holds bool) {
		value := corev1.ConditionFalse
		if holds {
			value = corev1.ConditionTrue
		}
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: value, LastTransitionTime: metav1.Now()})
	}
	is(corev1.PodScheduled, true)
	is(corev1.PodInitialized, true)
	is(corev1.ContainersReady, ready)
	is(corev1.PodReady, ready)
	return status
}

func (each *process) status() corev1.ContainerStatus {
	running := each.isRunning()
	final := !running && (each.pod.stopping || each.pod.object.Spec.RestartPolicy != corev1.RestartPolicyAlways)
	code := int32(each.exitCode())
	each.mutex.Lock()
	defer each.mutex.Unlock()
	status := corev1.ContainerStatus{
		Name: each.spec.Name, Image: each.spec.Image, ImageID: each.spec.Image, RestartCount: int32(each.restarts),
		Ready: each.ready && running, Started: &running,
	}
	switch {
	case running:
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(each.began.Truncate(1e9))}
	case final:
		status.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: code}
	default:
		status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}
	}
	return status
}
