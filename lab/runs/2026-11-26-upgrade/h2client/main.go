// Requests over HTTP/2 without TLS: h2client URL CONNECTIONS STREAMS SECONDS. Prints how many succeeded and failed.
//
// Go's client repeats what a server has not begun when it ends a connection (GOAWAY), as browsers and gRPC do; h2load does not.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	number := func(at int) int { n, _ := strconv.Atoi(os.Args[at]); return n }
	end := time.Now().Add(time.Duration(number(4)) * time.Second)
	var ok, failed atomic.Int64
	var first sync.Once
	var wait sync.WaitGroup
	for range number(2) {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
		for range number(3) {
			wait.Go(func() {
				for time.Now().Before(end) {
					response, err := client.Get(os.Args[1])
					if err == nil {
						_, err = io.Copy(io.Discard, response.Body)
						response.Body.Close()
						if err == nil && (response.StatusCode != 200 || response.ProtoMajor != 2) {
							err = fmt.Errorf("%s %s", response.Proto, response.Status)
						}
					}
					if err != nil {
						failed.Add(1)
						first.Do(func() { fmt.Println("first failure:", err) })
						continue
					}
					ok.Add(1)
				}
			})
		}
	}
	wait.Wait()
	fmt.Printf("%d succeeded, %d failed\n", ok.Load(), failed.Load())
}
