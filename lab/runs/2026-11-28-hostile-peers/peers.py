#!/usr/bin/env python3
"""Floods of TLS against Weir, nginx and HAProxy in turn, each with a well-behaved client beside them. `peers.py WEIR ROUNDS FIGURES`.

The origin, the clients and their policy of the scheduler are those of ../2026-11-26-hostile. Each round runs, for each proxy, the
well-behaved client alone and then beside each attack; a line of FIGURES has one of these."""
import json, os, pathlib, shutil, socket, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).parent
BASE = HERE.parent / "2026-11-26-hostile"
WEIR, ROUNDS, OUT = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]), open(sys.argv[3], "a")
WORKERS = os.environ.get("WORKERS", "2")
IDLE = ["chrt", "-i", "0"]

NGINX = """user root; worker_processes WORKERS; daemon off; pid FOLDER/proxy.pid; error_log FOLDER/proxy.log; worker_rlimit_nofile 20000;
events { worker_connections 9000; }
http {
    access_log off; client_body_temp_path FOLDER/b; proxy_temp_path FOLDER/p; fastcgi_temp_path FOLDER/f; uwsgi_temp_path FOLDER/u; scgi_temp_path FOLDER/s;
    client_max_body_size 0; keepalive_requests 1000000;
    upstream app { server 127.0.0.1:ORIGIN; keepalive 64; }
    server {
        listen 127.0.0.1:TLS ssl backlog=16384; ssl_certificate FOLDER/cert.pem; ssl_certificate_key FOLDER/key.pem;
        proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering BUFFERING;
        location / { proxy_pass http://app; }
    }
}
"""
HAPROXY = """global
    nbthread WORKERS
    maxconn 9000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend tls
    bind 127.0.0.1:TLS ssl crt FOLDER/both.pem
    default_backend app
backend app
    http-reuse always
    server one 127.0.0.1:ORIGIN
"""
WEIR_CONFIG = """[process]
workers = WORKERS

[listener.tls]
address = "127.0.0.1:TLS"
upstream = "app"
tls.certificates = [{ certificate = "FOLDER/cert.pem", key = "FOLDER/key.pem" }]

[upstream.app]
servers = ["127.0.0.1:ORIGIN"]
"""


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(port):
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing listens on port {port}")


def client(*arguments, policy=()):
    return subprocess.Popen([*policy, sys.executable, str(BASE / "clients.py"), *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def outcome(process):
    return json.loads(process.communicate(timeout=120)[0].strip().splitlines()[-1])


class Proxy:
    def __init__(self, kind, folder, origin):
        self.port = free_port()
        text = {"weir": WEIR_CONFIG, "haproxy": HAPROXY}.get(kind, NGINX)
        text = text.replace("FOLDER", str(folder)).replace("TLS", str(self.port)).replace("ORIGIN", str(origin)).replace("WORKERS", WORKERS)
        file = folder / f"{kind}.conf"
        file.write_text(text.replace("BUFFERING", "on" if kind == "nginx" else "off"))
        command = {"weir": [WEIR, "serve", file], "haproxy": ["haproxy", "-db", "-q", "-f", file]}.get(kind, ["nginx", "-p", folder, "-c", file])
        self.process = subprocess.Popen(command, stderr=open(folder / f"{kind}.log", "w"))
        wait_for(self.port)

    def close(self):
        self.process.terminate()
        self.process.wait(20)


def well_behaved(proxy, seconds):
    return outcome(client("well-behaved", "--port", proxy.port, "--seconds", seconds, "--tls"))


ATTACKS = {
    "none": lambda port, seconds: [],
    "records of one byte, 2 clients": lambda port, seconds: [client("tiny-records", "--port", port, "--seconds", seconds, policy=IDLE) for _ in range(2)],
    "full handshakes, 4 clients": lambda port, seconds: [client("flood", "--kind", "full-handshakes", "--port", port, "--seconds", seconds, policy=IDLE) for _ in range(4)],
}

folder = pathlib.Path(tempfile.mkdtemp(prefix="hostile-peers-"))
os.chmod(folder, 0o755)
subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "365", "-subj", "/CN=a.test",
                "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
(folder / "both.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())
origin_port = free_port()
(folder / "origin.conf").write_text("user root;\n" + (BASE / "nginx.conf").read_text().replace("FOLDER", str(folder)).replace("PORT", str(origin_port)))
origin = subprocess.Popen(["nginx", "-p", folder, "-c", folder / "origin.conf"])
wait_for(origin_port)
for number in range(ROUNDS):
    for kind in os.environ.get("PROXIES", "weir nginx nginx-streams haproxy").split():
        for name, attack in ATTACKS.items():
            proxy = Proxy(kind, folder, origin_port)
            attackers = attack(proxy.port, 8)
            time.sleep(1.5)
            found = well_behaved(proxy, 5)
            done = [outcome(process) for process in attackers]
            proxy.close()
            line = json.dumps({"workers": int(WORKERS), "round": number, "proxy": kind, "attack": name, "well_behaved": found, "attackers": done})
            OUT.write(line + "\n")
            OUT.flush()
            print(number, kind, name, found["failed"], found["kept_p50_ms"], found["kept_p99_ms"], flush=True)
origin.terminate()
origin.wait()
shutil.rmtree(folder)
