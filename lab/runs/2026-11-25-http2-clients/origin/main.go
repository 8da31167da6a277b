// The server behind Weir, and the one that clients are compared on directly: HTTP/1 and h2c on one port, the same over TLS on another.
//
// origin PLAIN-PORT TLS-PORT CERTIFICATE KEY [FOLDER-OF-PAGES]. Start with GODEBUG=http2xconnect=1, so that it takes extended CONNECT (RFC 8441).
package main

import (
	"bufio"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The bytes of every body: a fixed pattern, repeated.
var pattern = func() []byte {
	block := make([]byte, 65521)
	x := uint32(1)
	for i := range block {
		x = x*1664525 + 1013904223
		block[i] = byte(x >> 24)
	}
	return block
}()

var (
	lock    sync.Mutex
	states  = map[string]string{}
	reports = map[string]string{}
)

func set(id, state string) { lock.Lock(); states[id] = state; lock.Unlock() }

func size(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil {
		http.Error(w, "no number", 400)
		return
	}
	if wait, err := time.ParseDuration(r.FormValue("wait")); err == nil {
		time.Sleep(wait)
	}
	w.Header().Set("content-type", "application/octet-stream")
	w.Header().Set("content-length", strconv.Itoa(n))
	for n > 0 {
		part := min(n, len(pattern))
		if _, err := w.Write(pattern[:part]); err != nil {
			return
		}
		n -= part
	}
}

// Answers with length and digest of the body.
func digest(w http.ResponseWriter, r *http.Request) {
	hash := sha256.New()
	n, err := io.Copy(hash, r.Body)
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	fmt.Fprintf(w, "%d %s", n, hex.EncodeToString(hash.Sum(nil)))
}

// Answers each part of the body as it comes.
func echo(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	control.EnableFullDuplex()
	w.WriteHeader(200)
	control.Flush()
	part := make([]byte, 65536)
	for {
		n, err := r.Body.Read(part)
		if n > 0 {
			if _, err := w.Write(part[:n]); err != nil {
				return
			}
			control.Flush()
		}
		if err != nil {
			return
		}
	}
}

// Twenty events, one each 50 ms.
func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("content-type", "text/event-stream")
	w.Header().Set("cache-control", "no-store")
	control := http.NewResponseController(w)
	for i := range 20 {
		fmt.Fprintf(w, "id: %d\ndata: event %d\n\n", i, i)
		if control.Flush() != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// A line each 50 ms for a minute, or until the client has gone; /state tells which.
func slow(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("id")
	set(id, "running")
	control := http.NewResponseController(w)
	for i := range 1200 {
		fmt.Fprintf(w, "line %d\n", i)
		control.Flush()
		select {
		case <-r.Context().Done():
			set(id, "cancelled")
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
	set(id, "finished")
}

func state(w http.ResponseWriter, r *http.Request) {
	// Waits up to two seconds for the end of the stream.
	id := r.FormValue("id")
	for range 200 {
		lock.Lock()
		state := states[id]
		lock.Unlock()
		if state != "running" {
			fmt.Fprint(w, state)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprint(w, "running")
}

// WebSocket: echoes messages until a close frame; by Upgrade and by extended CONNECT.
func websocket(w http.ResponseWriter, r *http.Request) {
	var in io.Reader
	var out io.Writer
	flush := func() {}
	if r.Method == "CONNECT" {
		if r.Header.Get(":protocol") != "websocket" {
			http.Error(w, "no websocket", 400)
			return
		}
		control := http.NewResponseController(w)
		w.WriteHeader(200)
		control.Flush()
		in, out, flush = bufio.NewReader(r.Body), w, func() { control.Flush() }
	} else {
		if !strings.EqualFold(r.Header.Get("upgrade"), "websocket") {
			http.Error(w, "no upgrade", 400)
			return
		}
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		defer conn.Close()
		proof := sha1.Sum([]byte(r.Header.Get("sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
			base64.StdEncoding.EncodeToString(proof[:]))
		in, out = both.Reader, conn
	}
	head := make([]byte, 14)
	for {
		if _, err := io.ReadFull(in, head[:2]); err != nil {
			return
		}
		n := uint64(head[1] & 127)
		switch n {
		case 126:
			io.ReadFull(in, head[2:4])
			n = uint64(binary.BigEndian.Uint16(head[2:4]))
		case 127:
			io.ReadFull(in, head[2:10])
			n = binary.BigEndian.Uint64(head[2:10])
		}
		var mask [4]byte
		if head[1]&128 != 0 {
			io.ReadFull(in, mask[:])
		}
		if n > 16<<20 {
			return
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(in, payload); err != nil {
			return
		}
		for i := range payload {
			payload[i] ^= mask[i%4]
		}
		frame := []byte{head[0]}
		switch {
		case n < 126:
			frame = append(frame, byte(n))
		case n < 65536:
			frame = append(frame, 126, byte(n>>8), byte(n))
		default:
			frame = append(frame, 127)
			frame = binary.BigEndian.AppendUint64(frame, n)
		}
		out.Write(append(frame, payload...))
		flush()
		if head[0]&15 == 8 {
			return
		}
	}
}

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/size/{n}", size)
	mux.HandleFunc("/digest", digest)
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/events", events)
	mux.HandleFunc("/slow", slow)
	mux.HandleFunc("/state", state)
	mux.HandleFunc("/ws", websocket)
	// Answers when the client has gone.
	mux.HandleFunc("/hold", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/version", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) })
	mux.HandleFunc("/status/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		w.WriteHeader(n)
	})
	// Response trailers.
	mux.HandleFunc("/trailer", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("trailer", "x-end")
		fmt.Fprint(w, "body")
		w.Header().Set("x-end", "here")
	})
	// A browser leaves its results here, and the driver fetches them.
	mux.HandleFunc("/report", func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		defer lock.Unlock()
		if r.Method == "POST" {
			text, _ := io.ReadAll(r.Body)
			reports[r.FormValue("id")] += string(text) + "\n"
		} else {
			fmt.Fprint(w, reports[r.FormValue("id")])
		}
	})
	if len(os.Args) > 5 {
		mux.Handle("/pages/", http.StripPrefix("/pages/", http.FileServer(http.Dir(os.Args[5]))))
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	plain := &http.Server{Addr: "127.0.0.1:" + os.Args[1], Handler: mux, Protocols: protocols}
	secure := &http.Server{Addr: "127.0.0.1:" + os.Args[2], Handler: mux, Protocols: protocols}
	go func() { panic(secure.ListenAndServeTLS(os.Args[3], os.Args[4])) }()
	panic(plain.ListenAndServe())
}
