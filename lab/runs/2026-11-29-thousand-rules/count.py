#!/usr/bin/env python3
"""count.py WEIR HAPROXY: CPU time and instructions that 1 000 rules with conditions add to a request, none of which holds. HAPROXY may be several words, such
as `chroot FOLDER /usr/sbin/haproxy` with /tmp, /proc and /dev mounted there: then its instructions are not counted."""
import os, re, socket, subprocess, sys, tempfile, threading, time

WEIR, HAPROXY = sys.argv[1], sys.argv[2].split()
RULES = 1000
REQUEST = b"GET /p17/x HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: curl/8.5.0\r\nX-Tenant: t-none\r\n\r\n"
BODY = b"w" * 100
FOLDER = tempfile.mkdtemp()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def origin():
    """A server that answers each head."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)

    def serve(connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received = b""
        while data := connection.recv(65536):
            received += data
            while b"\r\n\r\n" in received:
                received = received.split(b"\r\n\r\n", 1)[1]
                connection.sendall(answer)

    def accept():
        while True:
            threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


ORIGIN = origin()


# Two comparisons of which the first, of the header, decides, which no request of the client passes; a regular expression with a literal start; and what needs neither a whole text
# nor the beginning of one.
CONDITIONS = {
    "header first": (
        lambda n: f"header[\"x-tenant\"] == \"t{n}\" && path.startsWith(\"/p{n}/\")",
        lambda n: f"{{ req.hdr(x-tenant) -m str t{n} }} {{ path_beg /p{n}/ }}",
    ),
    "regular expression": (
        lambda n: f"path.matches(r\"^/q{n}/.*\\.php$\")",
        lambda n: f"{{ path_reg ^/q{n}/.*\\.php$ }}",
    ),
    "end of the path": (
        lambda n: f"path.endsWith(\"/e{n}.php\")",
        lambda n: f"{{ path_end /e{n}.php }}",
    ),
}


def weir(port, rules, kind):
    lines = ["process.workers = 1"]
    lines.append(f"[listener.web]\naddress = \"127.0.0.1:{port}\"")
    for n in range(rules):
        lines.append(f"[[listener.web.route]]\nname = \"r{n}\"\nwhen = '{CONDITIONS[kind][0](n)}'\nrespond.status = 403")
    lines.append("[[listener.web.route]]\nname = \"rest\"\nupstream = \"app\"")
    lines.append(f"[upstream.app]\nservers = [\"127.0.0.1:{ORIGIN}\"]")
    path = f"{FOLDER}/weir-{rules}.toml"
    open(path, "w").write("\n".join(lines))
    return [WEIR, "serve", path]


def haproxy(port, rules, kind):
    denied = "\n".join(f"  http-request deny if {CONDITIONS[kind][1](n)}" for n in range(rules))
    path = f"{FOLDER}/haproxy-{rules}.cfg"
    open(path, "w").write(
        f"global\n  nbthread 1\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
        f"frontend web\n  bind 127.0.0.1:{port}\n{denied}\n  default_backend app\nbackend app\n  http-reuse always\n  server a 127.0.0.1:{ORIGIN}\n"
    )
    return [*HAPROXY, "-db", "-f", path]


def connect(port):
    for _ in range(1200):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.1)
    raise SystemExit("it does not listen")


def ask(port, count):
    client = connect(port)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(count):
        client.sendall(REQUEST)
        received = b""
        while b"\r\n\r\n" not in received or len(received.split(b"\r\n\r\n", 1)[1]) < len(BODY):
            data = client.recv(65536)
            assert data, received
            received += data
        assert received.startswith(b"HTTP/1.1 200"), received[:80]


def cpu(pid):
    """In seconds, of all threads."""
    return sum(int(open(f"/proc/{pid}/task/{task}/schedstat").read().split()[0]) for task in os.listdir(f"/proc/{pid}/task")) / 1e9


def cpu_per_request(command, port, count=20_000):
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        ask(port, 2_000)
        before = cpu(process.pid)
        ask(port, count)
        return (cpu(process.pid) - before) / count * 1e6
    finally:
        process.terminate()
        process.wait()


def instructions(command, port, count):
    out = f"{FOLDER}/callgrind"
    for old in os.listdir(FOLDER):
        if old.startswith("callgrind"):
            os.unlink(f"{FOLDER}/{old}")
    process = subprocess.Popen(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}.%p", *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    ask(port, count)
    process.terminate()
    process.wait()
    sums = [re.search(r"^(?:summary|totals): (\d+)", open(f"{FOLDER}/{name}").read(), re.M) for name in os.listdir(FOLDER) if name.startswith("callgrind")]
    return max(int(found[1]) for found in sums)


def per_request(make, rules, kind):
    few, many = (instructions(make(port := free_port(), rules, kind), port, count) for count in (500, 1500))
    return (many - few) / 1000


for kind in CONDITIONS:
    for name, make in (("weir", weir), ("haproxy", haproxy)):
        if name == "haproxy" and len(HAPROXY) > 1:
            continue
        none, all_rules = per_request(make, 0, kind), per_request(make, RULES, kind)
        print(f"{kind}: {name}: {none:.0f} instructions without rules, {all_rules:.0f} with {RULES}: {(all_rules - none) / RULES:.0f} a rule", flush=True)
    for round_ in range(5):
        for name, make in (("weir", weir), ("haproxy", haproxy)):
            none = cpu_per_request(make(port := free_port(), 0, kind), port)
            all_rules = cpu_per_request(make(port := free_port(), RULES, kind), port)
            print(f"{kind}: {name}: round {round_ + 1}: {none:.1f} us of CPU time without rules, {all_rules:.1f} with {RULES}: {all_rules - none:.1f} more", flush=True)
