package main

import (
	_ "go.etcd.io/etcd/server/v3/embed"
	_ "k8s.io/component-base/cli"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "sigs.k8s.io/gateway-api/conformance"
)

func main() {}
