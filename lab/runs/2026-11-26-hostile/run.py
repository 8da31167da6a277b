#!/usr/bin/env python3
"""Weir beside slow and hostile clients, and in a cgroup of little memory. `run.py WEIR memory|attacks|all`; raw figures go to figures.jsonl.

Attackers run with the idle policy of the scheduler, as if they were on other machines: they take the CPU time that Weir, its origin and the
well-behaved client leave."""
import json, os, pathlib, shutil, signal, socket, subprocess, sys, tempfile, time, urllib.request

HERE = pathlib.Path(__file__).parent
WEIR, WHAT = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
SECONDS = float(os.environ.get("SECONDS_EACH", "10"))
POLICY = os.environ.get("POLICY", "chrt -i 0").split()
OUT = open(os.environ.get("FIGURES", HERE / "figures.jsonl"), "a")


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def client(*arguments, idle=True):
    policy = POLICY if idle else []
    command = [*policy, sys.executable, str(HERE / "clients.py"), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def outcome(process):
    text = process.communicate(timeout=120)[0].strip().splitlines()
    return json.loads(text[-1]) if text else {}


class Site:
    def __init__(self, memory_limit=None, **environment):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-hostile-"))
        os.chmod(self.folder, 0o755)
        self.port, self.tls, self.admin, self.origin = (free_port() for _ in range(4))
        (self.folder / "large").write_bytes(b"x" * (1 << 20))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "365", "-subj", "/CN=a.test",
                        "-keyout", self.folder / "key.pem", "-out", self.folder / "cert.pem"], check=True, capture_output=True)
        conf = (HERE / "nginx.conf").read_text().replace("FOLDER", str(self.folder)).replace("PORT", str(self.origin))
        (self.folder / "nginx.conf").write_text("user root;\n" + conf)
        self.nginx = subprocess.Popen(["nginx", "-p", self.folder, "-c", self.folder / "nginx.conf"])
        self.group = None
        if memory_limit:
            own = next(line.split(":")[2] for line in open("/proc/self/cgroup") if "memory" in line.split(":")[1])
            self.group = pathlib.Path("/sys/fs/cgroup/memory" + own.rstrip() + "/weir-hostile")
            self.group.mkdir(exist_ok=True)
            (self.group / "memory.limit_in_bytes").write_text(str(memory_limit))
        environment = dict(os.environ, FOLDER=str(self.folder), PORT=str(self.port), TLS_PORT=str(self.tls), ADMIN_PORT=str(self.admin),
                           ORIGIN_PORT=str(self.origin), **environment)
        self.log = open(self.folder / "weir.log", "w")
        enter = lambda: self.group and (self.group / "cgroup.procs").write_text(str(os.getpid()))
        self.weir = subprocess.Popen([WEIR, "serve", HERE / "weir.toml"], env=environment, stderr=self.log, preexec_fn=enter)
        for _ in range(200):
            time.sleep(0.05)
            if (self.folder / "weir.pid").exists():
                return
        sys.exit((self.folder / "weir.log").read_text())

    def get(self, path):
        for _ in range(5):
            try:
                return urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=20).read().decode()
            except OSError as error:
                print("again:", error, file=sys.stderr)
                time.sleep(1)
        sys.exit("the admin listener does not answer")

    def memory(self):
        return json.loads(self.get("/api/memory"))

    def failures(self):
        found = {}
        for line in self.get("/metrics").splitlines():
            if line.startswith("weir_listener_failures_total{") and not line.endswith(" 0"):
                reason = line.split('reason="')[1].split('"')[0]
                found[reason] = found.get(reason, 0) + int(float(line.split()[-1]))
        return found

    def close(self):
        alive = self.weir.poll() is None
        self.weir.terminate()
        try:
            self.weir.wait(10)
        except subprocess.TimeoutExpired:
            self.weir.kill()
            self.weir.wait()
        self.nginx.terminate()
        self.nginx.wait()
        lines = [line for line in (self.folder / "weir.log").read_text().splitlines() if "emory" in line]
        shutil.rmtree(self.folder)
        if self.group:
            time.sleep(0.2)
            self.group.rmdir()
        return alive, lines


def record(name, **figures):
    line = json.dumps({"run": name, **figures})
    OUT.write(line + "\n")
    OUT.flush()
    print(line, flush=True)


def attack(site, name, make, tls=False, seconds=SECONDS):
    """The well-behaved client beside an attack, and for 4 s before it."""
    if name in os.environ.get("SKIP", "").split(";"):
        return
    port = site.tls if tls else site.port
    flags = ["--tls"] if tls else []
    alone = outcome(client("well-behaved", "--port", port, "--seconds", 4, *flags, idle=False))
    attackers = make()
    time.sleep(1.5)
    beside = outcome(client("well-behaved", "--port", port, "--seconds", seconds - 3, *flags, idle=False))
    figures, memory = site.failures(), site.memory()
    done = []
    for process in attackers:
        if isinstance(process, tuple):
            process[0].terminate()
            process[0].wait()
            done.append(process[1])
        else:
            done.append(outcome(process))
    record(name, alone=alone, beside=beside, attackers=done, failures=figures,
           weir_used_mib=memory["used_bytes"] >> 20, step=memory["step"])


def slowhttptest(site, mode, *more):
    command = [*POLICY, "slowhttptest", *mode, "-c", "4000", "-r", "2000", "-l", str(int(SECONDS) + 20), "-p", "5",
               "-u", f"http://127.0.0.1:{site.port}/large", *more]
    return [(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), {"kind": "slowhttptest " + mode[0], "connections": 4000})]


def attacks():
    site = Site()
    def crowd(kind, count, **more):
        extra = [part for key, value in more.items() for part in (f"--{key}", value)]
        return client("crowd", "--kind", kind, "--count", count, "--seconds", SECONDS, *extra)
    attack(site, "slowhttptest -H (heads)", lambda: slowhttptest(site, ["-H"], "-i", "5"))
    attack(site, "slowhttptest -B (bodies)", lambda: slowhttptest(site, ["-B"], "-i", "5", "-s", "8192"))
    attack(site, "slowhttptest -R (ranges)", lambda: slowhttptest(site, ["-R"], "-a", "5", "-b", "3000"))
    attack(site, "slowhttptest -X (slow read)", lambda: slowhttptest(site, ["-X"], "-w", "512", "-y", "1024", "-n", "5", "-z", "32", "-k", "3"))
    attack(site, "connection flood", lambda: [client("flood", "--kind", "open", "--port", site.port, "--seconds", SECONDS) for _ in range(2)])
    attack(site, "one-byte senders, 2 000", lambda: [crowd("heads", 2000, port=site.port, every=0.2)])
    attack(site, "garbage to the TLS port", lambda: [client("flood", "--kind", "garbage", "--port", site.tls, "--seconds", SECONDS) for _ in range(2)], tls=True)
    attack(site, "half handshakes, 4 000", lambda: [crowd("handshakes", 4000, port=site.tls)], tls=True)
    attack(site, "half hellos, 4 000", lambda: [crowd("half-hellos", 4000, port=site.tls)], tls=True)
    attack(site, "tiny records, 2 clients", lambda: [client("tiny-records", "--port", site.tls, "--seconds", SECONDS) for _ in range(2)], tls=True)
    flood = lambda: [client("flood", "--kind", "full-handshakes", "--port", site.tls, "--seconds", SECONDS) for _ in range(4)]
    attack(site, "full handshakes, handshake_rate off", flood, tls=True)
    site.close()
    site = Site(HANDSHAKE_RATE="200")
    attack(site, "full handshakes, handshake_rate 200", flood, tls=True)
    site.close()


def memory():
    """256 MiB for Weir in a cgroup of 293 MiB: first request heads that trickle, then slow downloads."""
    limit = (256 << 20) * 8 // 7
    for name, make in [
        ("17 000 slow heads", lambda site: [client("crowd", "--kind", "heads", "--port", site.port, "--count", 5900, "--seconds", 25, "--every", 3) for _ in range(3)]),
        ("15 000 slow heads, fewer than connections_max", lambda site: [client("crowd", "--kind", "heads", "--port", site.port, "--count", 5000, "--seconds", 25, "--every", 3) for _ in range(3)]),
        ("2 000 slow downloads of 1 MiB", lambda site: [client("crowd", "--kind", "downloads", "--port", site.port, "--count", 1000, "--seconds", 25, "--drip", 4096) for _ in range(2)]),
        ("both", lambda site: [client("crowd", "--kind", "heads", "--port", site.port, "--count", 4500, "--seconds", 25, "--every", 3) for _ in range(2)]
            + [client("crowd", "--kind", "downloads", "--port", site.port, "--count", 1000, "--seconds", 25, "--drip", 4096) for _ in range(2)]),
    ]:
        if os.environ.get("ONLY", name) != name:
            continue
        site = Site(memory_limit=limit)
        attackers = make(site)
        samples = []
        good = client("well-behaved", "--port", site.port, "--seconds", 22, idle=False)
        while good.poll() is None:
            time.sleep(1)
            if site.weir.poll() is None:
                now = site.memory()
                connections = json.loads(site.get("/api/overview"))["process"]["connections_open"]["now"]
                kernel = int((site.group / "memory.usage_in_bytes").read_text())
                samples.append([connections, now["used_bytes"] >> 20, kernel >> 20, now["step"]])
        figures = site.memory() if site.weir.poll() is None else {}
        peak = int((site.group / "memory.max_usage_in_bytes").read_text()) >> 20
        killed = next(int(line.split()[1]) for line in (site.group / "memory.oom_control").read_text().splitlines() if line.startswith("oom_kill "))
        failures = site.failures() if figures else {}
        done = [outcome(process) for process in attackers]
        alive, lines = site.close()
        record(name, limit_mib=limit >> 20, alive=alive, oom_kills=killed, peak_of_cgroup_mib=peak, well_behaved=outcome(good), attackers=done,
               samples_connections_used_cgroup_step=samples, memory=figures, failures=failures, log=lines)


if WHAT in ("memory", "all"):
    memory()
if WHAT in ("attacks", "all"):
    attacks()
