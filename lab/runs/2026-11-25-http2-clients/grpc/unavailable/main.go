// A server of gRPC that answers every call with UNAVAILABLE and nothing else (Trailers-Only): unavailable PORT
package main

import (
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
)

func main() {
	var calls atomic.Int64
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP1(true)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/calls" {
			fmt.Fprint(w, calls.Load())
			return
		}
		calls.Add(1)
		w.Header().Set("content-type", "application/grpc")
		w.Header().Set("grpc-status", "14")
		w.Header().Set("grpc-message", "try another")
	})
	panic((&http.Server{Addr: "127.0.0.1:" + os.Args[1], Handler: handler, Protocols: protocols}).ListenAndServe())
}
