#!/usr/bin/env python3
"""Upgrades and cold starts under load while sources of servers are well, slow or away: no request may fail that an unchanged process would answer.

    run.py --weir target/release/weir --rounds 50 [--only upgrade|cold] [--modes well,slow,away]

One Weir has upstreams by a file, DNS, Consul and etcd (all scripted here), and one whose server has a name. Two clients for each ask without a pause, one over a kept connection and one over
a new connection for each request. A kept connection that the end of a process closes between two requests is opened anew, as every client does. `slow` answers every question after 1.5 s; `away` answers none: DNS is silent, Consul and etcd close the connection, the file is gone. An upgrade
has no state file; a cold start has one, and its clients try until their connection is made: from then on an answer other than 200, or none, has failed. The name in the config has no address at a
cold start without DNS, so its clients pause in these rounds. Prints one line of JSON for each kind and mode; Python's standard library only.
"""

import argparse
import atexit
import base64
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLOW_SECONDS = 1.5
ROUTES = ["by-file", "by-dns", "by-consul", "by-etcd", "by-name"]


class Mode:
    """What sources do now."""

    name = "well"


class Servers(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def handle_error(self, *_):
        pass


class Quiet(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, fields=()):
        self.send_response(200)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class OriginHandler(Quiet):
    def do_GET(self):
        self.answer(b"ok")


def serve(handler):
    server = Servers(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def registry(port):
    """Consul and etcd, with one server on `port`."""

    class Handler(Quiet):
        def is_gone(self):
            if Mode.name == "away":
                self.close_connection = True
                return True
            if Mode.name == "slow":
                time.sleep(SLOW_SECONDS)
            return False

        def wait_for_changes(self):
            """There are none; an outage ends the wait."""
            while Mode.name != "away":
                time.sleep(0.05)
            self.close_connection = True

        def do_GET(self):
            if "index=1&" in self.path or self.path.endswith("index=1"):
                return self.wait_for_changes()
            if self.is_gone():
                return None
            service = {"ID": "one", "Address": "127.0.0.1", "Port": port}
            body = json.dumps([{"Node": {"Node": "n", "Address": "127.0.0.1"}, "Checks": [], "Service": service}])
            return self.answer(body.encode(), [("X-Consul-Index", "1")])

        def do_POST(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/v3/watch":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                line = json.dumps({"result": {"header": {"revision": "7"}, "created": True}}).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
                self.wfile.flush()
                return self.wait_for_changes()
            if self.is_gone():
                return None
            encode = lambda text: base64.b64encode(text.encode()).decode()
            value = json.dumps({"Op": 0, "Addr": f"127.0.0.1:{port}"})
            keys = [{"key": encode("/app/one"), "value": encode(value), "mod_revision": "7", "create_revision": "7", "version": "1"}]
            return self.answer(json.dumps({"header": {"revision": "7"}, "kvs": keys, "count": "1"}).encode())

    return serve(Handler)


def name_server():
    """Every name is 127.0.0.1, for a second."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))

    def respond(query, peer):
        if Mode.name == "away":
            return
        if Mode.name == "slow":
            time.sleep(SLOW_SECONDS)
        end = query.index(b"\0", 12) + 5
        is_four = struct.unpack(">H", query[end - 4:end - 2])[0] == 1
        record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton("127.0.0.1")
        head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, int(is_four), 0, 0)
        udp.sendto(head + query[12:end] + (record if is_four else b""), peer)

    def listen():
        while True:
            query, peer = udp.recvfrom(1500)
            threading.Thread(target=respond, args=(query, peer), daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()
    return udp.getsockname()[1]


class Client(threading.Thread):
    def __init__(self, port, route, keeps, may_close):
        super().__init__(daemon=True)
        self.port, self.route, self.keeps, self.may_close = port, route, keeps, may_close
        self.done, self.failures, self.pauses, self.ending = 0, [], False, False

    def run(self):
        connection, used = None, 0
        while not self.ending:
            if self.pauses:
                connection = None
                time.sleep(0.02)
                continue
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
                try:
                    connection.connect()
                except OSError:
                    # Nothing listens: a cold start.
                    connection = None
                    time.sleep(0.002)
                    continue
                used = 0
            try:
                connection.request("GET", f"/{self.route}")
                response = connection.getresponse()
                text = response.read()
                if response.status != 200:
                    self.failures.append(f"{self.route}: {response.status} {text[:60]}")
                closes = response.will_close
            except (OSError, http.client.HTTPException) as error:
                if not (self.may_close and used):
                    self.failures.append(f"{self.route}: {error!r}")
                closes = True
            self.done, used = self.done + 1, used + 1
            if closes or not self.keeps:
                connection.close()
                connection = None
            time.sleep(0.002)


class Weir:
    def __init__(self, program, folder, text):
        self.program, self.folder = program, folder
        self.config, self.log = os.path.join(folder, "weir.toml"), os.path.join(folder, "weir.log")
        with open(self.config, "w") as file:
            file.write(text)
        self.process = None

    def start(self):
        with open(self.log, "a") as log:
            before = os.path.getsize(self.log)
            self.process = subprocess.Popen([self.program, "serve", self.config], stdout=subprocess.DEVNULL, stderr=log)
        atexit.register(self.process.kill)
        began = time.monotonic()
        while True:
            with open(self.log) as log:
                log.seek(before)
                if "\nready\n" in "\n" + log.read():
                    return time.monotonic() - began
            if self.process.poll() is not None or time.monotonic() - began > 60:
                sys.exit(open(self.log).read())
            time.sleep(0.005)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)

    def upgrade(self):
        began = time.monotonic()
        socket_path = os.path.join(self.folder, "weir.sock")
        subprocess.run([self.program, "upgrade", "--admin", f"unix:{socket_path}"], check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - began


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--weir", required=True)
    options.add_argument("--rounds", type=int, default=50)
    options.add_argument("--only", choices=["upgrade", "cold"])
    options.add_argument("--modes", default="well,slow,away")
    options = options.parse_args()
    folder = tempfile.mkdtemp(prefix="weir-start-")
    port, served = serve(OriginHandler), os.path.join(folder, "servers.json")
    stores, names = registry(port), name_server()
    modes = options.modes.split(",")
    failed = 0
    for kind in [options.only] if options.only else ["upgrade", "cold"]:
        own = os.path.join(folder, kind)
        os.mkdir(own)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            web = probe.getsockname()[1]
        servers = {
            "by-file": f'discovery = {{ file = "{served}" }}',
            "by-dns": f'discovery = {{ dns = "app.test:{port}" }}',
            "by-consul": 'discovery = { consul = "app" }',
            "by-etcd": 'discovery = { etcd = "/app" }',
            "by-name": f'servers = ["app.test:{port}"]',
        }
        text = (f'admin.socket = "unix:{own}/weir.sock"\nadmin.socket_changes = true\ndns.resolvers = ["127.0.0.1:{names}"]\n'
                f'discovery.consul.url = "http://127.0.0.1:{stores}"\ndiscovery.etcd.url = "http://127.0.0.1:{stores}"\n')
        if kind == "cold":
            text += f'discovery.state_file = "{own}/state.json"\n'
        text += "".join(f"upstream.{route}.{servers[route]}\n" for route in ROUTES)
        text += f'[listener.web]\naddress = "127.0.0.1:{web}"\nupstream = "by-file"\n'
        text += "".join(f'[[listener.web.route]]\npath = "/{route}"\nupstream = "{route}"\n' for route in ROUTES)
        weir = Weir(options.weir, own, text)

        def set_mode(name):
            Mode.name = name
            if name == "away":
                os.remove(served)
            elif not os.path.exists(served):
                with open(served + ".draft", "w") as draft:
                    json.dump({"servers": [{"address": f"127.0.0.1:{port}"}]}, draft)
                os.rename(served + ".draft", served)

        set_mode("well")
        weir.start()
        clients = [Client(web, route, keeps, kind == "cold") for route in ROUTES for keeps in (True, False)]
        for client in clients:
            client.start()
        time.sleep(2)
        figures = {mode: {"rounds": 0, "requests": 0, "failed": 0, "seconds_max": 0.0, "first": []} for mode in modes}
        for number in range(options.rounds):
            mode = modes[number % len(modes)]
            figure = figures[mode]
            done, wrong = sum(client.done for client in clients), [len(client.failures) for client in clients]
            if kind == "upgrade":
                set_mode(mode)
                seconds = weir.upgrade()
            else:
                by_name = [client for client in clients if client.route == "by-name"]
                for client in by_name:
                    client.pauses = mode == "away"
                # Connections that are open end with their requests.
                weir.stop()
                set_mode(mode)
                seconds = weir.start()
            time.sleep(0.7)
            if kind == "cold":
                set_mode("well")
                time.sleep(1.5 if mode == "away" else 0)
                for client in by_name:
                    client.pauses = False
            figure["rounds"] += 1
            figure["requests"] += sum(client.done for client in clients) - done
            news = [failure for client, before in zip(clients, wrong) for failure in client.failures[before:]]
            figure["failed"] += len(news)
            figure["first"] = (figure["first"] + news)[:5]
            figure["seconds_max"] = max(figure["seconds_max"], round(seconds, 2))
            set_mode("well")
        for client in clients:
            client.ending = True
        for client in clients:
            client.join(timeout=30)
        for mode, figure in figures.items():
            failed += figure["failed"]
            print(json.dumps({"kind": kind, "mode": mode, **figure}), flush=True)
        with open(weir.log) as log:
            pids = [line.split("process=")[1].split()[0] for line in log if "another process serves now" in line]
        for pid in [weir.process.pid] + [int(pid) for pid in pids]:
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
        weir.process.wait(timeout=60)
    shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
