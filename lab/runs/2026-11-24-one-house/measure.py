#!/usr/bin/env python3
"""Compares two builds of Weir: CPU time per request, and memory per idle client connection and per idle tunnel.

measure.py OLD NEW WEIR_LAB OUT.csv. Both run at the same time with one worker on CPU 1 and are loaded in turn, in alternating
order, by wrk on CPU 0, where the origin runs, too (`weir-lab origin`). CPU time is that of all threads of the process from
/proc/PID/task/*/schedstat. Needs wrk and openssl.
"""
import csv, glob, math, os, re, resource, socket, statistics, subprocess, sys, tempfile, time

OLD, NEW, LAB, OUT = sys.argv[1:5]
ROUNDS, WINDOW = 30, 1
resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, 20_000))
folder = tempfile.mkdtemp()
POST = folder + "/post.lua"
open(POST, "w").write('wrk.method = "POST"\nwrk.body = string.rep("w", 1024)\nwrk.headers["Content-Type"] = "application/json"\n')
subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                "-subj", "/CN=localhost", "-keyout", folder + "/key.pem", "-out", folder + "/cert.pem"], check=True, capture_output=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


ORIGIN = free_port()
origin = subprocess.Popen(["taskset", "-c", "0", LAB, "origin", "--listen", f"127.0.0.1:{ORIGIN}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Weir:
    def __init__(self, name, program):
        self.name, self.http, self.tcp, self.tls = name, free_port(), free_port(), free_port()
        config = f"{folder}/{name}.toml"
        open(config, "w").write(f"""process.workers = 1
listener.web.address = "127.0.0.1:{self.http}"
listener.web.upstream = "app"
listener.raw.address = "127.0.0.1:{self.tcp}"
listener.raw.protocol = "tcp"
listener.raw.upstream = "app"
listener.secure.address = "127.0.0.1:{self.tls}"
listener.secure.upstream = "app"
listener.secure.tls.certificates = [{{ certificate = "{folder}/cert.pem", key = "{folder}/key.pem" }}]
upstream.app.servers = ["127.0.0.1:{ORIGIN}"]
""")
        self.process = subprocess.Popen(["taskset", "-c", "1", program, "serve", config], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if line.strip() == "ready":
                break
        else:
            sys.exit(f"{name} did not start")

    def cpu_ns(self):
        return sum(int(open(task).read().split()[0]) for task in glob.glob(f"/proc/{self.process.pid}/task/*/schedstat"))

    def pss_kib(self):
        text = open(f"/proc/{self.process.pid}/smaps_rollup").read()
        return int(re.search(r"^Pss: +(\d+)", text, re.M)[1])


def wrk(weir, url, *options):
    before = weir.cpu_ns()
    text = subprocess.run(["taskset", "-c", "0", "wrk", "-t1", "-c64", f"-d{WINDOW}s", *options, url], capture_output=True, text=True, check=True).stdout
    requests = int(re.search(r"(\d+) requests in", text)[1])
    assert "Non-2xx" not in text and requests > 1000, text
    return (weir.cpu_ns() - before) / 1000 / requests


def connections(weir, port, count, ask):
    """Opens `count` connections that have had one exchange, and keeps them idle."""
    opened = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", port))
        s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        data = b""
        while b"\r\n\r\n" not in data:
            data += s.recv(65536)
        length = int(re.search(rb"(?i)content-length: (\d+)", data)[1])
        while len(data.split(b"\r\n\r\n", 1)[1]) < length:
            data += s.recv(65536)
        opened.append(s)
    return opened


def memory(weir, port, few, many):
    """Bytes per connection, from the slope between `few` and `many`."""
    first = connections(weir, port, few, None)
    time.sleep(1)
    low = weir.pss_kib()
    more = connections(weir, port, many - few, None)
    time.sleep(1)
    per = (weir.pss_kib() - low) * 1024 / (many - few)
    for s in first + more:
        s.close()
    time.sleep(1)
    return per


LOADS = {
    "l7-keepalive": lambda w: wrk(w, f"http://127.0.0.1:{w.http}/"),
    "l7-post-1k": lambda w: wrk(w, f"http://127.0.0.1:{w.http}/", "-s", POST),
    "l7-short": lambda w: wrk(w, f"http://127.0.0.1:{w.http}/", "-H", "Connection: close"),
    "l4-keepalive": lambda w: wrk(w, f"http://127.0.0.1:{w.tcp}/"),
    "tls-keepalive": lambda w: wrk(w, f"https://127.0.0.1:{w.tls}/"),
}
rows = []
weirs = [Weir("old", OLD), Weir("new", NEW)]
for load, run in LOADS.items():
    for weir in weirs:
        run(weir)  # Warm.
    for round in range(ROUNDS):
        for weir in weirs if round % 2 == 0 else weirs[::-1]:
            rows.append((load, round + 1, weir.name, "cpu-us-per-request", f"{run(weir):.3f}"))
for weir in weirs:
    weir.process.terminate()
    weir.process.wait()
for what, few, many in (("idle-client", 1000, 6000), ("idle-tunnel", 500, 3000)):
    for round in range(3):
        for name, program in (("old", OLD), ("new", NEW)):
            weir = Weir(name, program)
            per = memory(weir, weir.http if what == "idle-client" else weir.tcp, few, many)
            rows.append((what, round + 1, name, "bytes-per-connection", f"{per:.0f}"))
            weir.process.terminate()
            weir.process.wait()
origin.terminate()
with open(OUT, "w", newline="") as out:
    csv.writer(out, lineterminator="\n").writerows([("load", "round", "build", "figure", "value"), *rows])
print("load            old      new      new/old  (95 % interval of the mean of the rounds' ratios)")
for load in dict.fromkeys(row[0] for row in rows):
    values = {name: [float(r[4]) for r in rows if r[0] == load and r[2] == name] for name in ("old", "new")}
    ratios = [n / o for o, n in zip(values["old"], values["new"])]
    t = {30: 2.045, 3: 4.303}[len(ratios)]
    half = t * statistics.stdev(ratios) / math.sqrt(len(ratios))
    mean = statistics.mean(ratios)
    print(f"{load:14} {statistics.mean(values['old']):8.3f} {statistics.mean(values['new']):8.3f}  {mean:6.3f}  ({mean - half:.3f} to {mean + half:.3f})")
