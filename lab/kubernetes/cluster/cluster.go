package cluster

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"weir.dev/lab/kubernetes/node"
)

// Settings of a cluster.
type Settings struct {
	// Folder has the data of the cluster and its kubeconfig.
	Folder string
	// Logs has what each program wrote.
	Logs       string
	PodProgram string
	Images     map[string]string
	// Audit has the API server write what each service account asks for.
	Audit bool
}

// Cluster runs until its context ends.
type Cluster struct {
	Settings
	Config *rest.Config
	Client kubernetes.Interface
	Agent  *node.Agent
	token  string
	server *exec.Cmd
	ctx    context.Context
}

// readyTime is enough for an API server on a busy machine.
const readyTime = 3 * time.Minute

// controllerNames are those that an ingress controller meets.
var controllerNames = []string{
	"deployment-controller", "replicaset-controller", "endpointslice-controller", "endpointslice-mirroring-controller",
	"namespace-controller", "garbage-collector-controller", "serviceaccount-controller", "job-controller",
	"pod-garbage-collector-controller", "root-ca-certificate-publisher-controller", "disruption-controller",
}

// Start returns when the API server is ready and the node is registered.
func Start(ctx context.Context, settings Settings) (*Cluster, error) {
	begun := &Cluster{Settings: settings, ctx: ctx}
	for _, folder := range []string{settings.Folder, settings.Logs} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	if err := begun.writeSecrets(); err != nil {
		return nil, err
	}
	if err := begun.writeAuditPolicy(); err != nil {
		return nil, err
	}
	agent, err := node.NewAgent(node.Settings{
		Folder: filepath.Join(settings.Folder, "node"), PodProgram: settings.PodProgram, Images: settings.Images,
		ServerAddr: node.BridgeAddr, ServerPort: serverPort,
	})
	if err != nil {
		return nil, err
	}
	if _, err := begun.program("etcd", filepath.Join(settings.Folder, "etcd")); err != nil {
		return nil, err
	}
	if err := begun.StartServer(); err != nil {
		return nil, err
	}
	if _, err := begun.program("controllers", begun.controllerArguments()...); err != nil {
		return nil, err
	}
	agent.Client, begun.Agent = begun.Client, agent
	go func() {
		if err := agent.Run(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(1)
		}
	}()
	return begun, nil
}

// StartServer starts the API server and waits until it is ready. Also for one that was stopped.
func (cluster *Cluster) StartServer() error {
	server, err := cluster.program("apiserver", cluster.serverArguments(serverPort)...)
	if err != nil {
		return err
	}
	cluster.server = server
	return cluster.awaitServer(cluster.Client)
}

// WithOtherServer starts a second API server with the same data, which no other client knows, for as long as `do` runs.
func (cluster *Cluster) WithOtherServer(do func(*Applier) error) error {
	server, err := cluster.program("apiserver", cluster.serverArguments(otherServerPort)...)
	if err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	}()
	config := rest.CopyConfig(cluster.Config)
	config.Host = "https://127.0.0.1:" + otherServerPort
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := cluster.awaitServer(client); err != nil {
		return err
	}
	applier, err := newApplier(config)
	if err != nil {
		return err
	}
	return do(applier)
}

func (cluster *Cluster) awaitServer(client kubernetes.Interface) error {
	deadline := time.Now().Add(readyTime)
	for {
		text, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(2 * time.Second).DoRaw(cluster.ctx)
		if err == nil && string(text) == "ok" {
			return nil
		}
		if cluster.ctx.Err() != nil {
			return cluster.ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the API server is not ready after %s (%v): see %s", readyTime, err, cluster.logFile("apiserver"))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// StopServer kills the API server, as when its machine is gone.
func (cluster *Cluster) StopServer() error {
	if err := cluster.server.Process.Kill(); err != nil {
		return err
	}
	_ = cluster.server.Wait()
	return nil
}

// ServerProcess is the number of the process of the API server.
func (cluster *Cluster) ServerProcess() int { return cluster.server.Process.Pid }

// Kubeconfig is the file for clients in the namespace of the cluster.
func (cluster *Cluster) Kubeconfig() string { return filepath.Join(cluster.Folder, "kubeconfig") }

func (cluster *Cluster) logFile(program string) string {
	return filepath.Join(cluster.Logs, program+".log")
}

func (cluster *Cluster) program(name string, arguments ...string) (*exec.Cmd, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	output, err := os.OpenFile(cluster.logFile(name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer output.Close()
	started := exec.CommandContext(cluster.ctx, own, append([]string{"program", name}, arguments...)...)
	started.Stdout, started.Stderr = output, output
	// A quarter of the processor time of a busy API server is garbage collection otherwise; trials measure Weir beside it. The environment may say otherwise.
	started.Env = append([]string{"GOGC=300", "GOMEMLIMIT=2GiB"}, os.Environ()...)
	started.Cancel = func() error { return started.Process.Signal(syscall.SIGTERM) }
	return started, started.Start()
}

func (cluster *Cluster) file(name string) string { return filepath.Join(cluster.Folder, name) }

// writeSecrets makes the key of service accounts and the token of the administrator.
func (cluster *Cluster) writeSecrets() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	if err := os.WriteFile(cluster.file("accounts.key"), pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	cluster.token = hex.EncodeToString(random)
	tokens := fmt.Sprintf("%s,admin,1,\"system:masters\"\n", cluster.token)
	if err := os.WriteFile(cluster.file("tokens.csv"), []byte(tokens), 0o600); err != nil {
		return err
	}
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:%s", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: %s}}]
contexts: [{name: lab, context: {cluster: lab, user: admin}}]
current-context: lab
`, serverPort, cluster.token)
	if err := os.WriteFile(cluster.Kubeconfig(), []byte(kubeconfig), 0o600); err != nil {
		return err
	}
	cluster.Config = &rest.Config{
		Host: "https://127.0.0.1:" + serverPort, BearerToken: cluster.token,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 2000, Burst: 4000,
	}
	cluster.Client, err = kubernetes.NewForConfig(cluster.Config)
	return err
}

func (cluster *Cluster) serverArguments(port string) []string {
	arguments := []string{
		"--etcd-servers=" + etcdClientURL, "--secure-port=" + port, "--bind-address=0.0.0.0",
		"--advertise-address=" + node.BridgeAddr, "--cert-dir=" + cluster.file("certificates"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + cluster.file("accounts.key"),
		"--service-account-signing-key-file=" + cluster.file("accounts.key"),
		"--token-auth-file=" + cluster.file("tokens.csv"), "--authorization-mode=RBAC",
		"--service-cluster-ip-range=" + node.ServicePrefix, "--kubelet-preferred-address-types=InternalIP",
		"--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000",
	}
	if cluster.Audit {
		arguments = append(arguments, "--audit-policy-file="+cluster.file(auditPolicyName), "--audit-log-path="+cluster.auditLog())
	}
	return arguments
}

func (cluster *Cluster) controllerArguments() []string {
	return []string{
		"--kubeconfig=" + cluster.Kubeconfig(), "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file=" + cluster.file("accounts.key"),
		"--root-ca-file=" + filepath.Join(cluster.file("certificates"), "apiserver.crt"),
		"--kube-api-qps=500", "--kube-api-burst=1000", "--controllers=" + strings.Join(controllerNames, ","),
	}
}
