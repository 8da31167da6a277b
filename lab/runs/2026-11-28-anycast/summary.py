#!/usr/bin/env python3
"""summary.py RESULTS.csv: by event, for how long new connections failed, kept connections cut and failed requests, as rows of a table."""
import csv, re, statistics, sys

def triple(numbers):
    return f"{min(numbers)} / {statistics.median(numbers):.0f} / {max(numbers)}"

events = {}
for row in csv.DictReader(open(sys.argv[1], newline="")):
    events.setdefault(row["event"], []).append(row)
for event, rows in events.items():
    outages, cuts = [], {"a": [], "b": []}
    for row in rows:
        last = row["last failed new ms"]
        outages.append(int(last) - int(row["first failed ms"]) if last else 0)
        for node, counts in cuts.items():
            counts.append(int((re.search(rf"{node} (\d+)", row["kept cut"]) or [0, 0])[1]))
    failed, requests = (sum(int(row[key]) for row in rows) for key in ("failed", "requests"))
    gaps = [int(row["longest gap ms"]) for row in rows]
    print(f"| {event} | {len(rows)} | {triple(outages)} | {triple(gaps)} | {triple(cuts['a'])} | {triple(cuts['b'])} | {failed} of {requests} |")
