// Impatient clients in front of a server that is too slow for all of them.
//
// The server takes one request at a time, 200 ms each: 5 a second. Clients come 10 times a second for 40 s, each on a connection of its
// own, and leave without an answer by closing: all after 1 s, or after 0.5 s to 3 s at random, in which case they also come at random. The
// random numbers are the same for all balancers. How many get an answer?
//
//	go run impatient.go [SECONDS]      (WEIR=path of weir; haproxy in PATH)
package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func write(dir, name, text string) string {
	path := filepath.Join(dir, name)
	check(os.WriteFile(path, []byte(text), 0o644))
	return path
}

type balancer struct {
	name    string
	command func(dir string, port, origin int) *exec.Cmd
}

func weir(settings string) func(dir string, port, origin int) *exec.Cmd {
	return func(dir string, port, origin int) *exec.Cmd {
		path := write(dir, "weir.toml", fmt.Sprintf("listener.web = { address = \"127.0.0.1:%d\", upstream = \"app\"%s }\nupstream.app = { servers = [\"127.0.0.1:%d\"], max_requests = 1, timeouts = { queue = \"60s\", response = \"60s\" } }\n", port, settings, origin))
		binary := os.Getenv("WEIR")
		if binary == "" {
			binary = "weir"
		}
		return exec.Command(binary, "serve", path)
	}
}

func haproxy(option string) func(dir string, port, origin int) *exec.Cmd {
	return func(dir string, port, origin int) *exec.Cmd {
		path := write(dir, "haproxy.cfg", fmt.Sprintf("global\n  nbthread 2\ndefaults\n  mode http\n  timeout connect 60s\n  timeout queue 60s\n  timeout client 60s\n  timeout server 60s\nlisten app\n  bind 127.0.0.1:%d\n  %s\n  server a 127.0.0.1:%d maxconn 1\n", port, option, origin))
		return exec.Command("haproxy", "-db", "-f", path)
	}
}

func ask(address string, patience time.Duration) bool {
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")); err != nil {
		return false
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == 200
}

func main() {
	seconds := 40
	if len(os.Args) > 1 {
		seconds, _ = strconv.Atoi(os.Args[1])
	}
	balancers := []balancer{
		{"Weir", weir("")},
		{"Weir with `abort_on_close = false`", weir(", abort_on_close = false")},
		{"HAProxy with `option abortonclose`", haproxy("option abortonclose")},
		{"HAProxy without", haproxy("no option abortonclose")},
	}
	fmt.Printf("| clients leave after | balancer | clients | useful answers | requests that reached the server | given up there |\n|---|---|---|---|---|---|\n")
	var all sync.WaitGroup
	rows := make([]string, 2*len(balancers))
	for i := range rows {
		all.Add(1)
		go func() {
			defer all.Done()
			rows[i] = run(balancers[i%len(balancers)], seconds, i >= len(balancers))
		}()
	}
	all.Wait()
	for _, row := range rows {
		fmt.Println(row)
	}
}

// run serves with a server of its own; all balancers run at the same time, and use next to no CPU.
func run(b balancer, seconds int, random bool) string {
	dice := rand.New(rand.NewSource(1))
	patience, name := time.Second, "1 s"
	if random {
		name = "0.5 s to 3 s"
	}
	var busy sync.Mutex
	var worked, given int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy.Lock()
		defer busy.Unlock()
		atomic.AddInt64(&worked, 1)
		select {
		case <-time.After(200 * time.Millisecond):
			io.WriteString(w, "hello")
		case <-r.Context().Done():
			atomic.AddInt64(&given, 1)
		}
	}))
	dir, err := os.MkdirTemp("", "impatient")
	check(err)
	defer os.RemoveAll(dir)
	port := freePort()
	command := b.command(dir, port, listener.Addr().(*net.TCPAddr).Port)
	check(command.Start())
	address := "127.0.0.1:" + strconv.Itoa(port)
	for i := 0; !ask(address, time.Second) && i < 100; i++ {
		time.Sleep(50 * time.Millisecond)
	}
	atomic.StoreInt64(&worked, 0)
	var useful int64
	var wait sync.WaitGroup
	clients := 10 * seconds
	next := time.Now()
	for range clients {
		time.Sleep(time.Until(next))
		gap := 100 * time.Millisecond
		if random {
			gap = time.Duration(dice.ExpFloat64() * float64(gap))
			patience = 500*time.Millisecond + time.Duration(dice.Float64()*2.5*float64(time.Second))
		}
		next = next.Add(gap)
		patience := patience
		wait.Add(1)
		go func() {
			defer wait.Done()
			if ask(address, patience) {
				atomic.AddInt64(&useful, 1)
			}
		}()
	}
	wait.Wait()
	command.Process.Signal(syscall.SIGKILL)
	command.Wait()
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %d |", name, b.name, clients, useful, atomic.LoadInt64(&worked), atomic.LoadInt64(&given))
}
