#!/usr/bin/env python3
"""Memory of a program per idle TLS 1.3 client, and what of it stays when they have gone.

    idle.py KIND PROGRAM [ROUNDS]      KIND is weir, nginx or haproxy

Each round starts the program with one worker, sends 5 000 requests over kept connections (a program may keep something of its last
requests), then opens 1 000 and 2 000 clients that make one request each and stay. Memory is what the process tree has of its own
(`Anonymous` in smaps_rollup). Then 5 000 clients come, make one request, and leave.
"""

import os
import pathlib
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REQUEST = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"


def origin():
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)

    def serve(conn):
        with conn:
            waiting = b""
            while data := conn.recv(65536):
                waiting += data
                while b"\r\n\r\n" in waiting:
                    waiting = waiting.split(b"\r\n\r\n", 1)[1]
                    conn.sendall(ANSWER)

    def accept():
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=serve, args=(conn,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def configured(kind, program, folder, port, server):
    """The configuration of a program, and its command."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    if kind == "weir":
        text = f"""process.workers = 1
listener.web = {{ address = "127.0.0.1:{port}", upstream = "app", tls = {{ certificates = [{{ certificate = "{cert}", key = "{key}" }}] }} }}
upstream.app = {{ servers = ["127.0.0.1:{server}"] }}
"""
        command = [program, "serve", str(folder / "conf")]
    elif kind == "nginx":
        text = f"""daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/log; user root; worker_rlimit_nofile 20000;
events {{ worker_connections 6000; }}
http {{ access_log off; client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e; keepalive_timeout 600s; keepalive_requests 100000;
  ssl_session_cache shared:x:10m; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {cert}; ssl_certificate_key {key};
  upstream app {{ server 127.0.0.1:{server}; keepalive 16; }}
  server {{ listen 127.0.0.1:{port} ssl backlog=4096;
    location / {{ proxy_pass http://app; proxy_http_version 1.1; proxy_set_header Connection ""; }} }} }}
"""
        command = [program, "-p", str(folder), "-c", str(folder / "conf"), "-e", str(folder / "log")]
    else:
        (folder / "both.pem").write_bytes(cert.read_bytes() + key.read_bytes())
        text = f"""global
  nbthread 1
  maxconn 6000
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 60s
  timeout http-keep-alive 600s
  http-reuse always
frontend web
  bind 127.0.0.1:{port} ssl crt {folder}/both.pem
  default_backend app
backend app
  server a 127.0.0.1:{server}
"""
        command = [program, "-db", "-f", str(folder / "conf")]
    (folder / "conf").write_text(text)
    return command


def tree(pid):
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid] + [one for child in children for one in tree(int(child))]


def memory(pid):
    total = 0
    for one in tree(pid):
        for line in pathlib.Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith("Anonymous:"):
                total += int(line.split()[1]) * 1024
    return total


def ask(conn, times=1):
    for _ in range(times):
        conn.sendall(REQUEST)
        received = b""
        while not received.endswith(b"ok"):
            data = conn.recv(4096)
            assert data, "the program closed"
            received += data


def measure(kind, program):
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9",
             "-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
            check=True, stderr=subprocess.DEVNULL)
        port = free_port()
        with open(folder / "said", "wb") as said:
            process = subprocess.Popen(configured(kind, program, folder, port, origin()), stdout=said, stderr=said)
        try:
            context = ssl.create_default_context(cafile=folder / "cert.pem")
            context.minimum_version = ssl.TLSVersion.TLSv1_3

            def client():
                return context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="a.test")

            for _ in range(100):
                try:
                    client().close()
                    break
                except OSError:
                    time.sleep(0.1)
            for _ in range(100):
                with client() as conn:
                    ask(conn, 50)
            time.sleep(1)
            before = memory(process.pid)
            held, at = [], {}
            for number in range(2000):
                held.append(client())
                ask(held[-1])
                if number + 1 in (1000, 2000):
                    time.sleep(1)
                    at[number + 1] = memory(process.pid)
            for conn in held:
                conn.close()
            held.clear()
            for _ in range(5):
                several = [client() for _ in range(1000)]
                for conn in several:
                    ask(conn)
                for conn in several:
                    conn.close()
            time.sleep(8)
            return (at[2000] - at[1000]) / 1000, memory(process.pid) - before
        except Exception:
            print((folder / "said").read_text()[-2000:], file=sys.stderr)
            raise
        finally:
            process.terminate()
            process.wait()


def main():
    kind, program = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    measured = [measure(kind, program) for _ in range(rounds)]
    for what, figures in zip(("bytes per idle client", "bytes that stay after 5 000 have gone"), zip(*measured)):
        print(f"{kind}: {what}: {statistics.median(figures):.0f} ({min(figures):.0f} to {max(figures):.0f})")


if __name__ == "__main__":
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    main()
