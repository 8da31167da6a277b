#!/usr/bin/env python3
"""beside_nginx.py WEIR NGINX FOLDER: Weir and nginx with a map of a million hosts each, in turn. NGINX may be a command of several words. FOLDER has the
files that `cargo run --profile dist -p weir-config --example maps` and the same with `-- nginx` write.

How long a worker takes for a request with a lookup and for one without, on one connection with requests in batches of 256; how long a reload takes and what
the processes have in memory."""
import os, re, signal, socket, subprocess, sys, time

WEIR, NGINX, FOLDER = sys.argv[1], sys.argv[2].split(), sys.argv[3]
HOSTS, BATCH, ROUNDS = 65_536, 256, 7
KEYS = [(n * 2_654_435_761 % 2**32) % 1_000_000 for n in range(HOSTS)]


def batches(path):
    requests = [f"GET {path} HTTP/1.1\r\nHost: customer-{key}.shop.example.com\r\n\r\n".encode() for key in KEYS]
    return [b"".join(requests[at : at + BATCH]) for at in range(0, HOSTS, BATCH)]


def ask(port, all_batches):
    client = socket.create_connection(("127.0.0.1", port))
    for batch in all_batches:
        client.sendall(batch)
        answered, rest = 0, b""
        while answered < BATCH:
            data = rest + client.recv(1 << 20)
            answered += data.count(b"HTTP/1.1 200")
            rest = data[-11:] if not data.endswith(b"HTTP/1.1 200") else b""
            assert b"HTTP/1.1 4" not in data and b"HTTP/1.1 5" not in data, data[:200]
    client.close()


def cpu_nanos(pid):
    return sum(int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0]) for task in os.listdir(f"/proc/{pid}/task"))


def resident_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{pid}/status").read())[1])


def children(pid):
    return [int(child) for child in open(f"/proc/{pid}/task/{pid}/children").read().split()]


def wait_for(port):
    for _ in range(600):
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
    raise SystemExit("it does not listen")


def weir_config(port):
    path = f"{FOLDER}/weir.toml"
    open(path, "w").write(
        f"process.workers = 1\nmap.backend = {{ source = \"{{host}}\", default = \"none\", file = \"{FOLDER}/hosts.map\" }}\n"
        f"[listener.web]\naddress = \"127.0.0.1:{port}\"\naccess_log = false\nrequests_per_connection = 100_000_000\n"
        "route = [{ path_exact = \"/map\", respond = { body = \"{map.backend}\" } }, { path_exact = \"/fix\", respond = { body = \"{listener}-100\" } }]\n"
    )
    return [WEIR, "serve", path]


def nginx_config(port):
    path = f"{FOLDER}/nginx.conf"
    open(path, "w").write(
        f"worker_processes 1; daemon off; user root; pid {FOLDER}/nginx.pid; error_log {FOLDER}/nginx.log;\nevents {{}}\nhttp {{\n  access_log off; keepalive_requests 100000000;\n"
        f"  map_hash_max_size 2097152; map_hash_bucket_size 128; variables_hash_max_size 2048;\n"
        f"  map $host $backend {{ default none; include {FOLDER}/nginx.map; }}\n"
        f"  server {{ listen 127.0.0.1:{port}; location = /map {{ return 200 $backend; }} location = /fix {{ return 200 \"$server_port-100\"; }} }}\n}}\n"
    )
    return [*NGINX, "-c", path, "-p", FOLDER]


def main():
    started = {}
    for name, (command, port) in {"weir": (weir_config(18_081), 18_081), "nginx": (nginx_config(18_082), 18_082)}.items():
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(f"{FOLDER}/{name}.err", "w"))
        wait_for(port)
        time.sleep(1)
        worker = process.pid if name == "weir" else children(process.pid)[0]
        started[name] = (process, worker, port)
        print(f"{name}: ready after {cpu_nanos(process.pid) / 1e6:.0f} ms of CPU time, {resident_kib(process.pid) >> 10} MiB, worker {resident_kib(worker) >> 10} MiB", flush=True)
    spent = {}
    for _ in range(ROUNDS):
        for path in ("/map", "/fix"):
            all_batches = batches(path)
            for name, (_, worker, port) in started.items():
                before = cpu_nanos(worker)
                ask(port, all_batches)
                spent.setdefault((name, path), []).append((cpu_nanos(worker) - before) / HOSTS)
    for name in started:
        mapped, fixed = spent[name, "/map"], spent[name, "/fix"]
        rounds = ", ".join(f"{one - other:.0f}" for one, other in zip(mapped, fixed))
        print(f"{name}: {min(mapped):.0f} ns a request with a lookup, {min(fixed):.0f} without: {min(mapped) - min(fixed):.0f} ns more; by rounds {rounds}", flush=True)
    for name, (process, worker, port) in started.items():
        for _ in range(3):
            os.utime(f"{FOLDER}/hosts.map")
            before, began = cpu_nanos(process.pid), time.time()
            process.send_signal(signal.SIGHUP)
            time.sleep(4)
            print(f"{name}: a reload takes {(cpu_nanos(process.pid) - before) / 1e6:.0f} ms of CPU time; {resident_kib(process.pid) >> 10} MiB", flush=True)
    for name, (process, *_) in started.items():
        process.terminate()
        process.wait()


main()
