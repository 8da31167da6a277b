#!/usr/bin/env python3
"""A bystander of 200 requests/s beside clients that would have all of a worker: Weir (one worker) and HAProxy (one thread).

usage: bystander.py WEIR_PROGRAM [SECONDS [PROXY=PROGRAM ...]]

The proxy has the first CPU, everything else the second; the bystander runs before the load there (SCHED_FIFO), so that its
times are those of the proxy. Each request goes to a server, on connections that are kept; a request that is late does not
delay the next one. Rounds are interleaved: every load runs beside each proxy in turn.
"""
import os, selectors, socket, subprocess, sys, tempfile, threading, time
from multiprocessing import Process, Value

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 8
ROUNDS = int(os.environ.get("ROUNDS", "2"))
GET = b"GET /%s HTTP/1.1\r\nHost: a.test\r\n\r\n"
CHUNKS = b"1\r\nx\r\n" * 20_000
POST = b"POST /sink HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"

# Bytes that the greedy clients have taken.
TAKEN = Value("q", 0)


def serve(conn):
    try:
        text = b""
        while True:
            while b"\r\n\r\n" not in text:
                part = conn.recv(65536)
                if not part:
                    return
                text += part
            head, _, text = text.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1]
            if path == b"/small":
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            elif path == b"/large":
                conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
                block = b"x" * 1_000_000
                while True:
                    conn.sendall(block)
            elif path == b"/chunks":
                conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while True:
                    conn.sendall(CHUNKS)
            else:
                while conn.recv(1 << 18):
                    pass
    except OSError:
        pass
    finally:
        conn.close()


def origin(listener, priority):
    if priority:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    while True:
        conn, _ = listener.accept()
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(conn,), daemon=True).start()


def greedy(port, once, forever):
    """Sends `once`, then `forever` again and again; takes all that comes."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(once)

    def send():
        while True:
            sock.sendall(forever)

    if forever:
        threading.Thread(target=send, daemon=True).start()
    while part := sock.recv(1 << 18):
        with TAKEN.get_lock():
            TAKEN.value += len(part)


def bystander(port, seconds):
    """The times of all answers in ms."""
    selector, free, times = selectors.DefaultSelector(), [], []
    start = time.monotonic()
    due, sent_all, open_ = start, 0, {}
    while time.monotonic() < start + seconds or open_:
        now = time.monotonic()
        while due <= now and due < start + seconds:
            if free:
                sock = free.pop()
            else:
                sock = socket.create_connection(("127.0.0.1", port))
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                selector.register(sock, selectors.EVENT_READ)
            open_[sock] = due
            sock.send(GET % b"small")
            due += 1 / 200
        if now > start + seconds + 20:
            times += [(now - begun) * 1000 for begun in open_.values()]
            break
        for key, _ in selector.select(max(0, min(due, start + seconds) - time.monotonic()) if due < start + seconds else 0.05):
            sock = key.fileobj
            if sock not in open_:
                selector.unregister(sock), free.remove(sock)
                continue
            data = sock.recv(65536)
            if data.endswith(b"\r\n\r\nok"):
                times.append((time.monotonic() - open_.pop(sock)) * 1000)
                free.append(sock)
            elif not data:
                times.append(20_000.0)
                open_.pop(sock), selector.unregister(sock)
    return times


LOADS = {
    "none": (0, b"", b""),
    "20 clients pipeline 404s": (20, b"", GET % b"missing" * 1000),
    "20 clients pipeline redirects": (20, b"", GET % b"moved" * 1000),
    "4 fast downloads": (4, GET % b"large", b""),
    "8 responses of one-byte chunks": (8, GET % b"chunks", b""),
    "8 requests of one-byte chunks": (8, POST, CHUNKS),
}


def start_proxy(name, program, folder, small, large, port):
    if name == "haproxy":
        open(f"{folder}/haproxy.cfg", "w").write(
            "global\n nbthread 1\n maxconn 1000\ndefaults\n mode http\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n"
            f"frontend web\n bind 127.0.0.1:{port}\n http-request return status 404 if {{ path /missing }}\n"
            f" http-request redirect location /elsewhere if {{ path /moved }}\n use_backend small if {{ path /small }}\n default_backend large\n"
            f"backend small\n server a 127.0.0.1:{small}\nbackend large\n server a 127.0.0.1:{large}\n")
        command = [program, "-db", "-f", f"{folder}/haproxy.cfg"]
    else:
        open(f"{folder}/weir.toml", "w").write(
            f'process.workers = 1\n[listener.web]\naddress = "127.0.0.1:{port}"\nroute = [\n'
            '{ path = "/missing", respond = { status = 404 } },\n{ path = "/moved", redirect = { to = "/elsewhere" } },\n'
            f'{{ path = "/small", upstream = "small" }},\n{{ path = "/", upstream = "large" }},\n]\n'
            f'[upstream.small]\nservers = ["127.0.0.1:{small}"]\n[upstream.large]\nservers = ["127.0.0.1:{large}"]\n')
        command = [program, "serve", f"{folder}/weir.toml"]
    return subprocess.Popen(["taskset", "-c", "0"] + command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main():
    folder = tempfile.mkdtemp(prefix="bystander-")
    os.sched_setaffinity(0, {1})
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=256) for _ in range(2)]
    small, large = (listener.getsockname()[1] for listener in listeners)
    for listener, priority in zip(listeners, (2, 0)):
        # The server of the bystander runs before that of the load.
        Process(target=origin, args=(listener, priority), daemon=True).start()
    proxies = {"weir": sys.argv[1], "haproxy": "haproxy"}
    proxies.update(pair.split("=", 1) for pair in sys.argv[3:])
    print("round,load,proxy,answers,p50_ms,p99_ms,max_ms,taken_mib_per_s")
    for round_ in range(ROUNDS):
        for load, (count, once, forever) in LOADS.items():
            for name, program in proxies.items():
                with socket.socket() as sock:
                    sock.bind(("127.0.0.1", 0))
                    port = sock.getsockname()[1]
                proxy = start_proxy(name, program, folder, small, large, port)
                while True:
                    try:
                        socket.create_connection(("127.0.0.1", port)).close()
                        break
                    except OSError:
                        time.sleep(0.02)
                clients = [Process(target=greedy, args=(port, once, forever), daemon=True) for _ in range(count)]
                for client in clients:
                    client.start()
                time.sleep(0.5 if count else 0)
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
                TAKEN.value, began = 0, time.monotonic()
                times = sorted(bystander(port, SECONDS))
                rate = TAKEN.value / (time.monotonic() - began) / 2**20
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
                for client in clients:
                    client.kill()
                proxy.terminate()
                proxy.wait()
                at = lambda share: times[min(len(times) - 1, int(len(times) * share))]
                print(f"{round_},{load},{name},{len(times)},{at(.5):.2f},{at(.99):.2f},{times[-1]:.1f},{rate:.0f}", flush=True)


main()
