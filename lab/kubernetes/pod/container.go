package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"weir.dev/lab/kubernetes/container"
)

// systemFolders of the machine are what every "image" contains, read only.
var systemFolders = []string{"usr", "bin", "sbin", "lib", "lib64", "etc/ssl", "etc/alternatives"}

// runContainer turns this process, which has a mount and a process namespace of its own already, into the container.
func runContainer(encoded string) error {
	var spec container.Spec
	if err := json.Unmarshal([]byte(encoded), &spec); err != nil {
		return err
	}
	// Network namespaces belong to threads: the thread that enters one must be the thread that executes the program.
	runtime.LockOSThread()
	if err := enterNetwork(spec.Network); err != nil {
		return fmt.Errorf("network namespace %s: %w", spec.Network, err)
	}
	if err := buildRoot(&spec); err != nil {
		return err
	}
	if err := syscall.Chroot(spec.Root); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	if err := os.Chdir(spec.WorkingDir); err != nil {
		return err
	}
	if spec.ReadOnlyRoot {
		if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("read-only root: %w", err)
		}
	}
	if err := dropPrivileges(&spec); err != nil {
		return err
	}
	program := spec.Command[0]
	if !strings.Contains(program, "/") {
		program = filepath.Join(container.ImageFolder, program)
	}
	return fmt.Errorf("%s: %w", program, syscall.Exec(program, spec.Command, spec.Environment))
}

func enterNetwork(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return err
	}
	// As containerd does by default: a container without privileges may listen at any port.
	return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0o644)
}

// buildRoot mounts what the container sees as its root.
func buildRoot(spec *container.Spec) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := unix.Mount("tmpfs", spec.Root, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("root: %w", err)
	}
	for _, folder := range systemFolders {
		if err := addSystemFolder(spec.Root, folder); err != nil {
			return err
		}
	}
	if err := addBasics(spec); err != nil {
		return err
	}
	if spec.Image != "" {
		target := filepath.Join(spec.Root, container.ImageFolder, filepath.Base(spec.Image))
		if err := bind(spec.Image, target, true); err != nil {
			return err
		}
	}
	for _, mount := range spec.Mounts {
		if err := bind(mount.Source, filepath.Join(spec.Root, mount.Target), mount.ReadOnly); err != nil {
			return err
		}
	}
	return nil
}

func addSystemFolder(root, folder string) error {
	source, target := "/"+folder, filepath.Join(root, folder)
	info, err := os.Lstat(source)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return bind(source, target, true)
	}
	to, err := os.Readlink(source)
	if err != nil {
		return err
	}
	return os.Symlink(to, target)
}

func addBasics(spec *container.Spec) error {
	in := func(name string) string { return filepath.Join(spec.Root, name) }
	for name, mode := range map[string]os.FileMode{"tmp": 0o777 | os.ModeSticky, "run": 0o755, "var": 0o755, "proc": 0o555, "etc": 0o755, "root": 0o700} {
		if err := os.MkdirAll(in(name), mode); err != nil {
			return err
		}
		if err := os.Chmod(in(name), mode); err != nil {
			return err
		}
	}
	if err := os.Symlink("../run", in("var/run")); err != nil {
		return err
	}
	if err := unix.Mount("proc", in("proc"), "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := bind("/dev", in("dev"), false); err != nil {
		return err
	}
	hosts := fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", spec.Addr, spec.Hostname)
	for name, text := range map[string]string{
		"etc/hosts": hosts, "etc/hostname": spec.Hostname + "\n",
		"etc/passwd": "root:x:0:0::/root:/bin/sh\n", "etc/group": "root:x:0:\n",
	} {
		if err := os.WriteFile(in(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return syscall.Sethostname([]byte(spec.Hostname))
}

// bind shows the file or folder source at target too.
func bind(source, target string, readOnly bool) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(target), 0o755); err == nil {
		// Without truncating: it may be a file that was mounted already.
		var file *os.File
		if file, err = os.OpenFile(target, os.O_CREATE|os.O_RDONLY, 0o644); err == nil {
			err = file.Close()
		}
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("%s at %s: %w", source, target, err)
	}
	if !readOnly {
		return nil
	}
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// dropPrivileges leaves what the security context of the container allows. A user other than root has no capabilities,
// as with a container engine.
func dropPrivileges(spec *container.Spec) error {
	if spec.NoNewPrivileges {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	if spec.DropCapabilities {
		for capability := uintptr(0); capability <= unix.CAP_LAST_CAP; capability++ {
			// Those that setuid needs go with the user.
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil && err != unix.EINVAL {
				return err
			}
		}
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(spec.Group); err != nil {
		return err
	}
	return syscall.Setuid(spec.User)
}
