package cluster

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
)

const auditPolicyName = "audit-policy.yaml"

// auditPolicy has the requests of service accounts written, without what is in them.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts"]}
- {level: None}
`

// Request is one that the API server got from a service account.
type Request struct {
	User     string
	Verb     string
	Group    string
	Resource string
	// Name is empty for lists.
	Namespace, Name string
	Status          int
}

func (cluster *Cluster) auditLog() string { return cluster.logFile("audit") }

func (cluster *Cluster) writeAuditPolicy() error {
	return os.WriteFile(cluster.file(auditPolicyName), []byte(auditPolicy), 0o644)
}

// Requests are those of service accounts until now.
func (cluster *Cluster) Requests() ([]Request, error) {
	file, err := os.Open(cluster.auditLog())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var requests []Request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb string
			User struct{ Username string }
			// Nothing for paths that are no resources.
			ObjectRef *struct{ Namespace, Name, APIGroup, Resource, Subresource string }
			// Nothing while a request is under way.
			ResponseStatus *struct{ Code int }
		}
		// The last line may not be complete yet.
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil || event.ObjectRef == nil || event.ResponseStatus == nil {
			continue
		}
		of := event.ObjectRef
		requests = append(requests, Request{
			User: event.User.Username, Verb: event.Verb, Group: of.APIGroup, Resource: strings.TrimSuffix(of.Resource+"/"+of.Subresource, "/"),
			Namespace: of.Namespace, Name: of.Name, Status: event.ResponseStatus.Code,
		})
	}
	return requests, lines.Err()
}
