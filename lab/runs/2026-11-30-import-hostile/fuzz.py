#!/usr/bin/env python3
"""fuzz.py WEIR COUNT SEED FOLDER..: changes bytes of files and imports them; prints panics, signals and what takes long (CPU time)."""
import glob, os, random, resource, subprocess, sys, time
weir, count, seed, folders = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
R = random.Random(seed)
files = sorted(f for d in folders for f in glob.glob(d + "/**/*", recursive=True) if os.path.isfile(f) and f.rsplit(".")[-1] in ("conf", "cfg", "Caddyfile", "inc", "vcl", "yml", "yaml") or os.path.isfile(f) and "Caddyfile" in f)
print(len(files), "files to start from")
tmp = "/tmp/import-fuzz"; os.makedirs(tmp, exist_ok=True)
TOKENS = [b"{", b"}", b";", b'"', b"'", b"\\", b"$", b"${", b"#", b"\n", b"\0", b"\xff", b"(", b")", b"[", b"~", b"*", b"%", b"|", b"?", b"include x;", b"\xc3\xa4", b"acl a path_beg /\n", b"if ", b" or ", b"{ }", b"9999999999999999999999", b"-1", b"^", b"(?!", b"location / {", b"\r", b"@"]
def mutate(data):
    data = bytearray(data)
    for _ in range(R.randint(1, 12)):
        at = R.randrange(len(data) + 1) if data else 0
        kind = R.randint(0, 6)
        if kind == 0: data[at:at] = R.choice(TOKENS)
        elif kind == 1 and data: del data[at:at + R.randint(1, 30)]
        elif kind == 2 and data: data[at % len(data)] = R.randrange(256)
        elif kind == 3 and data:
            start = R.randrange(len(data)); data[at:at] = data[start:start + R.randint(1, 200)]
        elif kind == 4 and data: data[at:] = b"" if R.random() < 0.1 else data[at:]
        elif kind == 5 and data: data[at:at] = R.choice(TOKENS) * R.randint(1, 50)
        else:
            words = bytes(data).split(b" ")
            i, j = R.randrange(len(words)), R.randrange(len(words)); words[i], words[j] = words[j], words[i]; data = bytearray(b" ".join(words))
    return bytes(data)
panics, slow, codes, longest = [], [], {}, 0
for n in range(count):
    src = R.choice(files)
    data = mutate(open(src, "rb").read()[:200_000])
    name = {"cfg": "haproxy.cfg", "conf": "nginx.conf"}.get(src.rsplit(".")[-1], os.path.basename(src))
    path = f"{tmp}/{name}"
    open(path, "wb").write(data)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try: done = subprocess.run([weir, "import", path, "--output", "/dev/null"], capture_output=True, timeout=60)
    except subprocess.TimeoutExpired: slow.append((30, src)); open(f"{tmp}/slow-{n}", "wb").write(data); continue
    after = resource.getrusage(resource.RUSAGE_CHILDREN); took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime; longest = max(longest, took)
    codes[done.returncode] = codes.get(done.returncode, 0) + 1
    if done.returncode not in (0, 2, 3, 4) or b"panicked" in done.stderr:
        panics.append((src, done.stderr[-300:])); open(f"{tmp}/panic-{n}-{name}", "wb").write(data)
    if took > 0.5: slow.append((round(took, 2), src)); open(f"{tmp}/slow-{n}-{name}", "wb").write(data)
print("exit codes", codes, "longest", round(longest, 2), "s")
for one in panics[:10]: print("PANIC", one)
for one in slow[:10]: print("SLOW", one)
