#!/usr/bin/env python3
"""Memory of an idle connection of HTTP/2 that has had one request: idle.py PORT PID [PID ...]

The slope of the proportional set size of all processes between 1 000 and 6 000 connections (h2c), five seconds after the last request.
"""
import socket
import struct
import sys
import time

PORT, PIDS = int(sys.argv[1]), [int(pid) for pid in sys.argv[2:]]
# GET / of a.test, by the static table and literals without indexing.
BLOCK = b"\x82\x86\x84\x01\x06a.test"
HELLO = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0" + struct.pack(">BHBBL", 0, len(BLOCK), 1, 5, 1) + BLOCK)
ACK = b"\0\0\0\x04\x01\0\0\0\0"


def pss():
    total = 0
    for pid in PIDS:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
    return total * 1024


def ends_stream(seen):
    at = 0
    while at + 9 <= len(seen):
        length = int.from_bytes(seen[at:at + 3], "big")
        kind, flags = seen[at + 3], seen[at + 4]
        if kind in (0, 1) and flags & 1:
            return True
        at += 9 + length
    return False


def connect(number):
    client = socket.socket()
    client.bind((f"127.0.1.{1 + number // 4000}", 0))
    client.connect(("127.0.0.1", PORT))
    client.sendall(HELLO)
    seen = b""
    while not ends_stream(seen):
        part = client.recv(65536)
        assert part, seen
        seen += part
    client.sendall(ACK)
    return client


clients, points = [], []
for count in (1000, 6000):
    while len(clients) < count:
        clients.append(connect(len(clients)))
    time.sleep(5)
    points.append((count, pss()))
(n0, b0), (n1, b1) = points
print(f"{(b1 - b0) / (n1 - n0):.0f} bytes per connection ({points})")
