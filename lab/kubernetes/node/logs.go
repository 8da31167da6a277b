package node

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"
)

// serveLogs is the part of a kubelet that the API server asks for what a container wrote.
func (agent *Agent) serveLogs() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(bridgeAddr)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	handler := http.NewServeMux()
	handler.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", agent.answerLogs)
	server := &http.Server{
		Addr: fmt.Sprintf("%s:%d", bridgeAddr, logsPort), Handler: handler,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}},
	}
	go func() { log.Print(server.ListenAndServeTLS("", "")) }()
	return nil
}

func (agent *Agent) answerLogs(response http.ResponseWriter, request *http.Request) {
	since, _ := time.Parse(time.RFC3339, request.URL.Query().Get("sinceTime"))
	known := agent.podNamed(request.PathValue("namespace"), request.PathValue("pod"))
	if known == nil {
		http.NotFound(response, request)
		return
	}
	known.mutex.Lock()
	containers := known.containers
	known.mutex.Unlock()
	for _, each := range containers {
		if each.spec.Name != request.PathValue("container") {
			continue
		}
		each.mutex.Lock()
		for _, written := range each.lines {
			if !written.at.Before(since) {
				fmt.Fprintln(response, written.text)
			}
		}
		each.mutex.Unlock()
	}
}
