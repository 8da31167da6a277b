"""Medians of the rounds, and ratios with their least and greatest value: summary.py < rounds.txt"""
import statistics
import sys

rounds = {}
for line in sys.stdin:
    name, ok, micros = line.split()
    rounds.setdefault(name, []).append(float(micros))
for name, values in rounds.items():
    print(f"{name:16} {statistics.median(values):7.3f} us  ({min(values):.3f} to {max(values):.3f}), {len(values)} rounds")
for ours, theirs in [("weir-1x100", "weir-h1-64x1"), ("weir-1x100", "haproxy-1x100"), ("weir-1x100", "envoy-1x100"),
                     ("weir-10x10", "haproxy-10x10"), ("weir-10x10", "envoy-10x10"), ("weir-grpc", "envoy-grpc"), ("weir-grpc", "nginx-grpc")]:
    if ours in rounds and theirs in rounds:
        ratios = sorted(a / b for a, b in zip(rounds[ours], rounds[theirs]))
        print(f"{ours} / {theirs}: {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
