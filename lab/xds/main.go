// Command xds is the control plane of the tests: the server and the snapshot cache of go-control-plane, which real control planes are made of,
// with resources that tests put in. Built by `cargo xtask xds`; see README.md.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// All nodes see the same resources.
type oneNode struct{}

func (oneNode) ID(*corev3.Node) string { return "all" }

// What clients have said, for tests that look at it.
type heard struct {
	lock     sync.Mutex
	Streams  int      `json:"streams"`
	Opened   int      `json:"opened"`
	Requests int      `json:"requests"`
	Acks     int      `json:"acks"`
	Nacks    []string `json:"nacks"`
	// The versions that the last stream began with, by type.
	InitialVersions map[string]map[string]string `json:"initial_versions"`
	Node            *nodeHeard                   `json:"node"`
}

type nodeHeard struct {
	ID      string `json:"id"`
	Cluster string `json:"cluster"`
	Zone    string `json:"zone"`
	Agent   string `json:"agent"`
}

func (h *heard) update(change func()) {
	h.lock.Lock()
	defer h.lock.Unlock()
	change()
}

func (h *heard) request(_ int64, request *discoveryv3.DeltaDiscoveryRequest) error {
	h.update(func() {
		h.Requests++
		if node := request.GetNode(); node != nil {
			h.Node = &nodeHeard{node.GetId(), node.GetCluster(), node.GetLocality().GetZone(), node.GetUserAgentName()}
			h.InitialVersions = map[string]map[string]string{}
		}
		if versions := request.GetInitialResourceVersions(); len(versions) > 0 {
			h.InitialVersions[request.GetTypeUrl()] = versions
		}
		if refused := request.GetErrorDetail(); refused != nil {
			h.Nacks = append(h.Nacks, refused.GetMessage())
		} else if request.GetResponseNonce() != "" {
			h.Acks++
		}
	})
	return nil
}

// The resources that a test puts in: each is the JSON form of its message.
type resources struct {
	Version   string            `json:"version"`
	Clusters  []json.RawMessage `json:"clusters"`
	Endpoints []json.RawMessage `json:"endpoints"`
	// Seconds that resources stay without being named again.
	TTL float64 `json:"ttl"`
}

// What a turn replaces in its resources by three numbers with dots between them, which no other turn has: "127.@TURN" is an address of its own.
const turnMark = "@TURN"

// Resources that take turns, so many times per second.
type turns struct {
	Rate    float64     `json:"rate"`
	Seconds float64     `json:"seconds"`
	Sets    []resources `json:"sets"`
	// Counted on for each turn.
	Version int `json:"version"`
}

// How the turns went. A turn is late when it began after the time of the next one.
type turnsTaken struct {
	Done    int     `json:"done"`
	Late    int     `json:"late"`
	Seconds float64 `json:"seconds"`
}

func read[M proto.Message](texts []json.RawMessage, empty func() M, ttl float64) ([]types.ResourceWithTTL, error) {
	var read []types.ResourceWithTTL
	for _, text := range texts {
		message := empty()
		if err := protojson.Unmarshal(text, message); err != nil {
			return nil, err
		}
		one := types.ResourceWithTTL{Resource: message}
		if ttl > 0 {
			lifetime := time.Duration(ttl * float64(time.Second))
			one.TTL = &lifetime
		}
		read = append(read, one)
	}
	return read, nil
}

func (r *resources) snapshot() (*cache.Snapshot, error) {
	clusters, err := read(r.Clusters, func() *clusterv3.Cluster { return &clusterv3.Cluster{} }, r.TTL)
	if err != nil {
		return nil, err
	}
	endpoints, err := read(r.Endpoints, func() *endpointv3.ClusterLoadAssignment { return &endpointv3.ClusterLoadAssignment{} }, r.TTL)
	if err != nil {
		return nil, err
	}
	return cache.NewSnapshotWithTTLs(r.Version, map[resource.Type][]types.ResourceWithTTL{
		resource.ClusterType:  clusters,
		resource.EndpointType: endpoints,
	})
}

func marked(texts []json.RawMessage, turn int) []json.RawMessage {
	numbers := fmt.Sprintf("%d.%d.%d", 1+turn>>16, turn>>8&255, turn&255)
	marked := make([]json.RawMessage, len(texts))
	for place, text := range texts {
		marked[place] = bytes.ReplaceAll(text, []byte(turnMark), []byte(numbers))
	}
	return marked
}

// Each turn is a snapshot of its own, as in a control plane that is told of one change after the other.
func (t *turns) take(ctx context.Context, snapshots cache.SnapshotCache) (turnsTaken, error) {
	var taken turnsTaken
	if t.Rate <= 0 || len(t.Sets) == 0 {
		return taken, errors.New("a rate and at least one set are needed")
	}
	began := time.Now()
	total := int(t.Rate * t.Seconds)
	for ; taken.Done < total && ctx.Err() == nil; taken.Done++ {
		due := began.Add(time.Duration(float64(taken.Done) / t.Rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		if time.Since(due).Seconds() > 1/t.Rate {
			taken.Late++
		}
		set := t.Sets[taken.Done%len(t.Sets)]
		version := t.Version + taken.Done
		set.Version = strconv.Itoa(version)
		set.Endpoints = marked(set.Endpoints, version)
		snapshot, err := set.snapshot()
		if err == nil {
			err = snapshots.SetSnapshot(ctx, "all", snapshot)
		}
		if err != nil {
			return taken, err
		}
	}
	taken.Seconds = time.Since(began).Seconds()
	return taken, nil
}

func transport(certificate, key, clients string) (grpc.ServerOption, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients != "" {
		text, err := os.ReadFile(clients)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, errors.New("no authority in " + clients)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return grpc.Creds(credentials.NewTLS(config)), nil
}

func control(ctx context.Context, snapshots cache.SnapshotCache, clients *heard) http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("PUT /resources", func(w http.ResponseWriter, r *http.Request) {
		var wanted resources
		err := json.NewDecoder(r.Body).Decode(&wanted)
		if err == nil {
			var snapshot *cache.Snapshot
			if snapshot, err = wanted.snapshot(); err == nil {
				err = snapshots.SetSnapshot(ctx, "all", snapshot)
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	routes.HandleFunc("POST /turns", func(w http.ResponseWriter, r *http.Request) {
		var wanted turns
		err := json.NewDecoder(r.Body).Decode(&wanted)
		var taken turnsTaken
		if err == nil {
			taken, err = wanted.take(r.Context(), snapshots)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(taken)
	})
	routes.HandleFunc("GET /clients", func(w http.ResponseWriter, _ *http.Request) {
		clients.lock.Lock()
		defer clients.lock.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(clients)
	})
	return routes
}

func printVersion() error {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("the program was built without modules")
	}
	for _, module := range build.Deps {
		if module.Path == "github.com/envoyproxy/go-control-plane" {
			fmt.Println(module.Version)
		}
	}
	return nil
}

func serve() error {
	listen := flag.String("listen", "127.0.0.1:0", "address of the control plane")
	admin := flag.String("admin", "127.0.0.1:0", "address that takes resources: PUT /resources, GET /clients")
	certificate := flag.String("certificate", "", "PEM file: serve TLS")
	key := flag.String("key", "", "PEM file with its key")
	clientCA := flag.String("client-ca", "", "PEM file: ask clients for a certificate")
	version := flag.Bool("version", false, "print the version of go-control-plane")
	flag.Parse()
	if *version {
		return printVersion()
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	clients := &heard{Nacks: []string{}}
	callbacks := server.CallbackFuncs{
		DeltaStreamOpenFunc: func(context.Context, int64, string) error {
			clients.update(func() { clients.Streams++; clients.Opened++ })
			return nil
		},
		DeltaStreamClosedFunc:  func(int64, *corev3.Node) { clients.update(func() { clients.Streams-- }) },
		StreamDeltaRequestFunc: clients.request,
	}
	snapshots := cache.NewSnapshotCacheWithHeartbeating(ctx, true, oneNode{}, nil, 500*time.Millisecond)
	options := []grpc.ServerOption{grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second})}
	if *certificate != "" {
		option, err := transport(*certificate, *key, *clientCA)
		if err != nil {
			return err
		}
		options = append(options, option)
	}
	xds, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	plain, err := net.Listen("tcp", *admin)
	if err != nil {
		return err
	}
	grpcServer := grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(grpcServer, server.NewServer(ctx, snapshots, callbacks))
	go func() { _ = http.Serve(plain, control(ctx, snapshots, clients)) }()
	go func() {
		<-ctx.Done()
		grpcServer.Stop()
	}()
	fmt.Printf("{\"xds\": %d, \"admin\": %d}\n", xds.Addr().(*net.TCPAddr).Port, plain.Addr().(*net.TCPAddr).Port)
	return grpcServer.Serve(xds)
}

func main() {
	if err := serve(); err != nil {
		log.Fatal(err)
	}
}
