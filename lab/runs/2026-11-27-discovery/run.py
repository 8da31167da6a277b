#!/usr/bin/env python3
"""Sources of servers that go away, come back with other contents, or change all the time.

    run.py outage  --weir target/release/weir --seconds 600
    run.py changes --weir target/release/weir --seconds 60 --rate 1000
    run.py outage  --weir target/release/weir --seconds 600 --consul target/tools/bin/consul    (the real one: `cargo xtask consul`)
    run.py write --source etcd --rate 500 --seconds 10    (what etcd takes here without Weir)

One Weir follows four upstreams: the real etcd (`etcd` in PATH), a Consul that is scripted or the real one, a scripted DNS server (A and SRV
are the same mechanism: A), and a file. A client per upstream asks without a pause between its requests, so that each failed request is seen.
Everything is on loopback; ports are chosen by the kernel. Prints one line of JSON per figure; nothing but Python's standard library.
"""

import argparse
import atexit
import base64
import http.client
import json
import os
import platform
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

PREFIX = "/services/app/"

# More requests than a worker records by default (`recorder.exchanges`): its memory does not grow by requests any more.
RECORDED = 5000


def free_port(host="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def tell(**figures):
    print(json.dumps(figures), flush=True)


def until(what, condition, limit=60.0):
    """Seconds until a condition holds."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > limit:
            sys.exit(f"{what}: not within {limit} s")
        time.sleep(0.005)
    return time.monotonic() - began


class Origin:
    """A server that answers each request with its name, on any of the addresses 127.0.0.0/8."""

    def __init__(self, host, port, name):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                body = name.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self.server = Server((host, port), Handler)
        self.address = "%s:%d" % self.server.server_address
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Store:
    """A program that is asked over HTTP, by each thread on a connection of its own."""

    def __init__(self, port=None):
        self.port, self.local, self.ever = port or free_port(), threading.local(), set()

    def ask(self, method, target, question):
        """The answer; `None`: there is none, or it is a refusal."""
        try:
            if not hasattr(self.local, "connection"):
                self.local.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            self.local.connection.request(method, target, json.dumps(question))
            answer = self.local.connection.getresponse()
            text = answer.read()
            return text if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            if hasattr(self.local, "connection"):
                self.local.connection.close()
                del self.local.connection
            return None

    def run(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        atexit.register(self.process.kill)
        until(f"{command[0]} answers", self.answers)

    def stop(self):
        self.process.kill()
        self.process.wait()


class Etcd(Store):
    def __init__(self, folder=None, port=None):
        super().__init__(port)
        self.folder, self.peer = folder, free_port()

    def start(self):
        url, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer}"
        self.run("etcd", "--name", "one", "--log-level", "error", "--unsafe-no-fsync", "--data-dir", self.folder,
                 "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
                 "--initial-advertise-peer-urls", peer, "--initial-cluster", f"one={peer}")

    def answers(self):
        return self.ask("POST", "/v3/kv/range", {"key": "eA=="}) is not None

    def set(self, addresses):
        """Each address is a key; others go, in the same transaction."""
        encode = lambda text: base64.b64encode(text.encode()).decode()
        puts = [{"requestPut": {"key": encode(PREFIX + address), "value": encode(json.dumps({"Op": 0, "Addr": address}))}}
                for address in addresses]
        wanted = set(addresses)
        self.ever |= wanted
        gone = [{"requestDeleteRange": {"key": encode(PREFIX + address)}} for address in self.ever - wanted]
        return self.ask("POST", "/v3/kv/txn", {"success": puts + gone})

    def learn(self, sets):
        """Others have written these."""
        self.ever.update(*sets)


class RealConsul(Store):
    """An agent that is a server, too, and keeps everything in memory: when it is back, it has nothing, and its index begins anew."""

    def __init__(self, program=None, port=None):
        super().__init__(port)
        self.program = program

    def start(self):
        self.ever = set()
        self.run(self.program, "agent", "-dev", "-bind=127.0.0.1", "-dns-port=-1", "-grpc-port=-1", "-serf-wan-port=-1",
                 f"-http-port={self.port}", f"-serf-lan-port={free_port()}", f"-server-port={free_port()}")

    def answers(self):
        """Whether it has elected itself."""
        return len(self.ask("GET", "/v1/status/leader", "") or b"") > 4

    def set(self, addresses):
        """Each address is an instance; those that come are registered before the others go, one request for each."""
        for address in addresses:
            if address not in self.ever:
                host, port = address.split(":")
                self.change("register", {"ID": address, "Name": "app", "Address": host, "Port": int(port)})
        for address in self.ever - set(addresses):
            self.change(f"deregister/{address}", "")
        self.ever = set(addresses)

    def learn(self, _sets):
        self.ever = set(json.loads(self.ask("GET", "/v1/agent/services", "")))

    def change(self, target, question):
        # A server that has just been elected refuses some requests.
        until(f"Consul takes {target}", lambda: self.ask("PUT", f"/v1/agent/service/{target}", question) is not None)


def write_sets(store, rate, seconds, sets, writers):
    """Changes by several writers; how many there were, and how many began late. The figures of a process of its own: the clients and servers of
    the run share one interpreter lock."""
    counts, end = [[0, 0] for _ in range(writers)], time.monotonic() + seconds

    def write(count):
        began = time.monotonic()
        while time.monotonic() < end:
            store.set(sets[count[0] % len(sets)])
            count[0] += 1
            ahead = began + count[0] * writers / rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            else:
                count[1] += 1

    threads = [threading.Thread(target=write, args=[count]) for count in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [sum(column) for column in zip(*counts)]


def write(options):
    """Only a store and its writers: what the machine lets them do. A set of etcd is one transaction, and has eight writers; one of Consul is a
    request for each instance that comes or goes."""
    folder, port = tempfile.mkdtemp(prefix="weir-discovery-"), options.port
    store, writers = (Etcd(os.path.join(folder, "etcd"), port), 8) if options.source == "etcd" else (RealConsul(options.consul, port), 1)
    try:
        if not port:
            store.start()
        done, late = write_sets(store, options.rate, options.seconds, json.loads(options.sets), writers)
        tell(source=options.source, figure="writes", per_second=round(done / options.seconds, 1), wanted=options.rate, late=late, done=done)
    finally:
        if not port:
            store.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


class Consul:
    """Blocking queries of `/v1/health/service/app`, as in Consul: an answer when the index has grown, or after the wait."""

    def __init__(self):
        self.port, self.index, self.addresses = free_port(), 1, []
        self.changed = threading.Condition()
        self.server = None

    def start(self):
        consul = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                query = dict(part.split("=", 1) for part in self.path.partition("?")[2].split("&") if "=" in part)
                seen = int(query.get("index", 0))
                with consul.changed:
                    consul.changed.wait_for(lambda: consul.index > seen or consul.server is None, timeout=60 if seen else 0)
                    if consul.server is None:
                        self.close_connection = True
                        return
                    index, addresses = consul.index, consul.addresses
                body = json.dumps([{"Node": {"Node": "n", "Address": "127.0.0.1"}, "Checks": [],
                                    "Service": {"ID": address, "Address": address.split(":")[0], "Port": int(address.split(":")[1])}}
                                   for address in addresses]).encode()
                self.send_response(200)
                self.send_header("X-Consul-Index", str(index))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        server = self.server
        with self.changed:
            self.server = None
            self.changed.notify_all()
        server.shutdown()
        server.server_close()

    def set(self, addresses):
        with self.changed:
            self.addresses, self.index = list(addresses), self.index + 1
            self.changed.notify_all()


class Dns:
    """A records of every name, for one second; nothing at all while it is away."""

    def __init__(self):
        self.port, self.addresses, self.socket = free_port(), [], None

    def start(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", self.port))
        threading.Thread(target=self.serve, args=[self.socket], daemon=True).start()

    def serve(self, udp):
        while self.socket is udp:
            try:
                query, peer = udp.recvfrom(1500)
            except OSError:
                return
            if self.socket is not udp:
                return
            end = query.index(b"\0", 12) + 5
            kind = struct.unpack(">H", query[end - 4:end - 2])[0]
            hosts = [address.split(":")[0] for address in self.addresses] if kind == 1 else []
            answers = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + socket.inet_aton(host) for host in hosts)
            head = query[:2] + struct.pack(">HHHHH", 0x8580, 1, len(hosts), 0, 0)
            udp.sendto(head + query[12:end] + answers, peer)

    def stop(self):
        udp, self.socket = self.socket, None
        # Wakes the thread that reads.
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", self.port))
        udp.close()

    def set(self, addresses):
        self.addresses = list(addresses)


class File:
    """A file that is gone in an outage."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "servers.json")

    def start(self):
        self.set(self.addresses)

    def stop(self):
        os.remove(self.path)

    def set(self, addresses):
        self.addresses = list(addresses)
        with open(self.path + ".draft", "w") as draft:
            json.dump({"servers": [{"address": address} for address in addresses]}, draft)
        os.rename(self.path + ".draft", self.path)


class Client(threading.Thread):
    """Requests to one upstream, one after the other on a kept connection."""

    def __init__(self, port, name, pause):
        super().__init__(daemon=True)
        self.port, self.name_of_route, self.pause = port, name, pause
        self.done, self.failed, self.last, self.problems, self.ending = 0, 0, None, [], False

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        while not self.ending:
            try:
                connection.request("GET", f"/{self.name_of_route}")
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
        self.port = self.port_of("web")
        self.admin = self.port_of("admin")

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

    def overview(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=10)
        connection.request("GET", "/api/overview")
        overview = json.loads(connection.getresponse().read())
        connection.close()
        return {upstream["name"]: upstream for upstream in overview["upstreams"]}

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/smaps_rollup") as rollup:
            sizes = {line.split()[0]: int(line.split()[1]) for line in rollup if line.endswith(" kB\n")}
        return {"resident_kib": sizes["Rss:"], "anonymous_kib": sizes["Anonymous:"]}

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


def begin(options, folder):
    """Two groups of two servers each; the sources name the first."""
    # The same port for all, since DNS has none; each server has an address of its own.
    port = free_port()
    groups = {group: [Origin(f"127.0.{net}.{last}", port, group) for last in (1, 2)] for net, group in ((1, "before"), (2, "after"))}
    addresses = {group: [origin.address for origin in origins] for group, origins in groups.items()}
    consul = RealConsul(options.consul) if options.consul else Consul()
    sources = {"etcd": Etcd(os.path.join(folder, "etcd")), "consul": consul, "dns": Dns(), "file": File(folder)}
    for name, source in sources.items():
        if name == "file":
            source.addresses = addresses["before"]
        source.start()
        source.set(addresses["before"])
    kinds = {"etcd": f'{{ etcd = "{PREFIX}" }}', "consul": '{ consul = "app" }', "dns": f'{{ dns = "app.test:{port}" }}',
             "file": f'{{ file = "{sources["file"].path}" }}'}
    text = (f'admin.address = "127.0.0.1:0"\nprocess.workers = 1\ndiscovery.etcd.url = "http://127.0.0.1:{sources["etcd"].port}"\n'
            f'discovery.consul.url = "http://127.0.0.1:{sources["consul"].port}"\ndns.resolvers = ["127.0.0.1:{sources["dns"].port}"]\n'
            'listener.web.address = "127.0.0.1:0"\n')
    for name, kind in kinds.items():
        text += f'[[listener.web.route]]\npath = "/{name}"\nupstream = "{name}"\n[upstream.{name}]\ndiscovery = {kind}\n'
    weir = Weir(options.weir, folder, text)
    clients = {name: Client(weir.port, name, options.pause) for name in sources}
    for client in clients.values():
        client.start()
    until("all sources are in use", lambda: all(client.last == "before" for client in clients.values()))
    return addresses, sources, weir, clients


def end(weir, clients):
    for name, client in clients.items():
        client.ending = True
        client.join(15)
        tell(source=name, requests=client.done, failed=client.failed, problems=client.problems[:5])
    weir.stop()
    return sum(client.failed for client in clients.values())


def outage(options, folder):
    addresses, sources, weir, clients = begin(options, folder)
    done = {name: client.done for name, client in clients.items()}
    began = time.monotonic()
    for source in sources.values():
        source.stop()
    until("every source is stale", lambda: all(upstream["source"]["is_stale"] for upstream in weir.overview().values()), 120)
    tell(figure="all sources are known to be away", seconds=round(time.monotonic() - began, 3))
    while time.monotonic() - began < options.seconds:
        time.sleep(min(1.0, max(0.0, options.seconds - (time.monotonic() - began))))
        assert all(client.last == "before" for client in clients.values()), "the last known servers stay"
    for name, client in clients.items():
        tell(source=name, figure="requests in the outage", seconds=options.seconds, requests=client.done - done[name])
    met = True
    for name, source in sources.items():
        # From the moment at which it answers again with other servers: etcd takes its time to start.
        source.start()
        source.set(addresses["after"])
        seconds = until(f"{name} converges", lambda: clients[name].last == "after")
        tell(source=name, figure="return to first request on the new servers", seconds=round(seconds, 3))
        met &= seconds <= 2.0
    # Nothing of what is gone is used any more.
    time.sleep(0.2)
    assert all(client.last == "after" for client in clients.values())
    failed = end(weir, clients)
    tell(bar="converges within 2 s, no failed request", met=met and failed == 0)
    for source in sources.values():
        if isinstance(source, Store):
            source.stop()
    return 0 if met and failed == 0 else 1


def changes(options, folder):
    """Every source changes so many times per second, all together, between three sets that share a server."""
    addresses, sources, weir, clients = begin(options, folder)
    for client in clients.values():
        client.pause = 0
    until("the recorder is full", lambda: sum(client.done for client in clients.values()) >= RECORDED, limit=300)
    for client in clients.values():
        client.pause = options.pause
    one, two = addresses["before"]
    three = addresses["after"][0]
    sets = [[one, two], [one, three], [one]]
    rates = {"etcd": options.rate // 2, "consul": options.rate // 2 - 50, "file": 50}
    # Stores that are programs have writers that are processes.
    stores = [name for name in rates if isinstance(sources[name], Store)]
    counts, late, stopping = {name: 0 for name in rates}, {name: 0 for name in rates}, threading.Event()

    def change(name, rate):
        began, done = time.monotonic(), 0
        while not stopping.is_set():
            sources[name].set(sets[counts[name] % len(sets)])
            counts[name] += 1
            done += 1
            ahead = began + done / rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
            else:
                late[name] += 1

    def told():
        return {name: upstream["source"]["changes"] for name, upstream in weir.overview().items()}

    def writer(name):
        command = [sys.executable, __file__, "write", "--source", name, "--port", str(sources[name].port), "--rate", str(rates[name]),
                   "--seconds", str(options.seconds), "--sets", json.dumps(sets)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    before, cpu, marks = told(), weir.cpu_seconds(), []
    threads = [threading.Thread(target=change, args=(name, rate)) for name, rate in rates.items() if name not in stores]
    began = time.monotonic()
    writers = {name: writer(name) for name in stores}
    for thread in threads:
        thread.start()
    while time.monotonic() - began < options.seconds:
        time.sleep(options.seconds / 20)
        marks.append(weir.memory_kib())
        tell(figure="memory", seconds=round(time.monotonic() - began, 1), **marks[-1])
    stopping.set()
    for thread in threads:
        thread.join()
    for name, process in writers.items():
        written = json.loads(process.communicate()[0])
        counts[name], late[name] = written["done"], written["late"]
        sources[name].learn(sets)
    lasted, cpu = time.monotonic() - began, weir.cpu_seconds() - cpu
    # The last word: the other group.
    last = time.monotonic()
    for name in rates:
        sources[name].set(addresses["after"])
    until("all converge", lambda: all(clients[name].last == "after" for name in rates))
    tell(figure="last change to first request on its servers, all sources", seconds=round(time.monotonic() - last, 3))
    after = told()
    for name, rate in rates.items():
        tell(source=name, figure="changes", per_second=round(counts[name] / lasted, 1), wanted=rate, late=late[name],
             taken_over=after[name] - before[name])
    growth = marks[-1]["anonymous_kib"] - marks[len(marks) // 4]["anonymous_kib"]
    tell(figure="growth of anonymous memory in the last three quarters, KiB", growth=growth)
    tell(figure="processor time of Weir", seconds=round(cpu, 2), of=round(lasted, 1), requests=sum(client.done for client in clients.values()))
    failed = end(weir, clients)
    for name in stores:
        sources[name].stop()
    return 0 if failed == 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=["outage", "changes", "write"])
    parser.add_argument("--weir")
    parser.add_argument("--consul", help="the program of the real Consul, in place of the scripted one")
    parser.add_argument("--source", choices=["etcd", "consul"], default="etcd", help="what is written to")
    parser.add_argument("--port", type=int, help="of a store that runs already")
    parser.add_argument("--sets", default='[["127.0.0.1:1", "127.0.0.2:1"], ["127.0.0.1:1"]]', help="servers, in JSON, that are written in turns")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, default=1000, help="changes per second, of all sources together")
    parser.add_argument("--pause", type=float, default=0.005, help="seconds between the requests of a client")
    options = parser.parse_args()
    if options.mode == "write":
        sys.exit(write(options))
    with open("/proc/cpuinfo") as cpus:
        model = next((line.split(":")[1].strip() for line in cpus if line.startswith("model name")), "unknown")
    tell(mode=options.mode, cpu=model, cores=os.cpu_count(), kernel=platform.release(), load=os.getloadavg(), weir=options.weir,
         date=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    folder = tempfile.mkdtemp(prefix="weir-discovery-")
    try:
        code = {"outage": outage, "changes": changes}[options.mode](options, folder)
    finally:
        tell(load_at_the_end=os.getloadavg())
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


main()
