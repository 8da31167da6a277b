#!/usr/bin/env python3
"""measure.py WEIR CONFIG [QUERY]: starts WEIR on CONFIG, scrapes /metrics once, and prints the text's size, the time, and the memory.

CONFIG is of ../2026-11-23-large-configs/generate.py, whose admin address is 127.0.0.1:9911.
"""
import http.client
import subprocess
import sys
import time

weir, config = sys.argv[1:3]
query = sys.argv[3] if len(sys.argv) > 3 else ""
process = subprocess.Popen([weir, "serve", config], stderr=subprocess.DEVNULL)


def status(key):
    for line in open(f"/proc/{process.pid}/status"):
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024


def get(path):
    connection = http.client.HTTPConnection("127.0.0.1", 9911, timeout=120)
    connection.request("GET", path)
    return connection.getresponse()


try:
    while True:
        try:
            get("/ready").read()
            break
        except OSError:
            time.sleep(0.05)
    time.sleep(5)
    cpu = lambda: sum(int(word) for word in open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()[11:13]) / 100
    # The peak of the start is not that of the scrape.
    open(f"/proc/{process.pid}/clear_refs", "w").write("5")
    before, cpu_before, began, size, lines = status("VmRSS"), cpu(), time.monotonic(), 0, 0
    answer = get("/metrics" + query)
    while piece := answer.read(1 << 20):
        size += len(piece)
        lines += piece.count(b"\n")
    took = time.monotonic() - began
    print(f"text {size / 2**20:.1f} MiB, {lines} lines, {took:.2f} s, CPU {cpu() - cpu_before:.2f} s, "
          f"RSS before {before:.0f} MiB, peak {status('VmHWM'):.0f} MiB")
finally:
    process.terminate()
    process.wait()
