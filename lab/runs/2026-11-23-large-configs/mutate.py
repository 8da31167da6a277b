#!/usr/bin/env python3
"""Checks mutated examples: mutate.py WEIR [COUNT] [SEED]

Each of COUNT (20 000) configs is one of examples/*.toml and of the mistakes that the tests know, with lines and bytes doubled, moved,
cut or repeated up to a thousand times. Prints how long the slowest took, and every one above a second, which stays in the folder named.
"""
import glob
import os
import random
import subprocess
import sys
import tempfile
import time

weir, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
chance = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
root = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=True).stdout.strip()
seeds = [open(path).read() for place in ("examples", "crates/weir-config/tests/mistakes") for path in sorted(glob.glob(f"{root}/{place}/*.toml"))]
folder = tempfile.mkdtemp(prefix="weir-mutated-")
path = os.path.join(folder, "weir.toml")


def mutate(text):
    for _ in range(chance.randint(1, 6)):
        lines = text.splitlines(keepends=True) or ["\n"]
        at = chance.randrange(len(lines))
        match chance.randrange(7):
            case 0:
                lines[at] *= chance.choice([2, 10, 1000])
            case 1:
                del lines[at]
            case 2:
                lines.insert(at, lines[chance.randrange(len(lines))])
            case 3:
                lines[at] = lines[at].replace(chance.choice('="[].\n'), chance.choice(['', '=', '"', '[', ']', '{', '\n', '$']))
            case 4:
                byte = chance.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:byte] + chance.choice('="[]{}#.,\'\\$\n x1') * chance.choice([1, 1, 2, 500]) + lines[at][byte:]
            case 5:
                lines = lines[at:] + lines[:at]
            case 6:
                lines = [line.replace("\n", chance.choice(["\n", "\r\n", " "])) for line in lines]
        text = "".join(lines)[: 1 << 18]
    return text


slowest, slow = 0.0, 0
for number in range(count):
    open(path, "w").write(mutate(chance.choice(seeds)))
    begin = time.monotonic()
    code = subprocess.run([weir, "check", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120).returncode
    took = time.monotonic() - begin
    slowest = max(slowest, took)
    if took > 1 or code not in (0, 2):
        slow += 1
        kept = os.path.join(folder, f"{number}.toml")
        os.rename(path, kept)
        print(f"{kept}: {took:.2f} s, exit code {code}")
print(f"{count} configs, {slow} above 1 s or with another exit code than 0 and 2, the slowest {slowest:.3f} s")
