// Package node is a node agent: it runs each container of a pod as a process in namespaces of its own, with the address,
// files, signals and probes that a kubelet gives it, and makes Services reachable as kube-proxy does. No images (a
// program each), no control groups.
package node

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Settings of the agent.
type Settings struct {
	Client kubernetes.Interface
	// Folder holds volumes and the roots of containers.
	Folder string
	// PodProgram becomes the containers.
	PodProgram string
	// Images maps a part of the name of an image to the program in it. A container of another image sleeps.
	Images map[string]string
	// Server is the address and port of the API server for pods.
	ServerAddr, ServerPort string
}

// Agent is the one node.
type Agent struct {
	Settings
	mutex    sync.Mutex
	pods     map[types.UID]*pod
	numbers  numbers
	services *services
	done     doneRequests
}

// Name of the node.
const Name = "node"

// NewAgent makes the bridge that pods are connected to. The addresses of the bridge can be listened at from then on.
func NewAgent(settings Settings) (*Agent, error) {
	if err := addBridge(); err != nil {
		return nil, err
	}
	return &Agent{Settings: settings, pods: map[types.UID]*pod{}}, nil
}

// Run registers the node and follows pods and Services until the context ends.
func (agent *Agent) Run(ctx context.Context) error {
	if err := agent.serveLogs(); err != nil {
		return err
	}
	if err := agent.register(ctx); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(agent.Client, 0)
	agent.services = newServices(agent.Client, factory)
	pods := factory.Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { agent.seen(ctx, object.(*corev1.Pod)) },
		UpdateFunc: func(_, object any) { agent.seen(ctx, object.(*corev1.Pod)) },
		DeleteFunc: func(object any) {
			if gone, ok := object.(*corev1.Pod); ok {
				if known := agent.pod(gone.UID); known != nil {
					go agent.end(ctx, known, 0)
				}
			}
		},
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	agent.services.run(ctx)
	return ctx.Err()
}

func (agent *Agent) register(ctx context.Context) error {
	nodes := agent.Client.CoreV1().Nodes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: map[string]string{"kubernetes.io/hostname": Name, "kubernetes.io/os": "linux"}}}
	node, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot register the node: %w", err)
	}
	now := metav1.Now()
	node.Status = corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: bridgeAddr}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: logsPort}},
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Registered", LastHeartbeatTime: now, LastTransitionTime: now,
		}},
	}
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// seen takes a pod as the API server has it now. It is the scheduler too: there is one node.
func (agent *Agent) seen(ctx context.Context, object *corev1.Pod) {
	known := agent.pod(object.UID)
	switch {
	case object.DeletionTimestamp != nil && known == nil:
		go agent.forget(ctx, object)
	case object.DeletionTimestamp != nil:
		grace := int64(30)
		if object.DeletionGracePeriodSeconds != nil {
			grace = *object.DeletionGracePeriodSeconds
		}
		go agent.end(ctx, known, grace)
	case object.Spec.NodeName == "":
		go agent.bind(ctx, object)
	case known == nil && object.Status.Phase != corev1.PodSucceeded && object.Status.Phase != corev1.PodFailed:
		agent.begin(ctx, object)
	}
}

func (agent *Agent) bind(ctx context.Context, object *corev1.Pod) {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: object.Name, Namespace: object.Namespace, UID: object.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: Name},
	}
	err := agent.Client.CoreV1().Pods(object.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		log.Printf("cannot bind pod %s/%s: %v", object.Namespace, object.Name, err)
	}
}

// forget lets the API server delete a pod whose processes have ended.
func (agent *Agent) forget(ctx context.Context, object *corev1.Pod) {
	now := int64(0)
	options := metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &object.UID}}
	err := agent.Client.CoreV1().Pods(object.Namespace).Delete(ctx, object.Name, options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
		log.Printf("cannot delete pod %s/%s: %v", object.Namespace, object.Name, err)
	}
}

func (agent *Agent) pod(id types.UID) *pod {
	agent.mutex.Lock()
	defer agent.mutex.Unlock()
	return agent.pods[id]
}

func (agent *Agent) podNamed(namespace, name string) *pod {
	agent.mutex.Lock()
	defer agent.mutex.Unlock()
	for _, known := range agent.pods {
		if known.object.Namespace == namespace && known.object.Name == name {
			return known
		}
	}
	return nil
}

// Problems tells of containers that ended and were started again, with the end of what they wrote.
func (agent *Agent) Problems() []string {
	agent.mutex.Lock()
	defer agent.mutex.Unlock()
	var problems []string
	for _, known := range agent.pods {
		problems = append(problems, known.problems()...)
	}
	return problems
}

func command(words ...string) error {
	output, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

func writeFile(name string, text string) error { return os.WriteFile(name, []byte(text), 0o644) }
