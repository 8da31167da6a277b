#!/usr/bin/env python3
"""How soon Weir finds a database that is stopped (SIGSTOP), and what its checks leave in the database's log.

    measure.py WEIR ROUNDS FOLDER

WEIR is the program, FOLDER gets result.json and README.md. Needs Debian's redis-server, postgresql and mariadb-server, not running,
and root (the databases run as their own users). interval 1 s, fall 2, all else default.
"""
import glob, json, os, platform, re, shutil, signal, socket, subprocess, sys, tempfile, time, urllib.request

WEIR, ROUNDS, FOLDER = os.path.abspath(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
work = tempfile.mkdtemp(prefix="weir-databases-")
os.chmod(work, 0o755)
started = []


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def spawn(args, log, user=None):
    out = open(log, "ab")
    process = subprocess.Popen(args, stdout=out, stderr=out, user=user, group=user, cwd=work)
    started.append(process)
    return process


def folder(name, user):
    path = os.path.join(work, name)
    os.makedirs(path)
    shutil.chown(path, user, user)
    return path


def redis():
    at, data = port(), folder("redis", "redis")
    log = os.path.join(work, "redis.log")
    run = spawn(["redis-server", "--port", str(at), "--bind", "127.0.0.1", "--dir", data, "--save", "", "--loglevel", "verbose"], log, "redis")
    # The lines that tell of connections at `verbose` are no errors; without them the file would show nothing at all.
    return at, run, log, "redis", r"[0-9]+:[A-Z] .* # "


def postgresql():
    at, data = port(), folder("postgresql", "postgres")
    bin = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
    log = os.path.join(work, "postgresql.log")
    key, cert = os.path.join(data, "key.pem"), os.path.join(data, "cert.pem")
    password = os.path.join(data, "password")
    open(password, "w").write("secret\n")
    initdb = [f"{bin}/initdb", "-D", os.path.join(data, "data"), "--auth", "scram-sha-256", "--pwfile", password]
    subprocess.run(initdb, check=True, user="postgres", group="postgres", cwd=work, stdout=subprocess.DEVNULL)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=db", "-keyout", key, "-out", cert],
                   check=True, user="postgres", group="postgres", stderr=subprocess.DEVNULL)
    run = spawn([f"{bin}/postgres", "-D", os.path.join(data, "data"), "-p", str(at), "-c", f"unix_socket_directories={data}", "-c", "listen_addresses=127.0.0.1",
                 "-c", "ssl=on", "-c", f"ssl_cert_file={cert}", "-c", f"ssl_key_file={key}"], log, "postgres")
    return at, run, log, "postgresql", r"(WARNING|ERROR|FATAL|PANIC|could not|incomplete|invalid|unsupported)"


def mariadb():
    at, data = port(), folder("mariadb", "mysql")
    log = os.path.join(work, "mariadb.log")
    base = ["--no-defaults", f"--datadir={data}/data", "--user=mysql"]
    subprocess.run(["mariadb-install-db", *base, "--skip-test-db", "--auth-root-authentication-method=normal"], check=True, cwd=work,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run = spawn(["mariadbd", *base, f"--port={at}", "--bind-address=127.0.0.1", f"--socket={data}/sock", f"--pid-file={data}/pid",
                 "--max-connect-errors=3", "--log-warnings=9"], log)
    wait(at)
    sql = "CREATE USER 'weir'@'127.0.0.1'; CREATE USER 'weir'@'localhost';"
    for _ in range(100):
        if subprocess.run(["mariadb", "--no-defaults", f"--socket={data}/sock", "-uroot", "-e", sql], stderr=subprocess.DEVNULL).returncode == 0:
            break
        time.sleep(0.1)
    return at, run, log, "mariadb", r"(Warning|ERROR|Aborted)"


def wait(at):
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", at), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    logs = [f"{log}: {open(log, errors='replace').read()[-800:]}" for log in glob.glob(os.path.join(work, "*.log"))]
    sys.exit(f"nothing listens on {at}\n" + "\n".join(logs))


def upstream(name, at, health):
    return (f'[listener.{name}]\naddress = "127.0.0.1:{port()}"\nprotocol = "tcp"\nupstream = "{name}"\n'
            f'[upstream.{name}]\nservers = ["127.0.0.1:{at}"]\nhealth = {{ {health}, interval = "1s", fall = 2 }}\non_down = "close"\n')


CHECKS = {"redis": ['preset = "redis"'], "postgresql": ['preset = "postgresql"', 'preset = "postgresql", user = "postgres"'],
          "mariadb": ['preset = "mysql", user = "weir"']}


def up(admin):
    text = urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics").read().decode()
    return {name: value == "1" for name, value in re.findall(r'^weir_server_up\{upstream="([^"]+)".*\} (\d)', text, re.M)}


def until(admin, wanted, names):
    while any(up(admin).get(name) != wanted for name in names):
        time.sleep(0.005)


try:
    databases = [redis(), postgresql(), mariadb()]
    for at, *_ in databases:
        wait(at)
    time.sleep(1)
    admin, text, names = port(), "", {}
    for at, _, _, kind, _ in databases:
        names[kind] = [f"{kind}-{index}" for index in range(len(CHECKS[kind]))]
        text += "".join(upstream(name, at, health) for name, health in zip(names[kind], CHECKS[kind]))
    config = os.path.join(work, "weir.toml")
    open(config, "w").write(f'admin.address = "127.0.0.1:{admin}"\n{text}')
    spawn([WEIR, "serve", config], os.path.join(work, "weir.log"))
    wait(admin)
    everything = [name for kind in names.values() for name in kind]
    until(admin, True, everything)
    # From here on the logs may tell of nothing but the checks: 20 s of them.
    begins = {kind: os.path.getsize(log) for _, _, log, kind, _ in databases}
    time.sleep(20)
    complaints = {}
    for _, _, log, kind, pattern in databases:
        lines = open(log, "rb").read()[begins[kind]:].decode(errors="replace").splitlines()
        complaints[kind] = [line for line in lines if re.search(pattern, line)]
    times = {name: [] for name in everything}
    for _ in range(ROUNDS):
        for _, process, _, kind, _ in databases:
            began = time.monotonic()
            os.kill(process.pid, signal.SIGSTOP)
            waiting = set(names[kind])
            while waiting and time.monotonic() - began < 30:
                state = up(admin)
                for name in [name for name in waiting if not state[name]]:
                    times[name].append(round(time.monotonic() - began, 3))
                    waiting.discard(name)
                time.sleep(0.005)
            for name in waiting:
                times[name].append(None)
            os.kill(process.pid, signal.SIGCONT)
            until(admin, True, names[kind])
    versions = [subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0] for command in
                (["redis-server", "--version"], [sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1] + "/postgres", "--version"], ["mariadbd", "--version"])]
finally:
    for process in started:
        process.send_signal(signal.SIGCONT)
        process.terminate()
    for process in started:
        process.wait()
    shutil.rmtree(work, ignore_errors=True)

os.makedirs(FOLDER, exist_ok=True)
result = {"versions": versions, "seconds": times, "complaints": complaints}
json.dump(result, open(os.path.join(FOLDER, "result.json"), "w"), indent=1)
checks = [health for kind in names for health in CHECKS[kind]]
rows = "".join(f"| {name.split('-')[0]} | `{health}` | {min(all)} s | {max(all)} s | {len(complaints[name.split('-')[0]])} |\n"
               for (name, all), health in zip(times.items(), checks))
open(os.path.join(FOLDER, "README.md"), "w").write(f"""# Databases that are stopped

How soon Weir finds a server that is stopped by SIGSTOP, from the signal to `weir_server_up 0`, and how many warnings or errors 20 s of checks left in the log of the
server. `interval = "1s"`, `fall = 2`, all else default; {ROUNDS} rounds each. The bar is 2.2 s and none.

| server | `health` | quickest | slowest | complaints in its log |
|---|---|---|---|---|
{rows}
PostgreSQL has `ssl = on` and asks for a password; MariaDB runs with `max_connect_errors = 3` and `log_warnings = 9`, so that it would block a host that does not log in.
Which build of Weir does not matter here. Versions: {"; ".join(versions)}; kernel {platform.release()}.

```sh
lab/runs/2026-11-23-databases/measure.py target/dist/weir {ROUNDS} lab/runs/2026-11-23-databases
```
""")
print(open(os.path.join(FOLDER, "README.md")).read())
