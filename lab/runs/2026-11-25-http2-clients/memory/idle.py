#!/usr/bin/env python3
"""Memory of idle HTTP/2 connections: idle.py plain|tls PORT STREAMS FEW MANY PID [PID ...]

The slope of the proportional set size of all processes between FEW and MANY connections, five seconds after the last request. With STREAMS = 0 each has had one request;
else each has so many whose responses are waited for.
"""
import socket, ssl, struct, sys, time

KIND, PORT, STREAMS, FEW, MANY = sys.argv[1], *map(int, sys.argv[2:6])
PIDS = [int(pid) for pid in sys.argv[6:]]
CONTEXT = ssl.create_default_context()
CONTEXT.check_hostname, CONTEXT.verify_mode = False, ssl.CERT_NONE
CONTEXT.set_alpn_protocols(["h2"])
ACK = b"\0\0\0\x04\x01\0\0\0\0"


def head(stream, path):
    # By the static table and literals without indexing.
    block = bytes([0x82, 0x86 if KIND == "plain" else 0x87]) + b"\x04" + bytes([len(path)]) + path + b"\x01\x06a.test"
    return struct.pack(">BHBBL", 0, len(block), 1, 5, stream) + block


def hello():
    start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
    if not STREAMS:
        return start + head(1, b"/size/612")
    return start + b"".join(head(1 + 2 * i, b"/hold") for i in range(STREAMS))


def pss():
    total = 0
    for pid in PIDS:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return total * 1024


def frames(seen):
    at = 0
    while at + 9 <= len(seen):
        yield seen[at + 3], seen[at + 4]
        at += 9 + int.from_bytes(seen[at:at + 3], "big")


def connect(number):
    client = socket.socket()
    client.bind((f"127.0.1.{1 + number // 4000}", 0))
    client.connect(("127.0.0.1", PORT))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if KIND == "tls":
        client = CONTEXT.wrap_socket(client)
        assert client.selected_alpn_protocol() == "h2"
    client.sendall(hello())
    seen = b""
    # To the end of the response; or to the settings and their acknowledgement, where there is none.
    while not (any(kind in (0, 1) and flags & 1 for kind, flags in frames(seen)) if not STREAMS else sum(kind == 4 for kind, _ in frames(seen)) >= 2):
        part = client.recv(65536)
        assert part, seen
        seen += part
    assert not any(kind in (3, 7) for kind, _ in frames(seen)), seen
    client.sendall(ACK)
    return client


clients, points = [], []
for count in (FEW, MANY):
    while len(clients) < count:
        clients.append(connect(len(clients)))
    time.sleep(5)
    points.append((count, pss()))
for client in clients:
    client.setblocking(False)
    try:
        rest = client.recv(65536)
        # Nothing has ended, and no stream was answered.
        assert rest and not any(kind in (1, 3, 7) for kind, _ in frames(rest)), rest
    except (BlockingIOError, ssl.SSLWantReadError):
        pass
(n0, b0), (n1, b1) = points
print(f"{(b1 - b0) / (n1 - n0):.0f} bytes per connection ({points})")
