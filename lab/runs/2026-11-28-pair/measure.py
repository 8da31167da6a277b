#!/usr/bin/env python3
"""A pair of nodes in network namespaces: what clients lose when one node dies, freezes, or hands over.

measure.py WEIR TIMES FOLDER [EVENT ...]: needs root, keepalived, nftables and rustc. Writes FOLDER/results.csv. All processes that it starts end
with it. FORWARD=no leaves out the nftables file.
"""
import csv, os, pathlib, re, signal, subprocess, sys, time

forwards = os.environ.get("FORWARD") != "no"
weir, times, folder = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve()
here = pathlib.Path(__file__).resolve().parent
examples = here.parents[2] / "examples" / "pair"
folder.mkdir(parents=True, exist_ok=True)
VIP = "192.0.2.10"
RATE, SECONDS, BEFORE = 2000, 4, 1.5
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
    for key in ["conf/all/arp_ignore=1", "conf/all/arp_announce=2", "fwmark_reflect=1"]:
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

class Node:
    def __init__(self, name, priority):
        self.name, self.space, self.folder = name, spaces[name], folder / name
        self.folder.mkdir(exist_ok=True)
        track = self.folder / "track"
        text = (examples / "keepalived.conf").read_text().replace("/var/lib/weir/keepalived", str(track)).replace("priority 150", f"priority {priority}")
        (self.folder / "keepalived.conf").write_text(text)
        if forwards:
            # The example is that of the first node.
            rules = (examples / "forward.nft").read_text()
            if name == "b":
                rules = rules.replace("define other = 192.0.2.2", "define other = 192.0.2.1")
            (self.folder / "forward.nft").write_text(rules)
            subprocess.run(self.space.enter("nft", "-f", self.folder / "forward.nft"), check=True)
        start(self.space.enter(sys.executable, "-c", ECHO))
        (self.folder / "weir.toml").write_text(f'''admin.socket = "unix:{self.folder}/weir.sock"
process.hand_over_delay = "2s"
process.keepalived.track_file = "{track}"
[listener.web]
address = ":80"
[[listener.web.route]]
respond = {{ status = 200, body = "{name}" }}
[listener.tunnels]
address = ":443"
protocol = "tcp"
upstream = "echo"
[upstream.echo]
servers = ["127.0.0.1:9000"]
''')
        self.start()
        self.keepalived = start(self.space.enter("keepalived", "-n", "-P", "-l", "-D", "-f", self.folder / "keepalived.conf", "-p", self.folder / "k.pid", "-r", self.folder / "v.pid"), self.folder / "keepalived.log")
    def start(self):
        self.weir = start(self.space.enter(weir, "serve", self.folder / "weir.toml"), self.folder / "weir.log")
    def ctl(self, *words):
        return subprocess.run([weir, "ctl", *words, "--config", self.folder / "weir.toml"], check=True, capture_output=True)
    def has_vip(self):
        return VIP + "/" in subprocess.run(self.space.enter("ip", "-4", "addr", "show", "eth0"), capture_output=True, text=True).stdout
    def wait_vip(self, wanted=True):
        end = time.time() + 20
        while self.has_vip() != wanted:
            assert time.time() < end, f"{self.name} {'has not' if wanted else 'still has'} the address"
            time.sleep(0.02)

a, b = Node("a", 150), Node("b", 100)

def settle():
    a.wait_vip(); b.wait_vip(False); time.sleep(0.5)

def freeze(): a.weir.send_signal(signal.SIGSTOP)
def thaw(): a.weir.send_signal(signal.SIGCONT)
def kill(): a.weir.kill(); a.weir.wait()
def cut(): switch.ip("link", "set", "pa", "nomaster")
def mend(): switch.ip("link", "set", "pa", "master", "br0")
def stop():
    a.weir.terminate()
def stopped():
    # Without forwarding, the node is not told of the end of tunnels that the other one has reset: they are cut at the end of `stop_grace`.
    assert a.weir.wait() == 0 or not forwards, a.weir.returncode
    a.start()
def reboot():
    # The kernel and all processes at once: nothing says goodbye.
    cut(); kill()
def booted():
    a.start(); mend()

def dropped():
    """Packets that the kernel dropped, in all namespaces, since it had no CPU time for them (net.core.netdev_max_backlog)."""
    return sum(int(line.split()[1], 16) for line in open("/proc/net/softnet_stat"))

EVENTS = {
    "host dead": (cut, mend),
    "Weir killed": (kill, a.start),
    "Weir frozen": (freeze, thaw),
    "hand-over": (lambda: a.ctl("hand-over", "--no-wait"), None),
    "stop": (stop, stopped),
    # The node with the higher priority takes the address from one that serves.
    "take-back alone": (lambda: a.ctl("take-back"), None),
    "failback": (a.start, None),
}
only = sys.argv[4:] or list(EVENTS)
with open(folder / "results.csv", "a", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["event", "run", "requests", "failed", "longest gap ms", "begins ms", "first failed ms", "tunnels cut", "dropped", "by node", "errors"])
    def load(event, run, act):
        before = dropped()
        seconds = SECONDS + (3 if event.startswith(("hand-over", "stop", "take-back", "failback")) else 0)
        runner = subprocess.Popen(spaces["client"].enter(client, f"{VIP}:80", str(RATE), str(seconds)), stdout=subprocess.PIPE, text=True)
        time.sleep(BEFORE)
        act()
        line = runner.communicate()[0].strip().split(",", 7)
        line.insert(6, str(dropped() - before))
        rows.writerow([event, run, *line]); file.flush()
        print(event, run, *line)
    settle()
    for run in range(times):
        for event in only:
            act, undo = EVENTS[event]
            if event == "take-back alone":
                a.ctl("hand-over", "--delay", "0s"); b.wait_vip()
            elif event == "failback":
                kill(); b.wait_vip()
            load(event, run, act)
            if undo or event == "hand-over":
                b.wait_vip()
            if event == "hand-over":
                # The way back is a hand-over of the other node.
                load("hand-over back", run, lambda: b.ctl("hand-over", "--no-wait"))
                a.wait_vip()
                a.ctl("take-back"); b.ctl("take-back")
            elif undo:
                undo()
            settle()
for child in children:
    child.kill()
