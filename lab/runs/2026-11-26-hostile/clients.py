#!/usr/bin/env python3
"""Clients of the run: one that behaves well, and those that attack. Each prints one line of JSON at its end."""
import argparse, json, os, random, resource, select, socket, ssl, sys, time

resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)


def tls_context():
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def connected(port, number=0):
    """A connection from one of many addresses of loopback, so that ports suffice."""
    sock = socket.socket()
    sock.bind((f"127.0.{number // 20000 % 200 + 1}.{number % 250 + 1}", 0))
    sock.connect(("127.0.0.1", port))
    return sock


def well_behaved(options):
    """Requests at a fixed rate on one kept connection, every tenth on a new one: availability and latency from the moment when each was due."""
    times, failed, new = [], [], []
    context = tls_context() if options.tls else None

    def connect():
        sock = socket.create_connection(("127.0.0.1", options.port), timeout=10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return context.wrap_socket(sock) if context else sock

    def fetch(sock, close):
        how = "close" if close else "keep-alive"
        sock.sendall(f"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: {how}\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer or not answer.endswith(b"fine\n"):
            piece = sock.recv(65536)
            if not piece:
                raise ConnectionError(f"closed after {answer[:60]!r}")
            answer += piece
        if not answer.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(answer[:60])

    kept, begin, count = None, time.monotonic(), 0
    while (due := begin + count / options.rate) < begin + options.seconds:
        time.sleep(max(0, due - time.monotonic()))
        is_new = count % 10 == 9
        count += 1
        try:
            if is_new:
                sock = connect()
                fetch(sock, True)
                sock.close()
                new.append(time.monotonic() - due)
            else:
                if kept is None:
                    kept = connect()
                try:
                    fetch(kept, False)
                except (ConnectionError, OSError):
                    # A kept connection may have been closed between two requests, as at any idle timeout: clients repeat it once.
                    kept = connect()
                    fetch(kept, False)
                times.append(time.monotonic() - due)
        except OSError as error:
            failed.append(str(error)[:80])
            kept = None
    def ms(values, share):
        return round(sorted(values)[min(len(values) - 1, int(len(values) * share))] * 1000, 2) if values else None
    print(json.dumps({
        "requests": count, "failed": len(failed), "why": sorted(set(failed))[:3],
        "kept_p50_ms": ms(times, .5), "kept_p99_ms": ms(times, .99), "kept_max_ms": ms(times, 1),
        "new_p50_ms": ms(new, .5), "new_p99_ms": ms(new, .99),
    }))


def crowd(options):
    """Many connections at once, each of which sends a bit now and then and reads nothing or little; those that are closed come again."""
    end, socks, closed, opened = time.monotonic() + options.seconds, {}, 0, 0
    poll = select.epoll()
    hello = client_hello()
    first = {
        "heads": b"GET / HTTP/1.1\r\nHost: a.test\r\nX-A: ",
        "bodies": b"POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n",
        "downloads": b"GET /large HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "handshakes": hello,
        "half-hellos": hello[:40],
        "idle": b"",
    }[options.kind]
    limit = options.count
    next_drip = time.monotonic() + options.every
    while time.monotonic() < end:
        batch = 0
        while len(socks) < limit and batch < 200:
            batch += 1
            sock = socket.socket()
            try:
                if options.kind == "downloads":
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
                sock.bind((f"127.0.{opened // 20000 % 200 + 1}.{opened % 250 + 1}", 0))
                sock.setblocking(False)
                sock.connect_ex(("127.0.0.1", options.port))
            except OSError:
                sock.close()
                break
            opened += 1
            socks[sock.fileno()] = [sock, False, 0]
            poll.register(sock.fileno(), select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR)
        for fd, event in poll.poll(0.05, 2000):
            entry = socks.get(fd)
            if entry is None:
                continue
            gone = bool(event & (select.EPOLLHUP | select.EPOLLERR))
            if not gone and event & select.EPOLLOUT and not entry[1]:
                entry[1] = True
                try:
                    if first:
                        entry[0].send(first)
                except OSError:
                    gone = True
                poll.modify(fd, select.EPOLLHUP | select.EPOLLERR | select.EPOLLRDHUP)
            if gone or event & select.EPOLLRDHUP:
                poll.unregister(fd)
                entry[0].close()
                del socks[fd]
                closed += 1
        if time.monotonic() >= next_drip:
            next_drip = time.monotonic() + options.every
            for sock, is_sent, _ in list(socks.values()):
                if not is_sent:
                    continue
                try:
                    if options.kind == "downloads":
                        sock.recv(options.drip)
                    elif options.kind in ("heads", "bodies"):
                        sock.send(b"a" * options.drip)
                except OSError:
                    pass
    print(json.dumps({"kind": options.kind, "open_at_end": len(socks), "opened": opened, "closed_by_weir": closed}))


def client_hello():
    context, incoming, outgoing = tls_context(), ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing, server_hostname="a.test")
    try:
        session.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def flood(options):
    """As many short connections as one process can make."""
    end, count, failed = time.monotonic() + options.seconds, 0, 0
    context = tls_context()
    while time.monotonic() < end:
        try:
            sock = connected(options.port, count)
            if options.kind == "garbage":
                sock.sendall(random.randbytes(200))
                sock.settimeout(1)
                sock.recv(100)
            elif options.kind == "full-handshakes":
                sock = context.wrap_socket(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            sock.close()
        except OSError:
            failed += 1
        count += 1
    print(json.dumps({"kind": options.kind, "connections": count, "failed": failed}))


def tiny_records(options):
    """Bodies in TLS records of one byte, as fast as the library makes them; `empty` sends records without content, made by hand."""
    end, count = time.monotonic() + options.seconds, 0
    while time.monotonic() < end:
        sock = tls_context().wrap_socket(connected(options.port, count))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock.sendall(b"POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000000\r\n\r\n")
            while time.monotonic() < end:
                sock.send(b"a")
                count += 1
        except OSError:
            pass
    print(json.dumps({"kind": "tiny-records", "records": count}))


parser = argparse.ArgumentParser()
parser.add_argument("role", choices=["well-behaved", "crowd", "flood", "tiny-records"])
parser.add_argument("--kind", default="")
parser.add_argument("--port", type=int, required=True)
parser.add_argument("--count", type=int, default=1000)
parser.add_argument("--seconds", type=float, default=10)
parser.add_argument("--rate", type=float, default=200)
parser.add_argument("--every", type=float, default=1)
parser.add_argument("--drip", type=int, default=1)
parser.add_argument("--tls", action="store_true")
options = parser.parse_args()
{"well-behaved": well_behaved, "crowd": crowd, "flood": flood, "tiny-records": tiny_records}[options.role](options)
