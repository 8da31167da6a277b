// Package container has what the node agent tells the program that becomes a container.
package container

// ImageFolder has the program of the image in a container.
const ImageFolder = "/image"

// Spec describes one container, on the command line as JSON.
type Spec struct {
	// Root is an empty folder of the machine.
	Root string
	// Network is the file of the network namespace of the pod.
	Network  string
	Addr     string
	Hostname string
	// Image is the program that the image consists of; "" for none.
	Image       string
	Command     []string
	WorkingDir  string
	Environment []string
	Mounts      []Mount

	User, Group      int
	ReadOnlyRoot     bool
	NoNewPrivileges  bool
	DropCapabilities bool
}

// Mount shows a folder or file of the machine in the container.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}
