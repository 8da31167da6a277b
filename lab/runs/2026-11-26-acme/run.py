#!/usr/bin/env python3
"""50 names whose certificates live two minutes, renewed by Pebble under load: failed handshakes, and orders that nothing needed.

    run.py --weir target/release/weir --pebble-folder target/tools/bin --minutes 30 --out lab/runs/2026-11-26-acme

Everything is on 127.0.0.1. Pebble refuses 5 % of nonces and suggests the whole life time as the window of renewal (ARI, RFC 9773), so that each
name is renewed about once a minute. Clients make full handshakes for random names, verify the chain, the name and the dates, and send one request.
"""

import argparse, collections, csv, http.server, json, os, random, re, socket, ssl, subprocess, sys, tempfile, threading, time
import urllib.request

NAMES = [f"n{number:02}.example.test" for number in range(50)]
VALIDITY_S = 120
CLIENTS = 4


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"nothing listens at port {port}")


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


class Site:
    def __init__(self, arguments, folder):
        self.folder, self.children = folder, []
        self.web, self.plain, self.admin, self.ca, self.management, self.dns = (free_port() for _ in range(6))
        origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        key, pem = self.path("ca.key"), self.path("ca.pem")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", pem,
             "-days", "2", "-subj", "/CN=pebble", "-addext", "subjectAltName=IP:127.0.0.1"],
            check=True, stderr=subprocess.DEVNULL)
        self.write("pebble.json", json.dumps({"pebble": {
            "listenAddress": f"127.0.0.1:{self.ca}", "managementListenAddress": f"127.0.0.1:{self.management}",
            "certificate": pem, "privateKey": key, "httpPort": self.plain, "tlsPort": self.web, "ocspResponderURL": "",
            "profiles": {"default": {"description": "two minutes", "validityPeriod": VALIDITY_S}},
            "retryAfter": {"authz": 1, "order": 1}}}))
        self.write("weir.toml", f"""
            admin.address = "127.0.0.1:{self.admin}"
            listener.plain.address = "127.0.0.1:{self.plain}"
            listener.plain.upstream = "app"
            listener.web.address = "127.0.0.1:{self.web}"
            listener.web.upstream = "app"
            upstream.app.servers = ["127.0.0.1:{origin.server_address[1]}"]
            [listener.web.tls.acme]
            hosts = {json.dumps(NAMES)}
            ca = ["https://127.0.0.1:{self.ca}/dir"]
            ca_root = "{pem}"
            directory = "{self.path('acme')}"
            orders_max = 1000000
            """)
        tools = arguments.pebble_folder
        self.start([f"{tools}/pebble-challtestsrv", "-http01", "", "-https01", "", "-doh", "", "-tlsalpn01", "", "-defaultIPv6", "",
                    "-dnsserver", f"127.0.0.1:{self.dns}", "-management", f"127.0.0.1:{free_port()}"], "dns.log")
        self.start([f"{tools}/pebble", "-strict", "-config", self.path("pebble.json"), "-dnsserver", f"127.0.0.1:{self.dns}"], "pebble.log",
                   PEBBLE_WFE_NONCEREJECT="5", PEBBLE_VA_NOSLEEP="1", PEBBLE_AUTHZREUSE="0")
        wait_for(self.management)
        self.start([arguments.weir, "serve", self.path("weir.toml")], "weir.log")
        wait_for(self.web)
        insecure = ssl._create_unverified_context()
        with urllib.request.urlopen(f"https://127.0.0.1:{self.management}/roots/0", context=insecure) as answer:
            self.root = answer.read().decode()

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def start(self, command, log, **environment):
        output = open(self.path(log), "w")
        child = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | environment)
        self.children.append(child)

    def count(self, log, text):
        with open(self.path(log), errors="replace") as file:
            return sum(text in line for line in file)

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}

    def metric(self, name):
        return self.metrics()[name]

    def stop(self):
        for child in reversed(self.children):
            child.terminate()
        for child in self.children:
            child.wait()


class Load:
    """Clients that count, and the certificates that they were shown."""

    def __init__(self, site):
        self.site, self.lock, self.over = site, threading.Lock(), threading.Event()
        self.done, self.failures, self.seen = 0, collections.Counter(), {}
        self.context = ssl.create_default_context(cadata=site.root)
        # Each a full one: no session is ever resumed.
        self.context.options |= ssl.OP_NO_TICKET

    def handshake(self, name):
        with socket.create_connection(("127.0.0.1", self.site.web), 20) as tcp:
            with self.context.wrap_socket(tcp, server_hostname=name) as tls:
                certificate = tls.getpeercert()
                tls.sendall(f"GET / HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n".encode())
                text = b""
                while part := tls.recv(4096):
                    text += part
        if not text.startswith(b"HTTP/1.1 200") or not text.endswith(b"hello"):
            raise ValueError(f"response: {text[:60]!r}")
        return certificate

    def run(self):
        choice = random.Random()
        while not self.over.is_set():
            name = choice.choice(NAMES)
            try:
                certificate = self.handshake(name)
                with self.lock:
                    self.done += 1
                    self.seen.setdefault((name, certificate["serialNumber"]), (time.time(), certificate["notBefore"], certificate["notAfter"]))
            except Exception as error:
                with self.lock:
                    self.failures[f"{type(error).__name__}: {error}"] += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", required=True)
    parser.add_argument("--pebble-folder", required=True)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="weir-acme-")
    site = Site(arguments, folder)
    try:
        until = time.monotonic() + 120
        while site.metric('weir_acme_hosts{state="valid"}') < len(NAMES):
            if time.monotonic() > until:
                sys.exit(f"the first certificates do not come: see {folder}")
            time.sleep(0.5)
        load = Load(site)
        threads = [threading.Thread(target=load.run) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        began = time.time()
        with open(os.path.join(arguments.out, "samples.csv"), "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["seconds", "handshakes", "failed_handshakes", "orders_at_pebble", "obtained", "failed_orders", "hosts_valid_or_renewing"])
            while time.time() - began < arguments.minutes * 60:
                time.sleep(10)
                now = site.metrics()
                sound = now['weir_acme_hosts{state="valid"}'] + now['weir_acme_hosts{state="renewing"}']
                rows.writerow([round(time.time() - began), load.done, sum(load.failures.values()), site.count("pebble.log", "Added order"),
                               int(now['weir_acme_orders_total{outcome="obtained"}']),
                               int(now['weir_acme_orders_total{outcome="failed"}']), int(sound)])
                file.flush()
        load.over.set()
        for thread in threads:
            thread.join()
        took = time.time() - began
        report(arguments, site, load, took)
    finally:
        site.stop()
    print(f"logs: {folder}")


def report(arguments, site, load, took):
    with open(os.path.join(arguments.out, "certificates.csv"), "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "serial", "first_seen", "not_before", "not_after"])
        for (name, serial), (at, begin, end) in sorted(load.seen.items(), key=lambda item: item[1][0]):
            rows.writerow([name, serial, round(at, 1), begin, end])
    obtained = int(site.metric('weir_acme_orders_total{outcome="obtained"}'))
    failed = int(site.metric('weir_acme_orders_total{outcome="failed"}'))
    orders = site.count("pebble.log", "Added order")
    dates = collections.defaultdict(list)
    for (name, _), (_, begin, _) in load.seen.items():
        dates[name].append(ssl.cert_time_to_seconds(begin))
    gaps = sorted(later - earlier for times in dates.values() for earlier, later in zip(sorted(times), sorted(times)[1:]))
    rate = load.done / took
    lines = {
        "minutes": round(took / 60, 1), "names": len(NAMES), "handshakes": load.done, "handshakes per second": round(rate),
        "failed handshakes": sum(load.failures.values()), "orders at Pebble": orders, "certificates obtained": obtained,
        "failed orders": failed, "orders without a certificate": orders - obtained, "seconds between renewals of a name, median": gaps[len(gaps) // 2] if gaps else None,
        "the same, least and most": f"{gaps[0]:.0f}, {gaps[-1]:.0f}" if gaps else None,
        "weir": subprocess.run([arguments.weir, "--version"], capture_output=True, text=True).stdout.strip(),
    }
    with open(os.path.join(arguments.out, "summary.md"), "w") as file:
        file.write("| what | value |\n|---|---|\n")
        for what, value in lines.items():
            file.write(f"| {what} | {value} |\n")
        for failure, count in load.failures.most_common():
            file.write(f"\nfailed handshake, {count} times: `{failure}`\n")
    print(open(file.name).read())


main()
