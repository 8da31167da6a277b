package node

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"weir.dev/lab/kubernetes/container"
)

// process is a container that runs, or has run.
type process struct {
	pod  *pod
	spec *corev1.Container

	mutex    sync.Mutex
	command  *exec.Cmd
	ended    chan struct{}
	began    time.Time
	restarts int
	ready    bool
	// starting is until the startup probe has succeeded.
	starting bool
	lines    []line
}

type line struct {
	at   time.Time
	text string
}

// linesMax bounds what is kept of the output of one container.
const linesMax = 20_000

func newProcess(of *pod, spec *corev1.Container) *process {
	return &process{pod: of, spec: spec, ready: spec.ReadinessProbe == nil}
}

func (each *process) start(agent *Agent, volumes map[string]string) error {
	spec, err := agent.containerSpec(each, volumes)
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	started := exec.Command(agent.PodProgram, "container", string(encoded))
	started.Env = []string{}
	started.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	started.Stdout, started.Stderr = writer, writer
	err = started.Start()
	writer.Close()
	if err != nil {
		reader.Close()
		return err
	}
	ended := make(chan struct{})
	each.mutex.Lock()
	each.command, each.ended, each.began = started, ended, time.Now()
	each.starting, each.ready = each.spec.StartupProbe != nil, each.spec.ReadinessProbe == nil
	each.mutex.Unlock()
	go each.readLines(agent, reader)
	go func() {
		_ = started.Wait()
		close(ended)
	}()
	return nil
}

func (each *process) readLines(agent *Agent, reader io.ReadCloser) {
	defer reader.Close()
	scanner := bufio.NewScanner(reader)
	scanner.Buffer(make([]byte, 64*1024), 1024*1024)
	for scanner.Scan() {
		if agent.done.note(each.pod.object.Name, scanner.Text()) {
			continue
		}
		each.mutex.Lock()
		each.lines = append(each.lines, line{time.Now(), scanner.Text()})
		if len(each.lines) > linesMax {
			each.lines = slices.Clone(each.lines[linesMax/2:])
		}
		each.mutex.Unlock()
	}
}

func (each *process) endedNow() chan struct{} {
	each.mutex.Lock()
	defer each.mutex.Unlock()
	return each.ended
}

func (each *process) startedAt() time.Time {
	each.mutex.Lock()
	defer each.mutex.Unlock()
	return each.began
}

func (each *process) isStarting() bool {
	each.mutex.Lock()
	defer each.mutex.Unlock()
	return each.starting
}

func (each *process) setStarted() {
	each.mutex.Lock()
	defer each.mutex.Unlock()
	each.starting = false
}

func (each *process) isRunning() bool {
	ended := each.endedNow()
	if ended == nil {
		return false
	}
	select {
	case <-ended:
		return false
	default:
		return true
	}
}

// exitCode is -1 while it runs and for a process that a signal ended.
func (each *process) exitCode() int {
	each.mutex.Lock()
	defer each.mutex.Unlock()
	if each.command == nil || each.command.ProcessState == nil {
		return -1
	}
	return each.command.ProcessState.ExitCode()
}

func (each *process) lastLines() string {
	each.mutex.Lock()
	defer each.mutex.Unlock()
	var texts []string
	for _, last := range each.lines[max(0, len(each.lines)-5):] {
		texts = append(texts, last.text)
	}
	return strings.Join(texts, " | ")
}

func (each *process) signal(signal syscall.Signal) {
	each.mutex.Lock()
	defer each.mutex.Unlock()
	if each.command != nil {
		_ = each.command.Process.Signal(signal)
	}
}

// stop returns when the process has ended.
func (each *process) stop(deadline time.Time) {
	ended := each.endedNow()
	if ended == nil {
		return
	}
	if before := each.spec.Lifecycle; before != nil && before.PreStop != nil && before.PreStop.Sleep != nil {
		pause := time.Duration(before.PreStop.Sleep.Seconds) * time.Second
		select {
		case <-time.After(min(pause, time.Until(deadline))):
		case <-ended:
		}
	}
	if each.pod.object.DeletionTimestamp == nil || time.Until(deadline) > 0 {
		each.signal(syscall.SIGTERM)
	}
	select {
	case <-ended:
	case <-time.After(time.Until(deadline)):
		each.signal(syscall.SIGKILL)
		<-ended
	}
}

func (agent *Agent) containerSpec(each *process, volumes map[string]string) (*container.Spec, error) {
	object := each.pod.object
	root := filepath.Join(agent.podFolder(each.pod), "root-"+each.spec.Name)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	spec := &container.Spec{
		Root: root, Network: networkFile(each.pod.number), Addr: each.pod.addr, Hostname: object.Name,
		Image: agent.imageOf(each.spec.Image), WorkingDir: each.spec.WorkingDir, Environment: agent.environment(each),
	}
	if spec.WorkingDir == "" {
		spec.WorkingDir = "/"
	}
	spec.Command = slices.Concat(each.spec.Command, each.spec.Args)
	switch {
	case spec.Image == "":
		spec.Command = []string{"/bin/sleep", "infinity"}
	case len(each.spec.Command) == 0:
		spec.Command = slices.Concat([]string{filepath.Base(spec.Image)}, each.spec.Args)
	case filepath.Base(each.spec.Command[0]) == filepath.Base(spec.Image):
		spec.Command[0] = filepath.Base(spec.Image)
	}
	for _, mount := range each.spec.VolumeMounts {
		source, known := volumes[mount.Name]
		if !known {
			return nil, fmt.Errorf("volume %s of container %s is of a kind that this agent lacks", mount.Name, each.spec.Name)
		}
		spec.Mounts = append(spec.Mounts, container.Mount{
			Source: filepath.Join(source, mount.SubPath), Target: mount.MountPath, ReadOnly: mount.ReadOnly,
		})
	}
	// A mount inside another comes after it.
	slices.SortStableFunc(spec.Mounts, func(a, b container.Mount) int { return len(a.Target) - len(b.Target) })
	secure(spec, object.Spec.SecurityContext, each.spec.SecurityContext)
	return spec, nil
}

func secure(spec *container.Spec, pod *corev1.PodSecurityContext, own *corev1.SecurityContext) {
	if pod != nil && pod.RunAsUser != nil {
		spec.User = int(*pod.RunAsUser)
	}
	if pod != nil && pod.RunAsGroup != nil {
		spec.Group = int(*pod.RunAsGroup)
	}
	if own == nil {
		return
	}
	if own.RunAsUser != nil {
		spec.User = int(*own.RunAsUser)
	}
	if own.RunAsGroup != nil {
		spec.Group = int(*own.RunAsGroup)
	}
	spec.ReadOnlyRoot = own.ReadOnlyRootFilesystem != nil && *own.ReadOnlyRootFilesystem
	spec.NoNewPrivileges = own.AllowPrivilegeEscalation != nil && !*own.AllowPrivilegeEscalation
	spec.DropCapabilities = own.Capabilities != nil && slices.Contains(own.Capabilities.Drop, "ALL")
}

func (agent *Agent) imageOf(name string) string {
	for part, program := range agent.Images {
		if strings.Contains(name, part) {
			return program
		}
	}
	return ""
}

func (agent *Agent) environment(each *process) []string {
	object := each.pod.object
	all := []string{
		"PATH=" + container.ImageFolder + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + object.Name,
		"KUBERNETES_SERVICE_HOST=" + agent.ServerAddr, "KUBERNETES_SERVICE_PORT=" + agent.ServerPort,
	}
	for _, variable := range each.spec.Env {
		value := variable.Value
		if from := variable.ValueFrom; from != nil && from.FieldRef != nil {
			value = fieldOf(each.pod, from.FieldRef.FieldPath)
		}
		all = append(all, variable.Name+"="+value)
	}
	return all
}

// fieldOf is what the downward API has of a pod.
func fieldOf(of *pod, path string) string {
	switch path {
	case "metadata.name":
		return of.object.Name
	case "metadata.namespace":
		return of.object.Namespace
	case "metadata.uid":
		return string(of.object.UID)
	case "spec.nodeName":
		return Name
	case "spec.serviceAccountName":
		return of.object.Spec.ServiceAccountName
	case "status.podIP":
		return of.addr
	case "status.hostIP":
		return bridgeAddr
	}
	for _, kind := range []struct {
		prefix string
		values map[string]string
	}{{"metadata.labels['", of.object.Labels}, {"metadata.annotations['", of.object.Annotations}} {
		if key, found := strings.CutPrefix(path, kind.prefix); found {
			return kind.values[strings.TrimSuffix(key, "']")]
		}
	}
	return ""
}
