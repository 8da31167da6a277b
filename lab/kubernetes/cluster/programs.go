// Package cluster starts a control plane of Kubernetes (etcd, API server, controllers) and one node, in the network
// namespace that it is called in, and applies manifests to it.
package cluster

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// Addresses inside the network namespace: nothing outside can reach or have them.
const (
	etcdClientURL = "http://127.0.0.1:2379"
	etcdPeerURL   = "http://127.0.0.1:2380"
	serverPort    = "6443"
	// otherServerPort is that of a second API server.
	otherServerPort = "6444"
)

// RunProgram is what the commands of the same name do: the processes that a cluster consists of.
func RunProgram(name string, arguments []string) int {
	switch name {
	case "etcd":
		if err := runEtcd(arguments[0]); err != nil {
			fmt.Fprintln(os.Stderr, "etcd:", err)
			return 1
		}
		return 0
	case "apiserver":
		command := apiserver.NewAPIServerCommand()
		command.SetArgs(arguments)
		return cli.Run(command)
	case "controllers":
		command := controllers.NewControllerManagerCommand()
		command.SetArgs(arguments)
		return cli.Run(command)
	}
	fmt.Fprintf(os.Stderr, "no program %q\n", name)
	return 2
}

func runEtcd(folder string) error {
	config := embed.NewConfig()
	config.Dir = folder
	client, err := url.Parse(etcdClientURL)
	if err != nil {
		return err
	}
	peer, err := url.Parse(etcdPeerURL)
	if err != nil {
		return err
	}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.UnsafeNoFsync = true
	config.LogLevel = "warn"
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-signals:
		server.Close()
		return nil
	case err := <-server.Err():
		return err
	}
}
