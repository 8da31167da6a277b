"""Weir with a small config, a server of HTTP/1 behind it, and what can be seen of both."""

import datetime
import http.server
import ipaddress
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from client import NAME, Client

CONFIG = """
process.workers = {workers}
{process}
admin.address = "127.0.0.1:{admin}"
[listener.web]
address = ["127.0.0.1:{port}", "[::1]:{port}"]
tls.certificates = [{{ certificate = "c.pem", key = "k.pem" }}]
http3 = {{}}
access_log = {{ format = "combined", output = "file:{folder}/access.log" }}
{listener}
[[listener.web.route]]
path = "/hello"
respond = {{ status = 200, body = "hello\\n" }}
[[listener.web.route]]
path = "/files/"
files = {{ root = "{folder}/www" }}
[[listener.web.route]]
path = "/"
upstream = "app"
{route}
[upstream.app]
servers = ["127.0.0.1:{origin}"]
"""

SIZES = {"1k": 1 << 10, "100k": 100 << 10, "1m": 1 << 20, "3m": 3 << 20, "10m": 10 << 20}


class OriginHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.requests += 1
        if self.path.startswith("/slow"):
            # Longer than any case lasts; given up when the case ends.
            self.server.released.wait(60)
        self.answer(self.path.encode())

    def do_POST(self):
        self.server.requests += 1
        if self.path.startswith("/unread"):
            self.server.released.wait(60)
        size = 0
        if self.headers.get("transfer-encoding") == "chunked":
            while (length := int(self.rfile.readline(), 16)) > 0:
                size += len(self.rfile.read(length))
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        else:
            size = len(self.rfile.read(int(self.headers.get("content-length", 0))))
        self.answer(str(size).encode())

    def answer(self, body):
        try:
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass

    def log_message(self, *_):
        pass


class Origin(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self):
        super().__init__(("127.0.0.1", 0), OriginHandler)
        self.requests, self.released = 0, threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


def free_port():
    with socket.socket() as sock, socket.socket(type=socket.SOCK_DGRAM) as udp:
        sock.bind(("127.0.0.1", 0))
        udp.bind(sock.getsockname())
        return sock.getsockname()[1]


def certificate(folder):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
    made = made.not_valid_after(now + datetime.timedelta(days=30))
    names = [x509.DNSName(NAME), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = made.add_extension(x509.SubjectAlternativeName(names), False).sign(key, hashes.SHA256())
    with open(f"{folder}/c.pem", "wb") as file:
        file.write(made.public_bytes(serialization.Encoding.PEM))
    with open(f"{folder}/k.pem", "wb") as file:
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        file.write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))


class Rig:
    """Weir that runs, and its origin."""

    def __init__(self, weir, workers=1, listener="", route="", process=""):
        self.weir = weir
        self.folder = tempfile.mkdtemp(prefix="weir-quic-")
        certificate(self.folder)
        os.makedirs(f"{self.folder}/www/files")
        for name, size in SIZES.items():
            with open(f"{self.folder}/www/files/{name}", "wb") as file:
                file.write(bytes(at * 7 % 251 for at in range(1024)) * (size // 1024))
        self.origin, self.admin, self.port = Origin(), free_port(), free_port()
        config = CONFIG.format(
            workers=workers, process=process, admin=self.admin, port=self.port, folder=self.folder,
            listener=listener, route=route, origin=self.origin.server_address[1],
        )
        with open(f"{self.folder}/weir.toml", "w") as file:
            file.write(config)
        self.log = open(f"{self.folder}/weir.log", "wb")
        command = [weir, "serve", f"{self.folder}/weir.toml"]
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=self.log, stderr=self.log)
        self.to = ("127.0.0.1", self.port)
        end = time.monotonic() + 20
        while True:
            try:
                self.metrics()
                return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"Weir does not start: {self.text('weir.log')}") from None
                time.sleep(0.05)

    def other(self, **config):
        """Another Weir beside this one."""
        return Rig(self.weir, **config)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def client(self, **config):
        return Client(self.to, **config)

    def text(self, name):
        try:
            with open(f"{self.folder}/{name}", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def metrics(self):
        """All values, with labels in the names."""
        url = f"http://127.0.0.1:{self.admin}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:1] != "#"}

    def reasons(self):
        """How often each reason was counted."""
        found = {}
        for name, value in self.metrics().items():
            if "_failures_total{" in name and value:
                reason = name.split('reason="')[1].split('"')[0] if 'reason="' in name else name
                found[reason] = found.get(reason, 0) + value
        return found

    def memory(self):
        """Resident memory of Weir, in MiB."""
        with open(f"/proc/{self.process.pid}/status") as file:
            for line in file:
                if line.startswith("VmRSS"):
                    return int(line.split()[1]) / 1024
        return 0.0

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.origin.released.set()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.origin.shutdown()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Bystander(threading.Thread):
    """A client that asks for `/hello` all the time, on a connection of its own and on new ones."""

    def __init__(self, rig, local="127.0.0.99"):
        super().__init__(daemon=True)
        self.rig, self.local, self.stopping = rig, local, threading.Event()
        self.kept, self.fresh, self.failed = [], [], []
        self.start()

    def run(self):
        client = None
        while not self.stopping.is_set():
            try:
                client = client or self.rig.client(local=self.local).connect_http3(5)
                self.ask(client, self.kept)
                other = self.rig.client(local=self.local)
                began = time.monotonic()
                other.connect_http3(5)
                self.ask(other, self.fresh, began)
                other.close()
            except Exception as error:
                self.failed.append(repr(error))
                client = None
            self.stopping.wait(0.02)

    def ask(self, client, times, began=None):
        began = began or time.monotonic()
        response = client.fetch("/hello", 5)
        if response.status() != 200:
            raise ConnectionError(f"{client.end} {response.reset}")
        times.append(time.monotonic() - began)

    def report(self):
        self.stopping.set()
        self.join(10)
        worst = lambda times: f"{1000 * max(times):.0f} ms" if times else "none"
        kept, fresh = len(self.kept), len(self.fresh)
        return f"{kept}/{fresh} served, worst {worst(self.kept)}/{worst(self.fresh)}, {len(self.failed)} failed"
