package node

import (
	"fmt"
	"slices"
	"sync"
)

const (
	bridge     = "weir-pods"
	bridgeAddr = "10.244.0.1"
	podPrefix  = "10.244.0.0/16"
	// ServicePrefix has the cluster addresses, as the API server is told.
	ServicePrefix = "10.96.0.0/16"
	// balancerPrefix has the addresses of Services of the type LoadBalancer.
	balancerPrefix = "10.97.0.0/16"
	logsPort       = 10250
)

// BridgeAddr is the address of the node, where pods reach the API server.
const BridgeAddr = bridgeAddr

// addBridge connects pods with the network namespace of the agent. All of it goes with that namespace.
func addBridge() error {
	for _, words := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", bridge, "type", "bridge"},
		{"ip", "addr", "add", bridgeAddr + "/16", "dev", bridge},
		{"ip", "link", "set", bridge, "up"},
		// Translated to the address of a pod before they leave.
		{"ip", "route", "add", ServicePrefix, "dev", bridge},
		{"ip", "route", "add", balancerPrefix, "dev", bridge},
	} {
		if err := command(words...); err != nil {
			return err
		}
	}
	return writeFile("/proc/sys/net/ipv4/ip_forward", "1")
}

// addNetwork makes the network namespace of a pod.
func addNetwork(number int) error {
	name, outer, inner := networkName(number), fmt.Sprintf("pod%d", number), fmt.Sprintf("in%d", number)
	for _, words := range [][]string{
		{"ip", "netns", "add", name},
		{"ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name},
		{"ip", "link", "set", outer, "master", bridge, "up"},
		{"ip", "-n", name, "link", "set", "lo", "up"},
		{"ip", "-n", name, "link", "set", inner, "name", "eth0"},
		{"ip", "-n", name, "addr", "add", podAddr(number) + "/16", "dev", "eth0"},
		{"ip", "-n", name, "link", "set", "eth0", "up"},
		{"ip", "-n", name, "route", "add", "default", "via", bridgeAddr},
	} {
		if err := command(words...); err != nil {
			return err
		}
	}
	return nil
}

// removeNetwork also removes the pair of devices.
func removeNetwork(number int) error { return command("ip", "netns", "del", networkName(number)) }

func networkName(number int) string { return fmt.Sprintf("pod%d", number) }

func networkFile(number int) string { return "/run/netns/" + networkName(number) }

func podAddr(number int) string { return fmt.Sprintf("10.244.%d.%d", number/250, number%250+2) }

// numbers of pods give addresses and names of devices. One that is free again is used as late as possible, so that
// traffic to an old address is noticed.
type numbers struct {
	mutex sync.Mutex
	next  int
	free  []int
}

const numbersMax = 60_000

func (all *numbers) take() int {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	if all.next < numbersMax {
		all.next++
		return all.next - 1
	}
	number := all.free[0]
	all.free = slices.Delete(all.free, 0, 1)
	return number
}

func (all *numbers) give(number int) {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	all.free = append(all.free, number)
}
