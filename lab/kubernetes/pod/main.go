// The program that becomes a container of the node agent, and the echo server of the trials. A program of its own: the
// other one needs a tenth of a second of processor time to start, and a pod starts two processes.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: weir-pod container SPEC | echo")
		os.Exit(2)
	}
	var err error
	switch os.Args[1] {
	case "container":
		err = runContainer(os.Args[2])
	case "echo":
		err = runEcho()
	default:
		err = fmt.Errorf("no command %q", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
