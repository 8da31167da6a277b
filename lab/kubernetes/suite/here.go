// Package suite runs the conformance suite of the Gateway API, which is a Go test, and reads what it prints.
package suite

import (
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

// RunHere runs the suite in this process, which ends with it. The arguments are those of a Go test.
func RunHere(arguments []string) {
	os.Args = append(os.Args[:1], arguments...)
	testing.Main(regexp.MatchString, []testing.InternalTest{{Name: "TestConformance", F: conformance.RunConformance}}, nil, nil)
}
