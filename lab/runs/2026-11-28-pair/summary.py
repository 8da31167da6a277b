#!/usr/bin/env python3
"""summary.py RESULTS.csv: the longest time without a response and failed requests by event, as rows of a table."""
import csv, statistics, sys

events = {}
for row in csv.DictReader(open(sys.argv[1], newline="")):
    events.setdefault(row["event"], []).append(row)
for event, rows in events.items():
    gaps = sorted(int(row["longest gap ms"]) for row in rows)
    failed = [int(row["failed"]) for row in rows]
    requests = sum(int(row["requests"]) for row in rows)
    spoilt = sum(count > 0 for count in failed)
    print(f"| {event} | {len(rows)} | {gaps[0]} / {statistics.median(gaps):.0f} / {gaps[-1]} | {sum(failed)} of {requests}, in {spoilt} runs |")
