#!/usr/bin/env python3
"""Writes a large configuration to standard output.

    generate.py upstreams              10 000 upstreams of 3 servers, one host route to each
    generate.py routes                 10 000 upstreams of 10 servers, 50 000 routes (5 paths of 10 000 hosts)
    generate.py regexes                5 000 routes by regular expression
    generate.py headers                10 000 routes by the value of a header
    generate.py upstreams 1000 3       another number of upstreams, and of servers of each

With DIR in the environment, the runtime socket is DIR/weir.sock, else /tmp/weir-large.sock.
"""
import os
import sys

kind = sys.argv[1]
sizes = [int(word) for word in sys.argv[2:]]
socket = os.path.join(os.environ.get("DIR", "/tmp"), "weir-large.sock")
out = ['process.workers = 2', f'admin.address = "127.0.0.1:9911"', f'admin.socket = "unix:{socket}"']
out += ['[listener.web]', 'address = "127.0.0.1:9910"']


def upstream(number, servers):
    out.append(f'[upstream.u{number}]')
    addresses = (f'127.{1 + number // 60000}.{number // 250 % 240}.{1 + number % 250}:{10000 + at}' for at in range(servers))
    out.append('servers = [' + ', '.join(f'"{address}"' for address in addresses) + ']')


if kind in ("upstreams", "routes"):
    upstreams = sizes[0] if sizes else 10_000
    servers = sizes[1] if len(sizes) > 1 else (3 if kind == "upstreams" else 10)
    for number in range(upstreams):
        if kind == "upstreams":
            out += ['[[listener.web.route]]', f'host = "h{number}.example.com"', f'upstream = "u{number}"']
            continue
        for path in range(5):
            out += ['[[listener.web.route]]', f'host = "h{number}.example.com"', f'path = "/p{path}/"']
            out += [f'upstream = "u{number}"']
    for number in range(upstreams):
        upstream(number, servers)
elif kind == "regexes":
    for number in range(sizes[0] if sizes else 5_000):
        out += ['[[listener.web.route]]', f"path_regex = '^/service{number}/users/[0-9]+/items/[a-z]+$'", 'upstream = "u0"']
    upstream(0, 3)
elif kind == "headers":
    for number in range(sizes[0] if sizes else 10_000):
        out += ['[[listener.web.route]]', f'header.x-tenant = "tenant-{number}"', f'upstream = "u{number % 10}"']
    for number in range(10):
        upstream(number, 3)
print('\n'.join(out))
