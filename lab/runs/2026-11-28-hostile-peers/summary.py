#!/usr/bin/env python3
"""The table of README.md, from figures.jsonl: for each number of workers, proxy and attack the rounds together."""
import collections, json, pathlib, statistics

rounds = collections.defaultdict(list)
for line in open(pathlib.Path(__file__).parent / "figures.jsonl"):
    run = json.loads(line)
    rounds[run["workers"], run["attack"], run["proxy"]].append(run["well_behaved"])
print("| workers | beside | proxy | failed | P50 in ms, median of rounds | P99 in ms: least / median / most |")
print("|---:|---|---|---:|---:|---:|")
for (workers, attack, proxy), found in sorted(rounds.items(), key=lambda item: (-item[0][0], item[0][1] != "none", item[0][1])):
    p99 = sorted(one["kept_p99_ms"] for one in found)
    failed, requests = sum(one["failed"] for one in found), sum(one["requests"] for one in found)
    p50 = statistics.median(one["kept_p50_ms"] for one in found)
    print(f"| {workers} | {attack} | {proxy} | {failed} of {requests} | {p50:.2f} | {p99[0]:.1f} / {statistics.median(p99):.1f} / {p99[-1]:.1f} |")
