#!/usr/bin/env python3
"""Two nodes that announce one address by BGP to a router (BIRD, ECMP): what clients behind it lose when one node dies, freezes, leaves or returns.

measure.py WEIR TIMES FOLDER [EVENT ...]: needs root, bird2, iproute2 and rustc. Writes FOLDER/results.csv. All processes that it starts end with
it. BFD=no leaves out BFD and sets a hold time of 9 s.
"""
import csv, os, pathlib, re, signal, subprocess, sys, time

weir, times, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
with_bfd = os.environ.get("BFD") != "no"
here = pathlib.Path(__file__).resolve().parent
examples = here.parents[2] / "examples" / "anycast"
folder.mkdir(parents=True, exist_ok=True)
ADDRESS = "198.51.100.10"
RATE, SECONDS, BEFORE = 2000, 4 if with_bfd else 15, 1.5
client = folder / "client"
subprocess.run(["rustc", "-O", "--edition", "2021", "-o", client, here / "client.rs"], check=True)

children = []
def start(command, log=None):
    out = open(log, "ab") if log else subprocess.DEVNULL
    child = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    children.append(child)
    return child

class Namespace:
    def __init__(self, name):
        self.name = name
        self.holder = start(["unshare", "--net", "sleep", "36000"])
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == own:
            time.sleep(0.01)
    def enter(self, *command):
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *command]
    def ip(self, *words):
        subprocess.run(self.enter("ip", *words), check=True)

    def set(self, key, value):
        subprocess.run(self.enter("sysctl", "-qw", f"net/ipv4/{key}={value}"), check=True)

# client -- router -- switch -- a, b
switch, router, behind = Namespace("switch"), Namespace("router"), Namespace("client")
switch.ip("link", "add", "br0", "type", "bridge")
switch.ip("link", "set", "br0", "up")
spaces = {"a": Namespace("a"), "b": Namespace("b"), "router": router}
for number, (name, space) in enumerate(spaces.items(), 1):
    switch.ip("link", "add", f"p{name}", "type", "veth", "peer", "name", "eth0", "netns", str(space.holder.pid))
    switch.ip("link", "set", f"p{name}", "master", "br0")
    switch.ip("link", "set", f"p{name}", "up")
    space.ip("link", "set", "lo", "up")
    space.ip("link", "set", "eth0", "up")
    space.ip("addr", "add", f"192.0.2.{number}/24", "dev", "eth0")
router.ip("link", "add", "eth1", "type", "veth", "peer", "name", "eth0", "netns", str(behind.holder.pid))
router.ip("link", "set", "eth1", "up")
router.ip("addr", "add", "203.0.113.1/24", "dev", "eth1")
behind.ip("link", "set", "eth0", "up")
behind.ip("addr", "add", "203.0.113.2/24", "dev", "eth0")
behind.ip("route", "add", "default", "via", "203.0.113.1")
for name in "ab":
    spaces[name].ip("route", "add", "default", "via", "192.0.2.3")
router.set("ip_forward", 1)
# By addresses and ports: there is one client.
router.set("fib_multipath_hash_policy", 1)

def bird(space, name, text):
    if not with_bfd:
        text = text.replace("    bfd on;\n", "    hold time 9;\n")
    (folder / f"{name}.conf").write_text(text)
    return start(space.enter("bird", "-f", "-c", folder / f"{name}.conf", "-s", folder / f"{name}.ctl"), folder / f"{name}-bird.log")

bird(router, "router", (examples / "router.conf").read_text())

class Node:
    def __init__(self, name, address):
        self.name, self.space, self.folder = name, spaces[name], folder / name
        self.folder.mkdir(exist_ok=True)
        self.address = address
        self.space.ip("addr", "add", f"{ADDRESS}/32", "dev", "lo")
        bird(self.space, name, (examples / "bird.conf").read_text().replace("192.0.2.1", address))
        (self.folder / "weir.toml").write_text(f'''admin.socket = "unix:{self.folder}/weir.sock"
process.hand_over_delay = "2s"
process.stop_delay = "2s"
process.bird = {{ protocol = "anycast", socket = "{folder}/{name}.ctl" }}
[listener.web]
address = "{ADDRESS}:80"
[[listener.web.route]]
respond = {{ status = 200, body = "{name}" }}
''')
        time.sleep(0.5)
        self.start()
    def start(self):
        self.weir = start(self.space.enter(weir, "serve", self.folder / "weir.toml"), self.folder / "weir.log")
    def ctl(self, *words):
        return subprocess.run([weir, "ctl", *words, "--config", self.folder / "weir.toml"], check=True, capture_output=True)
    def wait_route(self, wanted=True):
        end = time.time() + 30
        def there():
            table = subprocess.run(router.enter("ip", "route", "show", ADDRESS), capture_output=True, text=True).stdout
            return f"via {self.address} " in table
        while there() != wanted:
            assert time.time() < end, f"{self.name} {'has no' if wanted else 'still has a'} route"
            time.sleep(0.02)

a, b = Node("a", "192.0.2.1"), Node("b", "192.0.2.2")

def settle():
    a.wait_route(); b.wait_route(); time.sleep(0.5)

def freeze(): a.weir.send_signal(signal.SIGSTOP)
def thaw(): a.weir.send_signal(signal.SIGCONT)
def kill(): a.weir.kill(); a.weir.wait()
def cut(): switch.ip("link", "set", "pa", "nomaster")
def mend(): switch.ip("link", "set", "pa", "master", "br0")
def stopped():
    assert a.weir.wait() == 0, a.weir.returncode
    a.start()

EVENTS = {
    "node cut off": (cut, mend),
    "Weir killed": (kill, a.start),
    "Weir frozen": (freeze, thaw),
    "hand-over": (lambda: a.ctl("hand-over", "--no-wait"), None),
    "stop": (lambda: a.weir.terminate(), stopped),
}
only = sys.argv[4:] or list(EVENTS)
with open(folder / "results.csv", "a", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["event", "run", "requests", "failed", "longest gap ms", "first failed ms", "last failed new ms", "kept cut", "by node", "errors"])
    def load(event, run, act):
        seconds = SECONDS + (3 if event.startswith(("hand-over", "stop")) else 0)
        runner = subprocess.Popen(behind.enter(client, f"{ADDRESS}:80", str(RATE), str(seconds)), stdout=subprocess.PIPE, text=True)
        time.sleep(BEFORE)
        act()
        line = runner.communicate()[0].strip().split(",", 7)
        rows.writerow([event, run, *line]); file.flush()
        print(event, run, *line, flush=True)
    settle()
    for run in range(times):
        for event in only:
            act, undo = EVENTS[event]
            load(event, run, act)
            a.wait_route(False)
            if event == "hand-over":
                load("return", run, lambda: a.ctl("take-back"))
            else:
                undo()
            settle()
for child in children:
    child.kill()
