// Go's net/http: goclient BASE CA FILE-OF-100-MB. Its client has no extended CONNECT.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"time"
)

var base string
var client *http.Client

func digest(r io.Reader) (int64, string) {
	hash := sha256.New()
	n, err := io.Copy(hash, r)
	if err != nil {
		return n, err.Error()
	}
	return n, hex.EncodeToString(hash.Sum(nil))[:16]
}

func get(target string) (string, string) {
	answer, err := client.Get(base + target)
	if err != nil {
		return err.Error(), ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err.Error(), ""
	}
	sum := sha256.Sum256(text)
	if len(text) > 200 {
		text = text[:200]
	}
	return fmt.Sprint(answer.StatusCode, " ", answer.Proto, " ", hex.EncodeToString(sum[:8])), string(text)
}

func post(target, path string) (*http.Response, error) {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	request, _ := http.NewRequest("POST", base+target, file)
	stat, _ := file.Stat()
	request.ContentLength = stat.Size()
	return client.Do(request)
}

func main() {
	base = os.Args[1]
	pem, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	for _, n := range []int{0, 1, 612, 16384, 100000, 1000000} {
		line, _ := get(fmt.Sprint("/size/", n))
		fmt.Println("get-"+fmt.Sprint(n), line)
	}
	for _, n := range []int{404, 204} {
		line, _ := get(fmt.Sprint("/status/", n))
		fmt.Println("status-"+fmt.Sprint(n), line)
	}
	if answer, err := client.Get(base + "/trailer"); err == nil {
		io.Copy(io.Discard, answer.Body)
		fmt.Println("trailer", answer.Trailer.Get("x-end"))
	}
	line, _ := get("/size/100000000")
	fmt.Println("get-100MB", line)
	if answer, err := post("/digest", os.Args[3]); err == nil {
		text, _ := io.ReadAll(answer.Body)
		fmt.Println("post-100MB", string(text))
	} else {
		fmt.Println("post-100MB failed:", err)
	}
	if answer, err := post("/echo", os.Args[3]); err == nil {
		n, sum := digest(answer.Body)
		fmt.Println("echo-100MB", n, sum)
	} else {
		fmt.Println("echo-100MB failed:", err)
	}
	if answer, err := client.Get(base + "/events"); err == nil {
		hash, part, first := sha256.New(), make([]byte, 4096), time.Time{}
		for {
			n, err := answer.Body.Read(part)
			hash.Write(part[:n])
			if first.IsZero() {
				first = time.Now()
			}
			if err != nil {
				break
			}
		}
		way := "together"
		if time.Since(first) > 700*time.Millisecond {
			way = "one-by-one"
		}
		fmt.Println("events", hex.EncodeToString(hash.Sum(nil))[:16], way)
	}
	var wait sync.WaitGroup
	var lock sync.Mutex
	results := map[string]int{}
	for i := range 1000 {
		wait.Go(func() {
			line, _ := get(fmt.Sprint("/size/10000?wait=100ms&i=", i))
			lock.Lock()
			results[line]++
			lock.Unlock()
		})
	}
	wait.Wait()
	fmt.Println("streams-1000", results)
	id := fmt.Sprint("go-", time.Now().UnixNano())
	ctx, cancel := context.WithCancel(context.Background())
	request, _ := http.NewRequestWithContext(ctx, "GET", base+"/slow?id="+id, nil)
	var slow string
	trace := func(name *string) *httptrace.ClientTrace {
		return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { *name = info.Conn.LocalAddr().String() }}
	}
	request = request.WithContext(httptrace.WithClientTrace(ctx, trace(&slow)))
	if answer, err := client.Do(request); err == nil {
		part := make([]byte, 100)
		for range 3 {
			answer.Body.Read(part)
		}
		cancel()
		answer.Body.Close()
		_, state := get("/state?id=" + id)
		var after string
		request, _ := http.NewRequest("GET", base+"/size/1000", nil)
		answer, err := client.Do(request.WithContext(httptrace.WithClientTrace(context.Background(), trace(&after))))
		if err != nil {
			fmt.Println("cancel failed:", err)
			return
		}
		n, _ := digest(answer.Body)
		fmt.Println("cancel", state, "then", n, "same connection:", slow == after)
	} else {
		fmt.Println("cancel failed:", err)
	}
	cancel()
}
