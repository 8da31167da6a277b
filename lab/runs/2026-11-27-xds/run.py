#!/usr/bin/env python3
"""Servers from a control plane (xDS): from a change to its effect, a thousand changes per second, a control plane that goes away.

    run.py change --weir target/debug/weir --control-plane target/tools/bin/xds-control-plane --times 300
    run.py rate   --weir ... --control-plane ... --seconds 60 --rate 1000 [--fresh]
    run.py outage --weir ... --control-plane ... --seconds 60

The control plane is the server and the snapshot cache of go-control-plane (`cargo xtask xds`). Everything is on loopback; ports are chosen by
the kernel. Prints one line of JSON per figure; nothing but Python's standard library.
"""

import argparse
import atexit
import http.client
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


# More requests than a worker records by default (`recorder.exchanges`): its memory does not grow by requests any more.
RECORDED = 5000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tell(**figures):
    print(json.dumps(figures), flush=True)


def until(what, condition, limit=60.0, pause=0.002):
    """Seconds until a condition holds."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > limit:
            sys.exit(f"{what}: not within {limit} s")
        time.sleep(pause)
    return time.monotonic() - began


class Origin:
    """A server that answers each request with its name, on all addresses of loopback."""

    def __init__(self, name):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_GET(self):
                body = name.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def resources(ports, host="127.0.0.1"):
    """One cluster of EDS, with an endpoint for each port."""
    endpoints = [{"endpoint": {"address": {"socket_address": {"address": host, "port_value": port}}}} for port in ports]
    return {"clusters": [{"name": "app", "type": "EDS", "eds_cluster_config": {"eds_config": {"ads": {}}}}],
            "endpoints": [{"cluster_name": "app", "endpoints": [{"lb_endpoints": endpoints}]}]}


class ControlPlane:
    def __init__(self, program):
        self.program, self.xds, self.admin, self.version = program, free_port(), free_port(), 0
        self.connection = None

    def start(self):
        self.process = subprocess.Popen(
            [self.program, "-listen", f"127.0.0.1:{self.xds}", "-admin", f"127.0.0.1:{self.admin}"], stdout=subprocess.DEVNULL)
        atexit.register(self.process.kill)
        until("the control plane answers", self.answers)

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.xds)).close()
            socket.create_connection(("127.0.0.1", self.admin)).close()
            return True
        except OSError:
            return False

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.connection = None

    def ask(self, method, target, body=None):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=10)
        self.connection.request(method, target, body)
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return text

    def set(self, ports):
        self.version += 1
        self.ask("PUT", "/resources", json.dumps({"version": str(self.version), **resources(ports)}))

    def take_turns(self, sets, rate, seconds):
        """Sets of resources in turns; blocks until it is over."""
        turns = {"rate": rate, "seconds": seconds, "version": self.version + 1, "sets": sets}
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=seconds + 30)
        connection.request("POST", "/turns", json.dumps(turns))
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        taken = json.loads(text)
        self.version += taken["done"] + 1
        return taken

    def clients(self):
        return json.loads(self.ask("GET", "/clients"))


class Client(threading.Thread):
    """Requests one after the other on a kept connection, without a pause."""

    def __init__(self, port, pause):
        super().__init__(daemon=True)
        self.port, self.pause, self.done, self.failed, self.last, self.problems, self.ending = port, pause, 0, 0, None, [], False
        self.times = []

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        while not self.ending:
            try:
                connection.request("GET", "/")
                answer = connection.getresponse()
                text = answer.read().decode()
                if answer.status == 200:
                    self.last = text
                else:
                    self.failed += 1
                    self.problems.append(f"{answer.status} {text[:80]}")
            except (OSError, http.client.HTTPException) as error:
                self.failed += 1
                self.problems.append(repr(error))
                connection.close()
            self.done += 1
            if self.pause:
                time.sleep(self.pause)


class Weir:
    def __init__(self, program, folder, text):
        config = os.path.join(folder, "weir.toml")
        with open(config, "w") as file:
            file.write(text)
        self.log = open(os.path.join(folder, "weir.log"), "w+")
        self.process = subprocess.Popen([program, "serve", config], stdout=subprocess.DEVNULL, stderr=self.log)
        atexit.register(self.process.kill)
        until("Weir is ready", self.is_ready)
        self.port, self.admin = self.port_of("web"), self.port_of("admin")

    def text(self):
        with open(self.log.name) as log:
            return log.read()

    def is_ready(self):
        if self.process.poll() is not None:
            sys.exit(self.text())
        return "\nready\n" in "\n" + self.text()

    def port_of(self, listener):
        marks = [line for line in self.text().splitlines() if "listening listener=" in line and f"listener={listener} " in line]
        return int(marks[0].rsplit(":", 1)[1])

    def source(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=10)
        connection.request("GET", "/api/overview")
        overview = json.loads(connection.getresponse().read())
        connection.close()
        return overview["upstreams"][0]["source"]

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/smaps_rollup") as rollup:
            sizes = {line.split()[0]: int(line.split()[1]) for line in rollup if line.endswith(" kB\n")}
        return {"resident_kib": sizes["Rss:"], "anonymous_kib": sizes["Anonymous:"],
                "descriptors": len(os.listdir(f"/proc/{self.process.pid}/fd"))}

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def begin(options, folder, pause):
    origins = {name: Origin(name) for name in ("one", "two", "three", "four")}
    plane = ControlPlane(options.control_plane)
    plane.start()
    plane.set([origins["one"].port])
    weir = Weir(options.weir, folder, (
        'admin.address = "127.0.0.1:0"\nprocess.workers = 1\n'
        f'discovery.xds.url = "http://127.0.0.1:{plane.xds}"\nlistener.web = {{ address = "127.0.0.1:0", upstream = "app" }}\n'
        '[upstream.app]\ndiscovery = { cds = "app" }\n'))
    client = Client(weir.port, pause)
    client.start()
    until("the source is in use", lambda: client.last == "one")
    return origins, plane, weir, client


def end(weir, client):
    client.ending = True
    client.join(15)
    tell(requests=client.done, failed=client.failed, problems=client.problems[:5])
    weir.stop()
    return 0 if client.failed == 0 else 1


def share(values, part):
    return round(sorted(values)[min(len(values) - 1, int(len(values) * part))] * 1000, 2)


def change(options, folder):
    """From the request that changes the resources to the first response of the new server."""
    origins, plane, weir, client = begin(options, folder, 0)
    took, asked = [], []
    for number in range(options.times):
        name = ("two", "one")[number % 2]
        began = time.monotonic()
        plane.set([origins[name].port])
        asked.append(time.monotonic() - began)
        until("the change has an effect", lambda: client.last == name, pause=0.0002)
        took.append(time.monotonic() - began)
        time.sleep(0.05)
    tell(figure="change to first response of the new server, ms", p50=share(took, 0.5), p99=share(took, 0.99), max=share(took, 1), times=len(took))
    tell(figure="of that the control plane's own answer, ms", p50=share(asked, 0.5), p99=share(asked, 0.99))
    tell(clients=plane.clients())
    return end(weir, client)


def turns_of(origins, fresh):
    """Sets of which each is other than the one before it; `fresh`: at an address that no turn before has named."""
    one, two, three = (origins[name].port for name in ("one", "two", "three"))
    if fresh:
        return [resources([one, two, three], "127.@TURN")]
    return [resources(ports) for ports in ([one], [one, two], [two], [two, one, three], [one, three])]


def rate(options, folder):
    """Changes at a steady rate, made by the control plane itself; the last one is other than all before."""
    origins, plane, weir, client = begin(options, folder, 0)
    until("the recorder is full", lambda: client.done >= RECORDED, limit=300)
    client.pause = 0.005
    before, heard, cpu = weir.source()["changes"], plane.clients()["acks"], weir.cpu_seconds()
    began, taken, marks = time.monotonic(), {}, []
    turns = threading.Thread(target=lambda: taken.update(plane.take_turns(turns_of(origins, options.fresh), options.rate, options.seconds)))
    turns.start()
    while turns.is_alive():
        marks.append(weir.memory_kib())
        tell(figure="memory", seconds=round(time.monotonic() - began, 1), **marks[-1], requests=client.done)
        turns.join(options.seconds / 20)
    lasted, cpu, acks = time.monotonic() - began, weir.cpu_seconds() - cpu, plane.clients()["acks"] - heard
    plane.set([origins["four"].port])
    took = until("the last change has an effect", lambda: client.last == "four")
    tell(figure="last change to first response of its server, s", seconds=round(took, 3))
    tell(figure="changes", per_second=round(taken["done"] / taken["seconds"], 1), wanted=options.rate, done=taken["done"], late=taken["late"],
         acknowledged=acks, taken_over=weir.source()["changes"] - before, fresh=options.fresh)
    tell(figure="processor time of Weir", seconds=round(cpu, 2), of=round(lasted, 1))
    growth = marks[-1]["anonymous_kib"] - marks[len(marks) // 4]["anonymous_kib"]
    tell(figure="growth of anonymous memory in the last three quarters, KiB", growth=growth)
    tell(clients=plane.clients())
    failed = end(weir, client)
    tell(bar="converges within 2 s, no failed request", met=took <= 2.0 and failed == 0)
    return failed


def outage(options, folder):
    """The control plane is away, and has other servers when it is back."""
    origins, plane, weir, client = begin(options, folder, 0.005)
    done = client.done
    plane.stop()
    tell(figure="known to be away, s", seconds=round(until("the source is stale", lambda: weir.source()["is_stale"]), 3))
    began = time.monotonic()
    while time.monotonic() - began < options.seconds:
        time.sleep(0.5)
        assert client.last == "one", "the last known servers stay"
    tell(figure="requests in the outage", seconds=options.seconds, requests=client.done - done)
    plane.start()
    plane.set([origins["two"].port])
    took = until("it converges", lambda: client.last == "two")
    tell(figure="return to first response of the new server, s", seconds=round(took, 3))
    tell(clients=plane.clients())
    failed = end(weir, client)
    tell(bar="converges within 2 s, no failed request", met=took <= 2.0 and failed == 0)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["change", "rate", "outage"])
    parser.add_argument("--weir", required=True)
    parser.add_argument("--control-plane", required=True)
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--fresh", action="store_true", help="each change names servers that were never named before")
    options = parser.parse_args()
    with open("/proc/cpuinfo") as cpus:
        model = next((line.split(":")[1].strip() for line in cpus if line.startswith("model name")), "unknown")
    tell(mode=options.mode, cpu=model, cores=os.cpu_count(), kernel=platform.release(), load=os.getloadavg(),
         date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    folder = tempfile.mkdtemp(prefix="weir-xds-")
    try:
        code = {"change": change, "rate": rate, "outage": outage}[options.mode](options, folder)
    finally:
        tell(load_at_the_end=os.getloadavg())
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


main()
