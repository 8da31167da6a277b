#!/usr/bin/env python3
"""Reads server-sent events: their number, their digest, and whether they came one by one."""
import hashlib, sys, time
times, digest = [], hashlib.sha256()
for line in sys.stdin.buffer:
    digest.update(line)
    if line.startswith(b"data:"):
        times.append(time.monotonic())
print(len(times), digest.hexdigest()[:16], "one-by-one" if times[-1] - times[0] > 0.7 else "together")
