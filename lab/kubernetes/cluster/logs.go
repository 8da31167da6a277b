package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WriteLogs keeps what the pods that run now have written, each in a file, also after the context of the cluster has ended.
func (cluster *Cluster) WriteLogs(namespaces []string) error {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var failures []error
	for _, namespace := range namespaces {
		pods, err := cluster.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			failures = append(failures, cluster.writePodLogs(ctx, &pod))
		}
	}
	return errors.Join(failures...)
}

func (cluster *Cluster) writePodLogs(ctx context.Context, pod *corev1.Pod) error {
	folder := filepath.Join(cluster.Logs, "pods")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, container := range pod.Spec.Containers {
		text, err := cluster.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container.Name}).DoRaw(ctx)
		if err != nil {
			return err
		}
		name := pod.Namespace + "." + pod.Name + "." + container.Name + ".log"
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
