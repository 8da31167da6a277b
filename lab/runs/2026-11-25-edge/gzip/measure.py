"""CPU time and size of gzip in Weir and nginx. Usage: measure.py WEIR_PROGRAM [ROUNDS]. Interleaved rounds, medians of ratios."""
import http.client, os, statistics, subprocess, sys, time, gzip
HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 7
TICK = os.sysconf("SC_CLK_TCK")
def cpu(pids):
    total = 0.0
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            # nanoseconds on the CPU
            total += int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0])
    return total / 1e9
def children(pid): return [int(p) for p in open(f"/proc/{pid}/task/{pid}/children").read().split()]
procs = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in (["nginx", "-c", f"{HERE}/origin.conf"], ["nginx", "-c", f"{HERE}/nginx.conf"], [sys.argv[1], "serve", f"{HERE}/weir.toml"])]
time.sleep(1.5)
nginx, weir = children(procs[1].pid), [procs[2].pid]
def run(port, path, count, coding):
    c = http.client.HTTPConnection("127.0.0.1", port); size = 0
    for _ in range(count):
        c.request("GET", path, headers={"Accept-Encoding": coding} if coding else {}); r = c.getresponse(); body = r.read(); size = len(body)
        if coding: assert r.getheader("content-encoding") == coding, r.getheaders()
        if coding == "gzip": assert count < 500 or True
    if coding == "gzip": assert gzip.decompress(body) == open(HERE + path, "rb").read()
    return size
try:
    for path, count in (("/10k.html", 3000 if ROUNDS > 2 else 200), ("/1m.html", 60 if ROUNDS > 2 else 10)):
        for name, wport, nport, coding in (("gzip 1", 9111, 9121, "gzip"), ("gzip 6", 9116, 9126, "gzip"), ("off", 9110, 9120, ""), ("br", 9112, None, "br"), ("zstd", 9113, None, "zstd")):
            ratios, ws, ns, sizes = [], [], [], [0, 0]
            for i in range(ROUNDS + 1):
                b = cpu(weir); sizes[0] = run(wport, path, count, coding); w = (cpu(weir) - b) / count * 1e6
                n = 0.0
                if nport: b = cpu(nginx); sizes[1] = run(nport, path, count, coding); n = (cpu(nginx) - b) / count * 1e6
                if i: ws.append(w); ns.append(n); ratios.append(w / n if n else 0)
            print(f"{path} {name}: weir {statistics.median(ws):.1f} us {sizes[0]} bytes, nginx {statistics.median(ns):.1f} us {sizes[1]} bytes, ratio {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})", flush=True)
finally:
    for p in procs: p.terminate()
