#!/usr/bin/env python3
"""The last bytes of a server through Weir, nginx and HAProxy: how many reach the client.

usage: last_bytes.py WEIR_PROGRAM [ROUNDS]

tcp      a server of a TCP proxy answers with 20 000 bytes (every second time 2 000), leaves unread input and closes (its system sends a reset)
ws       a server of a WebSocket sends a close frame of 4 bytes and does the same
cut      a server announces 4 000 000 bytes (every second time a chunk of that size), sends 2 000 000 and closes;
         the client reads the head and begins to read the rest 50 ms later

each with plain clients and with TLS. Interleaved: every round asks each proxy once.
"""
import os, socket, ssl, subprocess, sys, tempfile, threading, time
from concurrent.futures import ThreadPoolExecutor

ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
ANSWER = bytes(i // 7 % 251 for i in range(20_000))
HALF = bytes(i // 7 % 251 for i in range(2_000_000))
SWITCH = (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
          b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
STREAM = os.environ.get("NGINX_STREAM", "/usr/lib/nginx/modules/ngx_stream_module.so")
HANDSHAKE = (b"GET /socket HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
             b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
CLOSE_FRAME = b"\x88\x02\x03\xe8"


def read_head(sock):
    text = b""
    while b"\r\n\r\n" not in text:
        part = sock.recv(65536)
        if not part:
            raise EOFError(text)
        text += part
    head, _, rest = text.partition(b"\r\n\r\n")
    return head, rest


def serve_tcp(conn):
    conn.sendall(ANSWER[:int(conn.recv(6))])


def serve_ws(conn):
    read_head(conn)
    conn.sendall(SWITCH)
    conn.recv(6)
    conn.sendall(CLOSE_FRAME)


def serve_cut(conn):
    head, _ = read_head(conn)
    if b"/chunked" in head:
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3d0900\r\n" + HALF)
    else:
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n" + HALF)


def origin(serve):
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)

    def one(conn):
        try:
            serve(conn)
        except (OSError, EOFError, ValueError):
            pass
        conn.close()

    def run():
        while True:
            conn, _ = listener.accept()
            threading.Thread(target=one, args=(conn,), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    return listener.getsockname()[1]


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def configs(folder, servers, ports):
    """The three proxies: for each the command, with listeners (kind, tls) at `ports[name]`."""
    def weir(name):
        text = ""
        for (kind, tls), port in ports[name].items():
            listener = f"{kind}-{'tls' if tls else 'plain'}"
            text += f'[listener.{listener}]\naddress = "127.0.0.1:{port}"\nupstream = "{kind}"\n'
            text += 'protocol = "tcp"\n' if kind == "tcp" else ""
            text += f'tls.certificates = [{{ certificate = "{folder}/a.pem", key = "{folder}/a.key" }}]\n' if tls else ""
        for kind, port in servers.items():
            text += f'[upstream.{kind}]\nservers = ["127.0.0.1:{port}"]\n'
        open(f"{folder}/weir.toml", "w").write(text)
        return [sys.argv[1], "serve", f"{folder}/weir.toml"]

    def nginx(name):
        tls_lines = f"ssl_certificate {folder}/a.pem; ssl_certificate_key {folder}/a.key;"
        stream, http = "", ""
        for (kind, tls), port in ports[name].items():
            listen = f"listen 127.0.0.1:{port}{' ssl' if tls else ''}; {tls_lines if tls else ''}"
            if kind == "tcp":
                stream += f"server {{ {listen} proxy_pass 127.0.0.1:{servers[kind]}; }}\n"
            else:
                http += (f"server {{ {listen} location / {{ proxy_pass http://127.0.0.1:{servers[kind]}; proxy_http_version 1.1; "
                         "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $http_connection; } }\n")
        open(f"{folder}/nginx.conf", "w").write(
            f"load_module {STREAM};\ndaemon off; worker_processes 1; error_log /dev/null; "
            f"pid {folder}/nginx.pid;\nevents {{ worker_connections 1024; }}\n"
            f"stream {{ {stream} }}\nhttp {{ access_log off; proxy_temp_path {folder}/t; client_body_temp_path {folder}/b; {http} }}\n")
        return ["nginx", "-c", f"{folder}/nginx.conf", "-p", folder]

    def haproxy(name):
        text = "global\n nbthread 1\ndefaults\n timeout connect 5s\n timeout client 30s\n timeout server 30s\n timeout tunnel 30s\n"
        for (kind, tls), port in ports[name].items():
            mode = "tcp" if kind == "tcp" else "http"
            text += (f"listen {kind}{int(tls)}\n mode {mode}\n bind 127.0.0.1:{port}"
                     f"{f' ssl crt {folder}/both.pem' if tls else ''}\n server s 127.0.0.1:{servers[kind]}\n")
        open(f"{folder}/haproxy.cfg", "w").write(text)
        return ["haproxy", "-db", "-f", f"{folder}/haproxy.cfg"]

    return {"weir": weir, "nginx": nginx, "haproxy": haproxy}


CLIENT = ssl.create_default_context()
CLIENT.check_hostname, CLIENT.verify_mode = False, ssl.CERT_NONE


def take_all(sock, received):
    end = "fin"
    try:
        while part := sock.recv(1 << 18):
            received += part
    except ssl.SSLEOFError:
        end = "cut"
    except ConnectionError:
        end = "rst"
    return bytes(received), end


def dechunk(wire):
    body = b""
    while b"\r\n" in wire:
        size, _, wire = wire.partition(b"\r\n")
        size = int(size, 16)
        body += wire[:size]
        wire = wire[size + 2:]
    return body


def ask(port, kind, tls, round_):
    """Bytes that were sent to the client and did not come, and how the connection ended."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=20)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls:
        sock = CLIENT.wrap_socket(sock, suppress_ragged_eofs=False)
    with sock:
        wanted = ANSWER[:2_000 if round_ % 2 else 20_000]
        question = b"%06d" % len(wanted) + b"x" * 30_000
        if kind == "cut":
            path = "/chunked" if round_ % 2 else "/length"
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode())
            head, rest = read_head(sock)
            time.sleep(0.05)
            wire, end = take_all(sock, bytearray(rest))
            body = dechunk(wire) if b"chunked" in head.lower() else wire
            wanted = HALF
        else:
            if kind == "ws":
                sock.sendall(HANDSHAKE)
                _, rest = read_head(sock)
                wanted = CLOSE_FRAME
            else:
                rest = b""
            try:
                sock.sendall(question)
            except (ConnectionError, ssl.SSLError):
                pass
            body, end = take_all(sock, bytearray(rest))
        assert wanted.startswith(body), "other bytes than were sent"
        return len(wanted) - len(body), end


def main():
    folder = tempfile.mkdtemp(prefix="last-bytes-")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{folder}/a.key",
                    "-out", f"{folder}/a.pem", "-days", "2", "-subj", "/CN=a.test", "-addext", "subjectAltName=DNS:a.test"], check=True, capture_output=True)
    open(f"{folder}/both.pem", "w").write(open(f"{folder}/a.pem").read() + open(f"{folder}/a.key").read())
    servers = {"tcp": origin(serve_tcp), "ws": origin(serve_ws), "cut": origin(serve_cut)}
    names = ["weir", "nginx", "haproxy"]
    cases = [(kind, tls) for kind in servers for tls in (False, True)]
    ports = {name: {case: free_port() for case in cases} for name in names}
    commands = configs(folder, servers, ports)
    running = [subprocess.Popen(commands[name](name), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) for name in names]
    try:
        for name in names:
            for port in ports[name].values():
                for _ in range(200):
                    try:
                        socket.create_connection(("127.0.0.1", port)).close()
                        break
                    except OSError:
                        time.sleep(0.05)
        print("case,clients,proxy,rounds,incomplete,bytes_lost,ends")
        for kind, tls in cases:
            def round_of(number):
                return {name: ask(ports[name][kind, tls], kind, tls, number) for name in names}
            with ThreadPoolExecutor(8) as pool:
                outcomes = list(pool.map(round_of, range(ROUNDS)))
            for name in names:
                lost = [outcome[name][0] for outcome in outcomes]
                ends = [outcome[name][1] for outcome in outcomes]
                counts = " ".join(f"{end}:{ends.count(end)}" for end in sorted(set(ends)))
                print(f"{kind},{'tls' if tls else 'plain'},{name},{ROUNDS},{sum(1 for n in lost if n)},{sum(lost)},{counts}", flush=True)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


main()
