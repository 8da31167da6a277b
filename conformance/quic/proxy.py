"""A network between client and server: a UDP proxy that delays, loses and breaks packets, and that forgets ports and addresses."""

import heapq
import random
import select
import socket
import threading
import time


class Network(threading.Thread):
    """`delay` in seconds and `loss`, `corruption` as shares are for each direction; `rate` in bytes a second, with a queue of `queue` bytes."""

    def __init__(self, server, delay=0.0, loss=0.0, corruption=0.0, rate=None, queue=60_000, seed=1, only_first=None):
        super().__init__(daemon=True)
        self.server, self.delay, self.loss, self.corruption, self.rate, self.queue = (
            server, delay, loss, corruption, rate, queue)
        # Loss and corruption end behind so many packets, where that is said.
        self.only_first = only_first
        self.random = random.Random(seed)
        self.family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        self.front = socket.socket(self.family, socket.SOCK_DGRAM)
        for sock in (self.front,):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.front.bind(("::1" if self.family == socket.AF_INET6 else "127.0.0.1", 0))
        self.address = self.front.getsockname()[:2]
        self.backs, self.waiting, self.number = {}, [], 0
        self.busy_until = {True: 0.0, False: 0.0}
        self.counts = {"to server": 0, "to client": 0, "lost": 0, "broken": 0}
        self.dark, self.hosts, self.stopping = False, ["127.0.0.1"], False
        self.bytes = {True: 0, False: 0}
        self.start()

    def rebind(self, host=None):
        """The server sees all clients at other ports from now on, or at another address."""
        if host:
            self.hosts.append(host)
        self.backs = {}

    def back(self, client):
        if client not in self.backs:
            sock = socket.socket(self.family, socket.SOCK_DGRAM)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            sock.bind(("::1" if self.family == socket.AF_INET6 else self.hosts[-1], 0))
            self.backs[client] = sock
        return self.backs[client]

    def pass_on(self, data, out, to, is_to_server):
        self.counts["to server" if is_to_server else "to client"] += 1
        self.bytes[is_to_server] += len(data)
        self.number += 1
        hurts = self.only_first is None or self.number <= self.only_first
        if self.dark or hurts and self.random.random() < self.loss:
            self.counts["lost"] += 1
            return
        if hurts and self.random.random() < self.corruption:
            self.counts["broken"] += 1
            at = self.random.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ (1 << self.random.randrange(8))]) + data[at + 1:]
        now = time.monotonic()
        at = now
        if self.rate:
            begins = max(now, self.busy_until[is_to_server])
            if (begins - now) * self.rate > self.queue:
                self.counts["lost"] += 1
                return
            at = self.busy_until[is_to_server] = begins + len(data) / self.rate
        heapq.heappush(self.waiting, (at + self.delay, self.number, data, out, to))

    def run(self):
        known = {}
        while not self.stopping:
            for client, sock in self.backs.items():
                known[sock] = client
            wait = max(0, self.waiting[0][0] - time.monotonic()) if self.waiting else 0.05
            readable = select.select([self.front, *known], [], [], min(wait, 0.05))[0]
            for sock in readable:
                sock.setblocking(False)
                try:
                    for _ in range(64):
                        data, sender = sock.recvfrom(65536)
                        if sock is self.front:
                            self.pass_on(data, self.back(sender), self.server, True)
                        # What comes to a port that was forgotten is lost.
                        elif self.backs.get(known[sock]) is sock:
                            self.pass_on(data, self.front, known[sock], False)
                except (BlockingIOError, ConnectionError):
                    pass
            now = time.monotonic()
            while self.waiting and self.waiting[0][0] <= now:
                _, _, data, out, to = heapq.heappop(self.waiting)
                try:
                    out.sendto(data, to)
                except OSError:
                    pass
        for sock in [self.front, *known]:
            sock.close()

    def stop(self):
        self.stopping = True
        self.join(2)
