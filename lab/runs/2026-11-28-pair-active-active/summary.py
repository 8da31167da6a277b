#!/usr/bin/env python3
"""summary.py RESULTS.csv: the longest time without a response, failed requests and tunnels cut by event and address, as rows of a table."""
import csv, statistics, sys

groups = {}
for row in csv.DictReader(open(sys.argv[1], newline="")):
    groups.setdefault((row["event"], row["address"]), []).append(row)
for (event, address), rows in groups.items():
    gaps = sorted(int(row["longest gap ms"]) for row in rows)
    failed = [int(row["failed"]) for row in rows]
    requests, tunnels = (sum(int(row[key]) for row in rows) for key in ("requests", "tunnels cut"))
    spoilt = sum(count > 0 for count in failed)
    print(
        f"| {event} | {address} | {len(rows)} | {gaps[0]} / {statistics.median(gaps):.0f} / {gaps[-1]} | {sum(failed)} of {requests}, in {spoilt} runs |"
        f" {tunnels} of {20 * len(rows)} |"
    )
