package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// insideVariable is set, to the number of the outer process, in the process that has namespaces of its own.
const insideVariable = "WEIR_KUBERNETES_INSIDE"

// enclose runs this command again as the first process of a process namespace, with a network and mounts of its own.
// When it ends, for whatever reason, the kernel ends every process in it and removes devices, addresses, rules and mounts.
func enclose() int {
	// Pdeathsig follows the thread that started the process.
	runtime.LockOSThread()
	own, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	inner := exec.Command(own, os.Args[1:]...)
	inner.Env = append(os.Environ(), fmt.Sprintf("%s=%d", insideVariable, os.Getpid()))
	inner.Stdout, inner.Stderr = os.Stdout, os.Stderr
	inner.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL, Setpgid: true,
	}
	if err := inner.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "error: cannot make namespaces, which needs root:", err)
		return 1
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for received := range signals {
			_ = inner.Process.Signal(received)
		}
	}()
	if err := inner.Wait(); err != nil {
		if inner.ProcessState.ExitCode() > 0 {
			return inner.ProcessState.ExitCode()
		}
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

// prepareNamespaces gives the process its own /proc and /run, where names of network namespaces are kept.
func prepareNamespaces() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("/proc: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("/run: %w", err)
	}
	return nil
}
