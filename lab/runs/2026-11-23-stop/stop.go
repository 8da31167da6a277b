// Connections that a balancer loses when it is asked to stop gracefully.
//
// 200 clients make a new connection for each request, one after the other, until connections are refused. Half a second later the
// balancer gets its signal. A connection is lost when connect(2) has succeeded and no whole answer came.
//
//	go run stop.go [STOPS]      (WEIR=path of weir; nginx and haproxy in PATH)
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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

const clients = 200

var request = []byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")

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

type balancer struct {
	name    string
	signal  syscall.Signal
	command func(dir string, port, origin int) *exec.Cmd
}

func write(dir, name, text string) string {
	path := filepath.Join(dir, name)
	check(os.WriteFile(path, []byte(text), 0o644))
	return path
}

func weir(dir string, port, origin int) *exec.Cmd {
	path := write(dir, "weir.toml", fmt.Sprintf("process.workers = 2\nlistener.web = { address = \"127.0.0.1:%d\", upstream = \"app\" }\nupstream.app.servers = [\"127.0.0.1:%d\"]\n", port, origin))
	binary := os.Getenv("WEIR")
	if binary == "" {
		binary = "weir"
	}
	return exec.Command(binary, "serve", path)
}

func nginx(listen string) func(dir string, port, origin int) *exec.Cmd {
	return func(dir string, port, origin int) *exec.Cmd {
		path := write(dir, "nginx.conf", fmt.Sprintf(`daemon off; worker_processes 2; pid %[1]s/pid; error_log %[1]s/error.log;
events { worker_connections 4096; }
http { access_log off; client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
upstream app { server 127.0.0.1:%[3]d; keepalive 64; }
server { listen 127.0.0.1:%[2]d%[4]s backlog=4096; location / { proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; } } }
`, dir, port, origin, listen))
		return exec.Command("nginx", "-e", dir+"/error.log", "-c", path)
	}
}

func haproxy(dir string, port, origin int) *exec.Cmd {
	path := write(dir, "haproxy.cfg", fmt.Sprintf("global\n  nbthread 2\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\nlisten app\n  bind 127.0.0.1:%d backlog 4096\n  server a 127.0.0.1:%d\n", port, origin))
	return exec.Command("haproxy", "-db", "-f", path)
}

// once asks on a connection of its own.
func once(address string) (refused bool, err error) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return errors.Is(err, syscall.ECONNREFUSED), err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err = conn.Write(request); err != nil {
		return false, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err == nil && response.StatusCode != 200 {
		err = fmt.Errorf("status %d", response.StatusCode)
	}
	return false, err
}

func stop(b balancer, origin int) (answered, lost, notConnected int64, took time.Duration) {
	dir, err := os.MkdirTemp("", "stop")
	check(err)
	defer os.RemoveAll(dir)
	port := freePort()
	address := "127.0.0.1:" + strconv.Itoa(port)
	command := b.command(dir, port, origin)
	check(command.Start())
	for i := 0; ; i++ {
		if _, err := once(address); err == nil {
			break
		} else if i > 200 {
			panic(b.name + " does not answer: " + err.Error())
		}
		time.Sleep(25 * time.Millisecond)
	}
	var wait sync.WaitGroup
	for range clients {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for {
				refused, err := once(address)
				var dial *net.OpError
				switch {
				case refused:
					return
				case err == nil:
					atomic.AddInt64(&answered, 1)
				case errors.As(err, &dial) && dial.Op == "dial":
					atomic.AddInt64(&notConnected, 1)
				default:
					atomic.AddInt64(&lost, 1)
				}
			}
		}()
	}
	time.Sleep(500 * time.Millisecond)
	began := time.Now()
	check(command.Process.Signal(b.signal))
	exited := make(chan struct{})
	go func() { command.Wait(); close(exited) }()
	wait.Wait()
	select {
	case <-exited:
	case <-time.After(10 * time.Second):
		command.Process.Kill()
	}
	return answered, lost, notConnected, time.Since(began)
}

func main() {
	stops := 20
	if len(os.Args) > 1 {
		stops, _ = strconv.Atoi(os.Args[1])
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	origin := listener.Addr().(*net.TCPAddr).Port
	balancers := []balancer{
		{"Weir, SIGTERM", syscall.SIGTERM, weir},
		{"nginx, SIGQUIT", syscall.SIGQUIT, nginx("")},
		{"nginx with reuseport, SIGQUIT", syscall.SIGQUIT, nginx(" reuseport")},
		{"HAProxy, SIGUSR1", syscall.SIGUSR1, haproxy},
	}
	type sum struct {
		answered, lost, notConnected int64
		most                         int64
		longest                      time.Duration
	}
	sums := make([]sum, len(balancers))
	for range stops {
		for i, b := range balancers {
			answered, lost, notConnected, took := stop(b, origin)
			s := &sums[i]
			s.answered += answered
			s.lost += lost
			s.notConnected += notConnected
			s.most = max(s.most, lost)
			s.longest = max(s.longest, took)
		}
	}
	fmt.Printf("| balancer | stops | answered | lost | most in one stop | connect(2) failed otherwise | longest stop |\n|---|---|---|---|---|---|---|\n")
	for i, b := range balancers {
		s := sums[i]
		fmt.Printf("| %s | %d | %d | %d | %d | %d | %.2f s |\n", b.name, stops, s.answered, s.lost, s.most, s.notConnected, s.longest.Seconds())
	}
}
