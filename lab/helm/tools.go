//go:build tools

// Package helm names Helm as a dependency, so that go.mod and go.sum fix what it is built of. Built by `cargo xtask manifests`.
package helm

import _ "helm.sh/helm/v3/cmd/helm"
