#!/usr/bin/env python3
"""Slow readers under a limit on open files: descriptors.py WEIR LIMIT READERS SECONDS

Starts three servers and WEIR with `ulimit -n LIMIT` and health checks. READERS clients take a response of 64 MiB, 4 KiB every 2 s, in a process
of their own; beside them a client sends 50 requests a second, each on a new connection. Prints what those came to, and how often a server was
down or a probe failed.
"""
import asyncio, os, re, signal, socket, subprocess, sys, tempfile, time, urllib.request

LARGE = 64 << 20


async def serve(ready):
    """A server: `/large` has 64 MiB, everything else four bytes; connections stay open."""
    piece = b"x" * 65536

    async def handle(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = LARGE if b" /large " in head.split(b"\r\n", 1)[0] else 4
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
                while length:
                    writer.write(piece[:length])
                    length -= min(length, len(piece))
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=4096, limit=65536)
    os.write(ready, b"%d\n" % server.sockets[0].getsockname()[1])
    await asyncio.Event().wait()


async def read_slowly(port, count, ready):
    """Clients that read 4 KiB every 2 s."""
    loop, begun = asyncio.get_running_loop(), 0

    async def one():
        nonlocal begun
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            await loop.sock_connect(sock, ("127.0.0.1", port))
            await loop.sock_sendall(sock, b"GET /large HTTP/1.1\r\nHost: a.test\r\n\r\n")
            first = await loop.sock_recv(sock, 4096)
            begun += b" 200 " in first[:16]
            while await loop.sock_recv(sock, 4096):
                await asyncio.sleep(2)
        except OSError:
            pass
        finally:
            sock.close()

    tasks = []
    for at in range(count):
        tasks.append(asyncio.create_task(one()))
        if at % 50 == 49:
            await asyncio.sleep(0.05)
    for _ in range(100):
        if begun == count:
            break
        await asyncio.sleep(0.1)
    os.write(ready, b"%d\n" % begun)
    await asyncio.gather(*tasks)


def fork(work, *arguments):
    """Runs `work` in a process of its own; the number that it says first."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(work(*arguments, tell))
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(told) as answer:
        return pid, int(answer.readline() or -1)


def ask(port):
    """One request on a connection of its own; its status, or what went wrong."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
            return int(sock.recv(4096).split(b" ")[1])
    except (OSError, IndexError) as error:
        return type(error).__name__


def total(metrics, name, label=""):
    values = re.findall(r"^%s(?:\{[^}]*%s[^}]*\})? (\S+)$" % (name, label), metrics, re.M)
    return sum(float(value) for value in values)


def main():
    weir, limit, readers, seconds = sys.argv[1], *map(int, sys.argv[2:5])
    servers = [fork(serve) for _ in range(3)]
    pids = [pid for pid, _ in servers]
    folder = tempfile.mkdtemp()
    config = os.path.join(folder, "weir.toml")
    with open(config, "w") as file:
        addresses = ", ".join('"127.0.0.1:%d"' % port for _, port in servers)
        file.write('admin.address = "127.0.0.1:0"\nlistener.web.address = "127.0.0.1:0"\nlistener.web.upstream = "app"\n'
                   f'upstream.app.servers = [{addresses}]\nupstream.app.ejection = {{}}\n'
                   'upstream.app.health = { path = "/health", interval = "500ms", timeout = "10s", fall = 2 }\n'
                   # The readers below are slower than a client may be.
                   'listener.web.timeouts.send = "off"\nupstream.app.timeouts.relay = "off"\n')
    log = open(os.path.join(folder, "log"), "w+")
    process = subprocess.Popen(["sh", "-c", f'ulimit -n {limit} && exec "$0" serve "$1"', weir, config], stderr=log)
    pids.append(process.pid)
    try:
        ports = {}
        for _ in range(200):
            time.sleep(0.05)
            text = open(log.name).read()
            ports = dict(re.findall(r"listening listener=(\w+) address=127.0.0.1:(\d+)", text))
            if "\nready" in text:
                break
        if "web" not in ports:
            sys.exit(text)
        web, admin = int(ports["web"]), int(ports["admin"])
        print(next((line for line in text.splitlines() if "file descriptors" in line), "(no line about descriptors)"))
        pid, begun = fork(read_slowly, web, readers)
        pids.append(pid)
        outcomes, times, end, next_at = {}, [], time.monotonic() + seconds, time.monotonic()
        while time.monotonic() < end:
            began = time.monotonic()
            outcome = ask(web)
            times.append(time.monotonic() - began)
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            next_at += 0.02
            time.sleep(max(0, next_at - time.monotonic()))
        try:
            metrics = urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics", timeout=10).read().decode()
        except OSError as error:
            print("the admin listener does not answer:", error)
            metrics = ""
        times.sort()
        print(f"limit {limit}, readers {begun} of {readers}, descriptors open {len(os.listdir(f'/proc/{process.pid}/fd'))}")
        print(f"bystanders {outcomes}: {100 * outcomes.get(200, 0) / len(times):.1f} %, P50 {times[len(times) // 2] * 1e3:.1f} ms, "
              f"P99 {times[len(times) * 99 // 100] * 1e3:.1f} ms")
        print(f"probes failed {total(metrics, 'weir_server_probes_total', 'failed'):.0f}, not made "
              f"{total(metrics, 'weir_server_probes_total', 'not-made'):.0f}, servers up {total(metrics, 'weir_server_up'):.0f} of 3, health changes "
              f"{total(metrics, 'weir_server_health_changes_total'):.0f}, ejections {total(metrics, 'weir_server_ejections_total'):.0f}, accept errors "
              f"{total(metrics, 'weir_worker_accept_errors_total'):.0f}, local failures {total(metrics, 'weir_worker_local_failures_total'):.0f}")
        for line in open(log.name).read().splitlines():
            if "WARN" in line or "ERROR" in line:
                print("log:", line[:200])
                break
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)


main()
