#!/usr/bin/env python3
"""Every flood beside a client that behaves: flood.py WEIR FLOOD ORIGIN SECONDS [MODE ...]

Weir with one worker on CPU 0; server, attacker and client on CPU 1. Before and after every few floods the attacker's program only keeps its CPU busy (`spin`), and in
the end sends proper requests (`requests`): what the client is compared with. FLOOD and ORIGIN are the built programs of this folder. Prints a table.
"""
import os, re, subprocess, sys, time, urllib.request

weir, flood, origin, seconds = sys.argv[1:5]
here = os.path.dirname(os.path.abspath(__file__))
modes = sys.argv[5:] or """rapid-reset rapid-reset-apart made-you-reset made-you-reset-length continuation continuation-empty hpack-bomb hpack-bomb-few cookie-crumbs ping
settings settings-empty priority window-update window-update-stream unknown empty-data padding dribble huge-headers large-headers closed-streams closed-streams-data
too-many-streams connect zero-window slow-read streams-left""".split()
# Held connections, each with 128 streams, instead of four that write.
held = {"zero-window": "32", "slow-read": "16", "streams-left": "32"}


# Before what else runs on the machine: sessions get equal shares of a CPU, whatever the niceness of their processes.
try:
    os.setsid()
except OSError:
    pass
with open("/proc/self/autogroup", "w") as file:
    file.write("-15")


def rss(process):
    with open(f"/proc/{process.pid}/status") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024


def metrics():
    text = urllib.request.urlopen("http://127.0.0.1:9590/metrics").read().decode()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")}


def cpu(process):
    with open(f"/proc/{process.pid}/stat") as file:
        parts = file.read().rsplit(")", 1)[1].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def run(mode):
    proxy = subprocess.Popen(["taskset", "-c", "0", "nice", "-n", "-10", weir, "serve", f"{here}/flood.toml"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    before, cpu_before = rss(proxy), cpu(proxy)
    load = os.getloadavg()[0]
    good = subprocess.Popen(["taskset", "-c", "1", "nice", "-n", "-10", flood, "good", "127.0.0.1:9543", seconds], stdout=subprocess.PIPE, text=True)
    # Its connection is there before the attacker's use up the ports.
    time.sleep(1)
    # Before other programs of the machine. The attacker gets what the client and the server leave of the CPU, when it spins as when it attacks.
    attacker = subprocess.Popen(["taskset", "-c", "1", "nice", "-n", "-3", flood, mode, "127.0.0.1:9543", seconds, held.get(mode, "4")],
                                stdout=subprocess.PIPE, text=True)
    sizes = []
    while good.poll() is None or attacker.poll() is None:
        sizes.append(rss(proxy))
        time.sleep(1)
    used = cpu(proxy) - cpu_before
    time.sleep(3)
    after = rss(proxy)
    counted = metrics()
    proxy.terminate()
    proxy.wait()
    told = good.stdout.read().strip()
    sent = attacker.stdout.read().strip()
    counters = {}
    for name, value in counted.items():
        if value and (match := re.match(r'weir_listener_failures_total\{listener="web".*reason="([^"]+)"', name)):
            counters[match[1]] = counters.get(match[1], 0) + int(value)
        elif value and re.match(r"weir_listener_(streams_refused|resets|stream_resets|goaways|http2)\w*_total", name):
            counters[name.replace("weir_listener_", "").replace('{listener="web"', "{").replace("{}", "").replace("{,", "{")] = int(value)
    print(f"| {mode} | {told} | {before:.0f} / {max(sizes):.0f} / {sizes[-1]:.0f} / {after:.0f} | {used:.0f} | {sent} | "
          + ", ".join(f"{k} {v}" for k, v in counters.items()) + f" | {load:.1f} |", flush=True)


server = subprocess.Popen(["taskset", "-c", "1", "nice", "-n", "-10", origin, "9501", "9502", f"{os.environ['RUN']}/leaf.pem", f"{os.environ['RUN']}/leaf.key"])
time.sleep(0.5)
try:
    print("| flood | client (ms) | MiB before / most / at the end / 3 s later | CPU s of Weir | attacker | counted | load before |")
    print("|---|---|---|---|---|---|---|")
    for number, mode in enumerate(modes):
        if number % 7 == 0:
            run("spin")
        run(mode)
    for mode in ("spin", "requests"):
        run(mode)
finally:
    server.kill()
