#!/usr/bin/env python3
"""What becomes of a request whose connection one node has accepted and whose packets then reach the other (root; names d-a, d-b, d-client,
d-switch of network namespaces must be free). Nothing but Python's standard library and iproute2."""

import ctypes
import os
import socket
import subprocess
import threading
import time

VIP = "192.0.2.10"
LIBC = ctypes.CDLL(None, use_errno=True)


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def ip(space, *words):
    return run("ip", "-n", space, *words)


def enter(space):
    file = os.open(f"/var/run/netns/{space}", os.O_RDONLY)
    assert LIBC.setns(file, 0x40000000) == 0
    os.close(file)


def serve(space):
    """Answers each request; closes first after one that says so, and so has the TIME_WAIT."""
    enter(space)
    listener = socket.create_server(("0.0.0.0", 80), backlog=512)

    def answer(stream):
        while request := stream.recv(1000):
            stream.sendall(space.encode())
            if b"close" in request:
                return stream.close()

    while True:
        threading.Thread(target=answer, args=[listener.accept()[0]], daemon=True).start()


def connect(port):
    stream = socket.socket()
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    stream.bind(("192.0.2.3", port))
    stream.settimeout(2)
    stream.connect((VIP, 80))
    return stream


def build():
    for space in ("d-switch", "d-a", "d-b", "d-client"):
        run("ip", "netns", "add", space)
    ip("d-switch", "link", "add", "br0", "type", "bridge")
    ip("d-switch", "link", "set", "br0", "up")
    for number, space in enumerate(("d-a", "d-b", "d-client"), 1):
        ip("d-switch", "link", "add", f"p{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("d-switch", "link", "set", f"p{number}", "master", "br0", "up")
        ip(space, "link", "set", "lo", "up")
        ip(space, "link", "set", "eth0", "up")
        ip(space, "addr", "add", f"192.0.2.{number}/24", "dev", "eth0")
        for key in ("arp_ignore=1", "arp_announce=2"):
            run("ip", "netns", "exec", space, "sysctl", "-qw", f"net/ipv4/conf/all/{key}")
    for space in ("d-a", "d-b"):
        ip(space, "addr", "add", f"{VIP}/32", "dev", "lo", "scope", "host")
        threading.Thread(target=serve, args=[space], daemon=True).start()
    time.sleep(0.5)


def main():
    build()
    hardware = {space: ip(space, "-br", "link", "show", "eth0").split()[2] for space in ("d-a", "d-b")}
    turn = lambda space: run("ip", "neigh", "replace", VIP, "lladdr", hardware[space], "dev", "eth0", "nud", "reachable")
    enter("d-client")
    for label, port, is_known in (("b does not know the connection", 40001, False), ("b has it in TIME_WAIT, from a request before", 40002, True)):
        if is_known:
            turn("d-b")
            stream = connect(port)
            stream.sendall(b"close")
            while stream.recv(100):
                pass
            stream.close()
        turn("d-a")
        stream, began = connect(port), time.monotonic()
        turn("d-b")
        try:
            stream.sendall(b"request")
            outcome = stream.recv(100)
        except OSError as error:
            outcome = repr(error)
        print(f"{label}: {outcome} after {(time.monotonic() - began) * 1e3:.0f} ms")


try:
    main()
finally:
    for space in ("d-switch", "d-a", "d-b", "d-client"):
        subprocess.run(["ip", "netns", "del", space], check=False)
