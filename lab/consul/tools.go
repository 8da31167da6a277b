//go:build tools

// Package consul names Consul as a dependency, so that go.mod and go.sum fix what it is built of: Consul's own module has replacements, which
// `go install` refuses. Built by `cargo xtask consul`.
package consul

import _ "github.com/hashicorp/consul"
