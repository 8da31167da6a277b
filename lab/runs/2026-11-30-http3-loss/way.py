#!/usr/bin/env python3
"""A way between two network namespaces that delays and loses packets: way.py NS_A NS_B DELAY_MS LOSS_PERCENT SEED

Each namespace gets a TUN device, 10.9.0.1 and 10.9.0.2; whole IP packets are carried between them. The n-th packet of a direction is lost or not
by the seed alone, so that each run of a protocol meets losses of its own, at the same rate.
"""
import ctypes, fcntl, heapq, os, random, select, struct, subprocess, sys, time

libc = ctypes.CDLL(None, use_errno=True)

def tun(namespace, name, address):
    home = os.open('/proc/self/ns/net', os.O_RDONLY)
    there = os.open(f'/run/netns/{namespace}', os.O_RDONLY)
    assert libc.setns(there, 0x40000000) == 0
    device = os.open('/dev/net/tun', os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, 0x400454ca, struct.pack('16sH14x', name.encode(), 0x0001 | 0x1000))
    for command in (f'ip addr add {address}/24 dev {name}', f'ip link set {name} mtu 1500 txqueuelen 10000 up', 'ip link set lo up'):
        subprocess.run(command.split(), check=True)
    assert libc.setns(home, 0x40000000) == 0
    return device

def main():
    a, b, delay, loss, seed = sys.argv[1], sys.argv[2], float(sys.argv[3]) / 1000, float(sys.argv[4]) / 100, int(sys.argv[5])
    devices = [tun(a, 'way', '10.9.0.1'), tun(b, 'way', '10.9.0.2')]
    draws = [random.Random(seed), random.Random(seed + 1)]
    print('ready', flush=True)
    under_way, number = [], 0
    while True:
        now = time.monotonic()
        while under_way and under_way[0][0] <= now:
            _, _, to, packet = heapq.heappop(under_way)
            try:
                os.write(devices[to], packet)
            except OSError:
                pass
        wait = under_way[0][0] - now if under_way else None
        for device in select.select(devices, [], [], wait)[0]:
            at = devices.index(device)
            for _ in range(64):
                try:
                    packet = os.read(device, 65536)
                except BlockingIOError:
                    break
                if draws[at].random() >= loss:
                    number += 1
                    heapq.heappush(under_way, (time.monotonic() + delay, number, 1 - at, packet))

main()
