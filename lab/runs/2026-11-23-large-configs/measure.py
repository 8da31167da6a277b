#!/usr/bin/env python3
"""Measures what a large configuration costs: measure.py WEIR CONFIG.toml [RUNS]

Prints the median of RUNS (3) of each: `check`; the start until the admin listener says that it is ready; memory when idle, whole and
per server; a reload after the change of one server; the weight of one server by the runtime socket.
"""
import atexit
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

weir, config, runs = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 3
text = open(config).read()
servers = len(re.findall(r'"127\.\d+\.\d+\.\d+:1\d{4}"', text))
folder = tempfile.mkdtemp(prefix="weir-large-")
path = os.path.join(folder, "weir.toml")
control = re.search(r'admin.socket = "unix:(.*)"', text)[1]
admin = re.search(r'admin.address = "(.*)"', text)[1]
figures = {}


def note(name, value):
    figures.setdefault(name, []).append(value)


def status(pid, key):
    return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith(key))


def command(line):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(control)
        client.sendall(line.encode() + b"\n")
        answer = b""
        while chunk := client.recv(65536):
            answer += chunk
        return answer.decode()


def ready():
    try:
        return urllib.request.urlopen(f"http://{admin}/ready", timeout=60).status == 200
    except OSError:
        return False


def wait_for(log, words, since):
    while True:
        with open(log) as file:
            file.seek(since)
            if any(word in file.read() for word in words):
                return
        time.sleep(0.002)


for run in range(runs):
    open(path, "w").write(text)
    if os.path.exists(control):
        os.unlink(control)
    begin = time.monotonic()
    subprocess.run([weir, "check", path], stdout=subprocess.DEVNULL, check=True)
    note("check s", time.monotonic() - begin)
    log = os.path.join(folder, f"log-{run}")
    begin = time.monotonic()
    process = subprocess.Popen([weir, "serve", path], stderr=open(log, "w"), stdout=subprocess.DEVNULL)
    atexit.register(process.kill)
    while not ready():
        assert process.poll() is None, open(log).read()
        time.sleep(0.002)
    note("start s", time.monotonic() - begin)
    time.sleep(1)
    note("RSS MiB", status(process.pid, "VmRSS") / 1024)
    note("RSS B per server", status(process.pid, "VmRSS") * 1024 / max(servers, 1))
    if servers > 10:
        begin = time.monotonic()
        answer = command("set server u7/127.1.0.8:10000 weight 50%") if "[upstream.u7]" in text else ""
        note("weight ms", (time.monotonic() - begin) * 1000)
        assert not answer.strip(), answer
        at = re.search(r'\[upstream\.u7\]\nservers = \["127\.1\.0\.8:(10000)"', text).span(1)
        open(path, "w").write(text[: at[0]] + "19999" + text[at[1] :])
        since = os.path.getsize(log)
        begin = time.monotonic()
        os.kill(process.pid, signal.SIGHUP)
        wait_for(log, ["reloaded"], since)
        note("reload of one server ms", (time.monotonic() - begin) * 1000)
        time.sleep(2)
        note("RSS after reload MiB", status(process.pid, "VmRSS") / 1024)
        note("peak MiB", status(process.pid, "VmHWM") / 1024)
        begin = time.monotonic()
        size = len(urllib.request.urlopen(f"http://{admin}/metrics", timeout=120).read())
        note("metrics s", time.monotonic() - begin)
        note("metrics MiB", size / 2**20)
        note("peak after metrics MiB", status(process.pid, "VmHWM") / 1024)
    process.terminate()
    process.wait()

for name, values in figures.items():
    print(f"{name:26} {statistics.median(values):10.2f}   ({min(values):.2f} to {max(values):.2f})")
