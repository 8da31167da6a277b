#!/usr/bin/env python3
"""Two nodes that both work, in network namespaces: what clients of each address lose when one node dies, freezes, or hands over.

measure.py WEIR TIMES FOLDER [EVENT ...]: needs root, keepalived, nftables and rustc. Writes FOLDER/results.csv. All processes that it starts end
with it. BOUND=yes: a listener at each of the two addresses, instead of one at all addresses.
"""
import collections, csv, os, pathlib, re, signal, subprocess, sys, time

weir, times, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
bound = os.environ.get("BOUND") == "yes"
here = pathlib.Path(__file__).resolve().parent
examples = here.parents[2] / "examples" / "pair"
folder.mkdir(parents=True, exist_ok=True)
# The first moves; the second is that of the node which takes it.
SHARED = {"moved": "192.0.2.10", "other": "192.0.2.11"}
RATE, BEFORE = 1000, 1.5
client = folder / "client"
subprocess.run(["rustc", "-O", "--edition", "2021", "-o", client, here.parent / "2026-11-28-pair" / "client.rs"], check=True)

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

switch = Namespace("switch")
switch.ip("link", "add", "br0", "type", "bridge")
switch.ip("link", "set", "br0", "up")
spaces = {}
for number, name in enumerate(["a", "b", "client"], 1):
    space = spaces[name] = Namespace(name)
    switch.ip("link", "add", f"p{name}", "type", "veth", "peer", "name", "eth0", "netns", str(space.holder.pid))
    switch.ip("link", "set", f"p{name}", "master", "br0")
    switch.ip("link", "set", f"p{name}", "up")
    space.ip("link", "set", "lo", "up")
    space.ip("link", "set", "eth0", "up")
    space.ip("addr", "add", f"192.0.2.{number}/24", "dev", "eth0")
    keys = ["conf/all/arp_ignore=1", "conf/all/arp_announce=2", "fwmark_reflect=1"]
    for key in keys + ["tcp_fwmark_accept=1", "ip_nonlocal_bind=1"] * bound:
        subprocess.run(space.enter("sysctl", "-qw", f"net/ipv4/{key}"), check=True)

# Behind each node: it sends back what it gets.
ECHO = """
import socket, threading
def echo(stream):
    while data := stream.recv(1000):
        stream.sendall(data)
    stream.close()
listener = socket.create_server(("127.0.0.1", 9000), backlog=512)
while True:
    threading.Thread(target=echo, args=[listener.accept()[0]], daemon=True).start()
"""

def replaced(text, *pairs):
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text

class Node:
    def __init__(self, name):
        self.name, self.space, self.folder = name, spaces[name], folder / name
        self.folder.mkdir(exist_ok=True)
        track = self.folder / "track"
        text = replaced((examples / "keepalived-both.conf").read_text(), ("/var/lib/weir/keepalived", str(track)))
        rules = replaced((examples / "forward.nft").read_text(), ("{ 192.0.2.10 }", "{ 192.0.2.10, 192.0.2.11 }"))
        if bound:
            rules = replaced(rules, ("define accepted = 0", "define accepted = 0x20000000"))
        # The examples are those of the first node.
        if name == "b":
            text = replaced(text, ("priority 150", "priority X"), ("priority 100", "priority 150"), ("priority X", "priority 100"))
            rules = replaced(rules, ("define other = 192.0.2.2", "define other = 192.0.2.1"))
        (self.folder / "keepalived.conf").write_text(text)
        (self.folder / "forward.nft").write_text(rules)
        subprocess.run(self.space.enter("nft", "-f", self.folder / "forward.nft"), check=True)
        start(self.space.enter(sys.executable, "-c", ECHO))
        hosts = SHARED.values() if bound else [""]
        listeners = "".join(f'''[listener.web{number}]
address = "{host}:80"
[[listener.web{number}.route]]
respond = {{ status = 200, body = "{name}" }}
[listener.tunnels{number}]
address = "{host}:443"
protocol = "tcp"
upstream = "echo"
''' for number, host in enumerate(hosts))
        (self.folder / "weir.toml").write_text(f'''admin.socket = "unix:{self.folder}/weir.sock"
process.hand_over_delay = "2s"
process.keepalived.track_file = "{track}"
{listeners}[upstream.echo]
servers = ["127.0.0.1:9000"]
''')
        self.start()
        self.keepalived = start(self.space.enter("keepalived", "-n", "-P", "-l", "-D", "-f", self.folder / "keepalived.conf", "-p", self.folder / "k.pid", "-r", self.folder / "v.pid"), self.folder / "keepalived.log")
    def start(self):
        self.weir = start(self.space.enter(weir, "serve", self.folder / "weir.toml"), self.folder / "weir.log")
    def ctl(self, *words):
        return subprocess.run([weir, "ctl", *words, "--config", self.folder / "weir.toml"], check=True, capture_output=True)
    def addresses(self):
        text = subprocess.run(self.space.enter("ip", "-4", "addr", "show", "eth0"), capture_output=True, text=True).stdout
        return [name for name, address in SHARED.items() if f" {address}/" in text]

a, b = Node("a"), Node("b")

def wait(of_a, of_b):
    end = time.time() + 20
    while (have := (a.addresses(), b.addresses())) != (of_a, of_b):
        assert time.time() < end, f"{have} instead of {(of_a, of_b)}"
        time.sleep(0.02)
def settle():
    wait(["moved"], ["other"]); time.sleep(0.5)
def b_has_both(): wait([], ["moved", "other"])

def freeze(): a.weir.send_signal(signal.SIGSTOP)
def thaw(): a.weir.send_signal(signal.SIGCONT)
def kill(): a.weir.kill(); a.weir.wait()
# The host does not notice: it takes both addresses, where no client reaches it.
def cut(): switch.ip("link", "set", "pa", "nomaster")
def mend(): switch.ip("link", "set", "pa", "master", "br0")
def stop(): a.weir.terminate()
def start_again():
    assert a.weir.wait() == 0, a.weir.returncode
    a.start()

def dropped():
    """Packets that the kernel dropped, in all namespaces, since it had no CPU time for them (net.core.netdev_max_backlog)."""
    return sum(int(line.split()[1], 16) for line in open("/proc/net/softnet_stat"))

def summed(errors):
    """Tunnels by error, without the time of each."""
    counts, others = collections.Counter(), []
    for error in filter(None, errors.split("; ")):
        tunnel = re.match(r"tunnel after \d+ ms: (.*)", error)
        if tunnel:
            counts[tunnel[1]] += 1
        else:
            others.append(error)
    return "; ".join(others + [f"{count}x tunnel: {error}" for error, count in counts.items()])

# Each with what happens during the load, what is so behind it, what ends it, and how long the load lasts.
nothing = lambda: None
EVENTS = {
    "host dead": (cut, nothing, nothing, 4),
    # It follows the row above.
    "host back": (mend, nothing, nothing, 4),
    "Weir killed": (kill, b_has_both, nothing, 4),
    "return of Weir": (a.start, nothing, nothing, 5),
    "Weir frozen": (freeze, b_has_both, thaw, 4),
    "hand-over": (lambda: a.ctl("hand-over", "--no-wait"), b_has_both, nothing, 6),
    "way back": (lambda: a.ctl("take-back"), nothing, nothing, 4),
    "stop": (stop, b_has_both, start_again, 6),
}
LEAVES_IT_AWAY = ["host dead", "Weir killed", "hand-over"]
only = sys.argv[4:] or list(EVENTS)
with open(folder / "results.csv", "a", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["event", "run", "address", "requests", "failed", "longest gap ms", "begins ms", "first failed ms", "tunnels cut", "dropped", "by node", "errors"])
    def load(event, run, act, seconds):
        before = dropped()
        command = lambda address: spaces["client"].enter(client, f"{address}:80", str(RATE), str(seconds))
        clients = {name: subprocess.Popen(command(address), stdout=subprocess.PIPE, text=True) for name, address in SHARED.items()}
        time.sleep(BEFORE)
        act()
        lines = {name: client.communicate()[0].strip().split(",", 7) for name, client in clients.items()}
        lost = str(dropped() - before)
        for name, line in lines.items():
            line.insert(6, lost)
            line[-1] = summed(line[-1])
            rows.writerow([event, run, name, *line]); file.flush()
            print(event, run, name, *line, flush=True)
    settle()
    for run in range(times):
        for event in only:
            act, check, undo, seconds = EVENTS[event]
            load(event, run, act, seconds)
            check(); undo()
            if event not in LEAVES_IT_AWAY:
                settle()
            else:
                time.sleep(0.5)
for child in children:
    child.kill()
