"""Two NTLM users and a stranger through a balancer: who is taken for whom?

Needs requests, requests_ntlm and pyspnego (PyPI), `weir` and `haproxy`:  python3 ntlm.py [ROUNDS]

The server authenticates each connection by NTLM (pyspnego), and answers every later request on it with the name of its user, as IIS
does. Alice and Bob have a connection each to the balancer (requests_ntlm), and ask in turn; after each round a stranger asks without
credentials on a connection of its own, kept or new in turn, and has to get 401.
"""
import base64, http.server, os, socket, socketserver, subprocess, sys, tempfile, threading, time

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 500
USERS = {"alice": "secret-a", "bob": "secret-b"}
work = tempfile.mkdtemp()
os.environ["NTLM_USER_FILE"] = os.path.join(work, "users")
with open(os.environ["NTLM_USER_FILE"], "w") as file:
    for name, password in USERS.items():
        file.write(f"DOMAIN:{name}:{password}\n")

import requests, spnego
from requests_ntlm import HttpNtlmAuth


class Handler(http.server.BaseHTTPRequestHandler):
    """One instance per connection: what it knows of the user lives as long as the connection."""
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    user = context = None

    def log_message(self, *_):
        pass

    def answer(self, status, body="", challenge=None):
        data = body.encode()
        self.send_response(status)
        if challenge is not None:
            self.send_header("WWW-Authenticate", challenge)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.server.connections.add(self.client_address)
        field = self.headers.get("Authorization", "")
        if field.startswith("NTLM "):
            token = base64.b64decode(field[5:])
            if self.context is None or token[8] == 1:
                self.context, self.user = spnego.server(protocol="ntlm", options=spnego.NegotiateOptions.use_ntlm), None
            try:
                out = self.context.step(token)
            except Exception:
                self.context = None
                return self.answer(401, challenge="NTLM")
            if not self.context.complete:
                return self.answer(401, challenge="NTLM " + base64.b64encode(out).decode())
            self.user, self.context = self.context.client_principal.split("\\")[-1], None
            self.server.logins += 1
        if self.user is None:
            return self.answer(401, challenge="NTLM")
        self.answer(200, self.user)


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads, request_queue_size = True, 128
    connections, logins = set(), 0

    def handle_error(self, *_):
        pass  # a client has reset its connection


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def weir(listen, servers):
    path = os.path.join(work, "weir.toml")
    names = ", ".join(f'"127.0.0.1:{s}"' for s in servers)
    open(path, "w").write(f'process.workers = 2\nlistener.web = {{ address = "127.0.0.1:{listen}", upstream = "app" }}\n'
                          f'upstream.app = {{ balance = "round-robin", servers = [{names}] }}\n')
    return [os.environ.get("WEIR", "weir"), "serve", path]


def haproxy(listen, servers):
    path = os.path.join(work, "haproxy.cfg")
    names = "\n".join(f"  server s{n} 127.0.0.1:{s}" for n, s in enumerate(servers))
    open(path, "w").write("global\n  nbthread 2\ndefaults\n  mode http\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n"
                          f"  http-reuse always\nlisten app\n  bind 127.0.0.1:{listen}\n  balance roundrobin\n{names}\n")
    return ["haproxy", "-db", "-f", path]


def run(name, command, count):
    servers = [Server(("127.0.0.1", 0), Handler) for _ in range(count)]
    for server in servers:
        server.connections, server.logins = set(), 0
        threading.Thread(target=server.serve_forever, daemon=True).start()
    listen = port()
    process = subprocess.Popen(command(listen, [s.server_port for s in servers]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{listen}/"
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", listen)).close()
            break
        except OSError:
            time.sleep(0.05)
    wrong = refused = right = leaked = 0
    sessions = {}
    for user, password in USERS.items():
        sessions[user] = requests.Session()
        sessions[user].auth = HttpNtlmAuth("DOMAIN\\" + user, password)
    kept = requests.Session()
    for number in range(ROUNDS):
        for user, session in sessions.items():
            response = session.get(url + str(number))
            if response.status_code != 200:
                refused += 1
            elif response.text != user:
                wrong += 1
            else:
                right += 1
        stranger = kept.get(url) if number % 2 else requests.get(url)
        leaked += stranger.status_code != 401
    process.terminate()
    process.wait()
    made, logins = sum(len(s.connections) for s in servers), sum(s.logins for s in servers)
    print(f"| {name} | {count} | {right} | {wrong} | {refused} | {leaked} of {ROUNDS} | {logins} | {made} |")


print("| balancer | servers | requests of users answered as themselves | as the other | refused | strangers answered as a user | logins | server connections |")
print("|---|---|---|---|---|---|---|---|")
version = subprocess.run(["haproxy", "-v"], capture_output=True, text=True).stdout.split()[2]
for count in (1, 3):
    run("Weir", weir, count)
    run("HAProxy " + version, haproxy, count)
