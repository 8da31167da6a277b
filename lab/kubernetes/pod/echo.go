package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// doneMark begins the line that says which POST the handler has carried out.
const doneMark = "done "

// runEcho answers with the name of its pod and the body, by HTTP/1 and by HTTP/2 without TLS. It writes the number of each POST that it carries out,
// before it answers: such a request must not be repeated. On SIGTERM it does what servers do that know
// nothing of load balancers: it stops listening at once, ends the requests that it has, and goes.
func runEcho() error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	handler := http.NewServeMux()
	handler.HandleFunc("/", func(response http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		if number := request.Header.Get("Trial-Request"); number != "" && request.Method == http.MethodPost {
			// One write is not mixed with that of another request.
			os.Stdout.WriteString(doneMark + number + "\n")
		}
		response.Header().Set("Pod", name)
		response.Write(body)
	})
	port := os.Getenv("PORT")
	if port == "" {
		port = "3000"
	}
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	select {
	case err := <-ended:
		return err
	case <-signals:
	}
	limited, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return server.Shutdown(limited)
}
