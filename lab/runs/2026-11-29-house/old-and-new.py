#!/usr/bin/env python3
"""CPU of two builds of Weir for each request, in interleaved rounds: old-and-new.py OLD NEW [ROUNDS]

One worker on CPU 1; nginx as the server and wrk or h2load on CPU 0. Prints user and system microseconds for each request of each round, and the ratios of pairs.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ORIGIN = """daemon off; worker_processes 1; error_log /dev/null; pid {dir}/nginx.pid;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 1000000000;
server {{ listen 127.0.0.1:9801; location / {{ return 200 "{body}"; }} }} }}"""
CONFIG = """process.workers = 1
[listener.web]
address = "127.0.0.1:{port}"
upstream = "app"
[listener.web.http2]
prior_knowledge = "allowed"
[listener.tls]
address = "127.0.0.1:{tls}"
upstream = "app"
[listener.tls.tls]
certificates = [{{ certificate = "{dir}/c.pem", key = "{dir}/k.pem" }}]
[listener.db]
address = "127.0.0.1:{tcp}"
protocol = "tcp"
upstream = "app"
[upstream.app]
servers = ["127.0.0.1:9801"]
"""
TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def load(command):
    out = subprocess.run(["taskset", "-c", "0"] + command, capture_output=True, text=True).stdout
    found = re.search(r"(\d+) requests in", out) or re.search(r"requests: \d+ total, \d+ started, (\d+) done", out)
    assert found, out
    return int(found.group(1))


def main():
    programs, rounds = sys.argv[1:3], int(sys.argv[3]) if len(sys.argv) > 3 else 5
    with tempfile.TemporaryDirectory() as folder:
        open(f"{folder}/nginx.conf", "w").write(ORIGIN.format(dir=folder, body="x" * 612))
        subprocess.run(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3 -subj /CN=localhost".split()
            + ["-keyout", f"{folder}/k.pem", "-out", f"{folder}/c.pem"], capture_output=True, check=True)
        running = [subprocess.Popen(["taskset", "-c", "0", "nginx", "-p", folder, "-c", f"{folder}/nginx.conf"])]
        ports = []
        for place, program in enumerate(programs):
            port = 9811 + 10 * place
            ports.append(port)
            open(f"{folder}/{place}.toml", "w").write(CONFIG.format(port=port, tls=port + 1, tcp=port + 2, dir=folder))
            running.append(subprocess.Popen(["taskset", "-c", "1", program, "serve", f"{folder}/{place}.toml"], stderr=subprocess.DEVNULL))
        time.sleep(1.5)
        wrk = lambda port, scheme="http": ["wrk", "-t1", "-c64", "-d4", f"{scheme}://127.0.0.1:{port}/"]
        scenarios = {
            "L7 keep-alive, 64 connections": lambda port: wrk(port),
            "TLS keep-alive, 64 connections": lambda port: wrk(port + 1, "https"),
            "L4, 64 connections": lambda port: wrk(port + 2),
            "h2c, 10 x 10": lambda port: ["h2load", "-c10", "-m10", "-n60000", f"http://127.0.0.1:{port}/"],
        }
        try:
            for name, command in scenarios.items():
                pairs = []
                for number in range(rounds):
                    order = [0, 1] if number % 2 == 0 else [1, 0]
                    used = {}
                    for place in order:
                        before = cpu(running[place + 1].pid)
                        done = load(command(ports[place]))
                        used[place] = (cpu(running[place + 1].pid) - before) / done * 1e6
                    pairs.append((used[0], used[1]))
                ratios = sorted(new / old for old, new in pairs)
                print(f"{name}: old {statistics.median(p[0] for p in pairs):.2f} us, new {statistics.median(p[1] for p in pairs):.2f} us, "
                      f"ratio {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})", flush=True)
        finally:
            for process in running:
                process.terminate()


main()
