#!/usr/bin/env python3
"""An ACME authority that misbehaves in another way every few seconds, beside clients that shake hands all the time.

    run.py --weir target/debug/weir --minutes 10 --out lab/runs/2026-11-29-hostile-acme

Everything is on 127.0.0.1. The authority is in this file; it needs Python's `cryptography`. It proves nothing and signs what it is asked to, except
where its behaviour of the moment says otherwise. `--seed` repeats the order of behaviours.
"""

import argparse, base64, collections, csv, datetime, http.server, json, os, random, re, signal, socket, ssl, struct, subprocess, sys, tempfile
import threading, time, urllib.request

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = 86_400
PHASE_S = 5
ORDERS_MAX = 2_000
LONG = [f"l{number:02}.example.test" for number in range(15)]   # certificates of 90 days
SHORT = [f"s{number:02}.example.test" for number in range(15)]  # certificates of three minutes
WAITS = ["18446744073709551616", "18446744073709551615", "18446744073709551614", "9223372036854775808", "9223372036854775807", "9007199254740993",
         "292277026596", "253402300800", "4294967296", "4294967295", "2147483648", "2147483647", "1", "0", "-1", "-9223372036854775808", "+1", "1.5",
         "1e308", "9" * 400, "Thu, 01 Jan 1970 00:00:00 GMT", "Wed, 31 Dec 1969 23:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
         "Mon, 01 Jan 0001 00:00:00 GMT", "Tue, 30 Feb 2027 25:61:61 GMT", "soon", "", "\u00e9", "0x10", "1, 2"]
MOMENTS = ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2038-01-19T03:14:08Z",
           "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59", "+99999-01-01T00:00:00Z", "-0001-01-01T00:00:00Z", "2026-02-30T00:00:00Z",
           "2026-11-29T23:59:60Z", "2026-11-29T00:00:00.999999999999999999Z", "soon", "", None, 0, 1e308, [], {}]
ODD_URLS = ["", " ", "https://", "https://a b/", "https://[::1", "https://[::1]:99999/", "https://:0/", "https://127.0.0.1:0/", "ftp://127.0.0.1/",
            "file:///etc/passwd", "javascript:alert(1)", "data:text/plain,x", "unix:/run/weir.sock", "//127.0.0.1/x", "/relative", "http://127.0.0.1/plain",
            "https://user:secret@127.0.0.1/", "\x7f", "https://" + "a" * 70_000 + "/"]
assert len(ODD_URLS) == 19
TOKENS = ["", ".", "..", "../../../../tmp/weir-acme-escaped", "/tmp/weir-acme-escaped", "a\x00b", "a/b", "a" * 300, "t" * 500_000, "%2e%2e", "\u00e9", "-", None, 7]


def now():
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Signer:
    """The key that all certificates are signed with: those of hosts, and that of the authority's own server."""

    def __init__(self, folder):
        self.key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = self.builder(name("authority"), self.key.public_key(), -3600, 30 * DAY)
        builder = builder.add_extension(x509.BasicConstraints(True, None), True).add_extension(usage, True)
        self.root = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), False).sign(self.key, hashes.SHA256())
        self.root_path, own_path = os.path.join(folder, "root.pem"), os.path.join(folder, "own.pem")
        with open(self.root_path, "wb") as file:
            file.write(self.root.public_bytes(serialization.Encoding.PEM))
        own = ec.generate_private_key(ec.SECP256R1())
        address = x509.IPAddress(__import__("ipaddress").ip_address("127.0.0.1"))
        certificate = self.builder(name("own"), own.public_key(), -3600, 30 * DAY)
        certificate = certificate.add_extension(x509.SubjectAlternativeName([address]), False).sign(self.key, hashes.SHA256())
        with open(own_path, "wb") as file:
            file.write(certificate.public_bytes(serialization.Encoding.PEM))
            file.write(own.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(own_path)

    def builder(self, subject, key, begins_s, ends_s):
        at = lambda seconds: now() + datetime.timedelta(seconds=seconds)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(name("authority")).public_key(key)
        return builder.serial_number(x509.random_serial_number()).not_valid_before(at(begins_s)).not_valid_after(at(ends_s))

    def issue(self, key, names, begins_s, ends_s):
        builder = self.builder(x509.Name([]), key, begins_s, ends_s)
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), True)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        certificate = builder.add_extension(identifier, False).sign(self.key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM).decode()


def certificates(signer, key, host, choice, behaviour):
    """The chain for an order, and whether clients and Weir have to take it."""
    begins, ends = (-2, 178) if host in SHORT else (-3600, 90 * DAY)
    names = [host]
    if behaviour == "late certificates":
        begins, ends = choice.choice([(-60 * DAY, 30 * DAY), (-80 * DAY, 10 * DAY), (-90 * DAY + 300, 300)])
    elif behaviour == "certificates that clients refuse":
        kind = choice.randrange(8)
        if kind == 0: begins, ends = -20 * DAY, -10 * DAY
        if kind == 1: begins, ends = 20 * DAY, 30 * DAY
        if kind == 2: names = ["other.example.test"]
        if kind == 3: names = ["*." + host]
        if kind == 4: key = ec.generate_private_key(ec.SECP256R1()).public_key()
        if kind == 5: return "", False
        if kind == 6: return "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", False
        if kind == 7: return signer.issue(key, names, begins, ends)[:-80], False
    elif behaviour == "chains of many":
        good = signer.issue(key, names, begins, ends)
        return good + signer.root.public_bytes(serialization.Encoding.PEM).decode() * choice.choice([100, 1000, 5000]), None
    good = begins <= 0 < ends and names == [host] and behaviour != "certificates that clients refuse"
    return signer.issue(key, names, begins, ends), good


class Authority:
    """Behaves as one of `BEHAVIOURS` says, until the next turn."""

    def __init__(self, folder, seed):
        self.signer, self.choice, self.lock = Signer(folder), random.Random(seed), threading.Lock()
        self.behaviour, self.turn, self.over = "honest", 0, False
        self.orders, self.requests, self.by_behaviour = [], 0, collections.Counter()
        self.issued_good, self.most_per_second, self.this_second = collections.Counter(), 0, [0, 0]
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self, path):
        return f"https://127.0.0.1:{self.port}/{path}"

    def accept(self):
        while not self.over:
            connection, _ = self.socket.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, raw):
        try:
            raw.settimeout(40)
            if self.behaviour == "no handshake":
                return self.hold(raw)
            with self.signer.tls.wrap_socket(raw, server_side=True) as connection:
                request = b""
                while b"\r\n\r\n" not in request:
                    part = connection.recv(65536)
                    if not part:
                        return
                    request += part
                head, body = request.split(b"\r\n\r\n", 1)
                length = re.search(rb"(?i)content-length: (\d+)", head)
                while length and len(body) < int(length[1]):
                    body += connection.recv(65536)
                self.answer(connection, head.decode("latin-1"), body)
        except (OSError, ValueError):
            pass
        finally:
            raw.close()

    def hold(self, connection):
        until = time.monotonic() + 35
        connection.settimeout(1)
        while time.monotonic() < until and not self.over:
            try:
                if not connection.recv(1):
                    return
            except TimeoutError:
                pass

    def answer(self, connection, head, body):
        method, target = head.split(" ", 2)[:2]
        behaviour = self.behaviour
        with self.lock:
            self.requests += 1
            self.by_behaviour[behaviour] += 1
            second = int(time.monotonic())
            self.this_second = [second, self.this_second[1] + 1 if self.this_second[0] == second else 1]
            self.most_per_second = max(self.most_per_second, self.this_second[1])
            choice = random.Random(self.choice.random())
            status, fields, text = self.honest(method, target, body, behaviour, choice)
        if behaviour in RAW:
            return RAW[behaviour](self, connection, choice)
        status, fields, text = changed(self, behaviour, target, status, fields, text, choice)
        lines = [f"HTTP/1.1 {status} X"] + [f"{field}: {value}" for field, value in fields] + [f"Content-Length: {len(text.encode())}"]
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace") + (b"" if method == "HEAD" else text.encode("utf-8", "replace")))

    def honest(self, method, target, body, behaviour, choice):
        parts = target.strip("/").split("?")[0].split("/")
        number = int(parts[-1]) if parts[-1].isdigit() else 0
        nonce = base64.urlsafe_b64encode(choice.randbytes(16)).decode().rstrip("=")
        fields = [("Replay-Nonce", nonce), ("Content-Type", "application/json")]
        done = lambda value, status=200, more=(): (status, fields + list(more), value if isinstance(value, str) else json.dumps(value))
        odd = lambda path: choice.choice(ODD_URLS) if behaviour == "odd URLs in orders" and choice.random() < 0.5 else self.url(path)
        match parts[0]:
            case "ask":
                return done("")
            case "dir":
                directory = {"newNonce": self.url("nonce"), "newAccount": self.url("account"), "newOrder": self.url("new-order"), "renewalInfo": self.url("renewal")}
                if behaviour == "odd URLs in the directory":
                    directory = {key: choice.choice(ODD_URLS) if choice.random() < 0.5 else value for key, value in directory.items()}
                return done(directory)
            case "nonce":
                return done("")
            case "account":
                location = choice.choice(ODD_URLS).replace("\x7f", "") if behaviour == "odd accounts" else self.url("account/1")
                return done({"status": "valid"}, 201, [("Location", location)])
            case "new-order":
                if behaviour in REFUSING:
                    return done("")
                wanted = self.payload(body)
                host = wanted["identifiers"][0]["value"]
                self.orders.append({"host": host, "replaces": wanted.get("replaces"), "at": time.monotonic(), "behaviour": behaviour, "chain": "", "good": None})
                return done(self.order(len(self.orders) - 1, behaviour, choice, odd), 201, [("Location", odd(f"order/{len(self.orders) - 1}"))])
            case "order" | "finalize" if number < len(self.orders):
                order = self.orders[number]
                if parts[0] == "finalize" and not order["chain"]:
                    csr = x509.load_der_x509_csr(base64.urlsafe_b64decode(self.payload(body)["csr"] + "=="))
                    order["chain"], order["good"] = certificates(self.signer, csr.public_key(), order["host"], choice, behaviour)
                    order["chain"] = order["chain"] or "\n"
                return done(self.order(number, behaviour, choice, odd))
            case "authorization" if number < len(self.orders):
                status, challenges = "valid", []
                if behaviour == "odd challenges":
                    kinds = choice.choices(["http-01", "tls-alpn-01", "dns-01", "", "x" * 5000], k=choice.choice([0, 1, 3, 500]))
                    challenges = [{"type": kind, "url": choice.choice(ODD_URLS + [self.url(f"challenge/{number}")] * 20), "token": choice.choice(TOKENS),
                                   "status": choice.choice(["pending", "valid", "odd"])} for kind in kinds]
                    status = choice.choice(["pending", "pending", "pending", "invalid", "deactivated", "expired", "revoked", "odd"])
                elif self.orders[number]["host"] in LONG[::3]:
                    challenges = [{"type": kind, "url": self.url(f"challenge/{number}"), "token": nonce, "status": "pending"} for kind in ("http-01", "tls-alpn-01")]
                    status = "pending"
                return done({"identifier": {"type": "dns", "value": self.orders[number]["host"]}, "status": status, "challenges": challenges})
            case "challenge":
                return done({"type": "http-01", "url": self.url(f"challenge/{number}"), "token": nonce, "status": "processing"})
            case "certificate" if number < len(self.orders):
                if self.orders[number]["good"]:
                    self.issued_good[self.orders[number]["host"]] += 1
                return done(self.orders[number]["chain"])
            case "renewal":
                if behaviour != "odd windows":
                    return done("{}", 404)
                return done({"suggestedWindow": {"start": choice.choice(MOMENTS), "end": choice.choice(MOMENTS)}}, 200, [("Retry-After", choice.choice(WAITS))])
        return done("{}", 404)

    def payload(self, body):
        payload = json.loads(body)["payload"]
        return json.loads(base64.urlsafe_b64decode(payload + "=="))

    def order(self, number, behaviour, choice, odd):
        status = "valid" if self.orders[number]["chain"] else "ready"
        authorizations = [odd(f"authorization/{number}")]
        if behaviour == "odd orders":
            status = choice.choice(["pending", "processing", "invalid", "odd", "", None, 1, "valid"])
            authorizations = choice.choice([[], authorizations * 5, authorizations * 10_000, [None], [""], None, authorizations])
        if behaviour == "orders never ready":
            status = choice.choice(["pending", "processing"])
        order = {"status": status, "authorizations": authorizations, "finalize": odd(f"finalize/{number}")}
        if self.orders[number]["replaces"]:
            order["replaces"] = self.orders[number]["replaces"] if behaviour != "odd orders" else "another"
        if self.orders[number]["chain"]:
            order["certificate"] = odd(f"certificate/{number}")
        return order


# Behaviours in which no order is begun.
REFUSING = {"nonces refused", "redirects", "refused with waits", "accounts unknown", "odd problems"}


def changed(authority, behaviour, target, status, fields, text, choice):
    """What becomes of an honest response."""
    problem = lambda kind, status, more=None: (status, json.dumps({"type": f"urn:ietf:params:acme:error:{kind}", "status": status, "detail": "no"} | (more or {})))
    is_free = any(target.startswith(path) for path in ("/dir", "/nonce", "/ask"))
    wait = [("Retry-After", choice.choice(WAITS))]
    match behaviour:
        case "waits on everything" | "orders never ready":
            fields = fields + wait
        case "nonces refused" if not is_free:
            status, text = problem("badNonce", 400)
        case "odd nonces":
            fields = [field for field in fields if field[0] != "Replay-Nonce"]
            fields += choice.choice([[], [("Replay-Nonce", "")], [("Replay-Nonce", "\u00e9 \"")], [("Replay-Nonce", "n" * 30_000)], [("Replay-Nonce", "a"), ("Replay-Nonce", "b")]])
        case "redirects":
            to = choice.choice([target, "/dir", "http://127.0.0.1:1/", "//", "", authority.url("x" * 4000)])
            status, fields, text = choice.choice([300, 301, 302, 303, 307, 308]), fields + [("Location", to)] + wait, ""
        case "refused with waits":
            status, text = problem(*choice.choice([("rateLimited", 429), ("serverInternal", 500), ("serverInternal", 503), ("x" * 3000, 503)]))
            fields = fields + wait
        case "accounts unknown" if not is_free and not target.startswith("/account"):
            status, text = problem("accountDoesNotExist", 400)
        case "odd problems" if not is_free:
            status, text = problem(choice.choice(["unauthorized", "rejectedIdentifier", "connection", ""]), choice.choice([400, 403, 404, 409, 499, 599]), {
                "detail": choice.choice(["\r\n\x1b[31mforged\x00" * 50, "d" * 900_000, None, 7]), "status": choice.choice([0, -1, 65_536, 2**64, "400", None, 400]),
                "subproblems": choice.choice([[], [{"detail": "s"}] * 20_000, None, [None], {}])})
            fields = fields + wait
        case "wrong bodies":
            text = choice.choice(["", "null", "[]", "7", "\"text\"", "{", "<html>", "[" * 200_000, "{\"a\":" * 100_000, "\u0000", "{}", text[:len(text) // 2], text * 2, "9" * 500_000])
        case "wrong content types":
            fields = [("Replay-Nonce", fields[0][1]), ("Content-Type", choice.choice(["text/html", "", "application/pem-certificate-chain; x", "\u00e9", "a" * 9000]))]
            fields += choice.choice([[], [("Content-Encoding", "gzip")], [("Transfer-Encoding", "chunked")], [("Content-Length", "3")], [("Content-Range", "bytes 0-1/2")]])
        case "odd statuses":
            status = choice.choice([100, 199, 202, 204, 205, 206, 299, 304, 418, 599, 600, 999, 0, -1, 1000, "abc", 2000000000])
    return status, fields, text


def send_forever(authority, connection, first, part, pause_s=0.0, bytes_max=64 << 20):
    connection.sendall(first)
    sent, until = 0, time.monotonic() + 35
    while sent < bytes_max and time.monotonic() < until and not authority.over:
        connection.sendall(part)
        sent += len(part)
        if pause_s:
            time.sleep(pause_s)


def reset(authority, connection, choice):
    if choice.random() < 0.5:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


OK = b"HTTP/1.1 200 OK\r\nReplay-Nonce: n\r\nContent-Type: application/json\r\n"
RAW = {
    "no answer": lambda authority, connection, choice: authority.hold(connection),
    "a byte now and then": lambda authority, connection, choice: send_forever(authority, connection, OK + b"\r\n{", b" ", 0.3),
    "heads a byte now and then": lambda authority, connection, choice: send_forever(authority, connection, OK + b"X-Slow: ", b"x", 0.3),
    "endless heads": lambda authority, connection, choice: send_forever(authority, connection, OK, b"X-Field: value\r\n" * 64),
    "endless interim responses": lambda authority, connection, choice: send_forever(authority, connection, b"", b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 64),
    "endless bodies": lambda authority, connection, choice: send_forever(authority, connection, OK + choice.choice(
        [b"Transfer-Encoding: chunked\r\n\r\n", b"\r\n", b"Content-Length: 9223372036854775807\r\n\r\n", b"Content-Length: 18446744073709551615\r\n\r\n"]),
        choice.choice([b"400\r\n" + b" " * 1024 + b"\r\n", b"1\r\n \r\n" * 200])),
    "broken framing": lambda authority, connection, choice: connection.sendall(OK + choice.choice([
        b"Content-Length: 18446744073709551616\r\n\r\n{}", b"Content-Length: -1\r\n\r\n{}", b"Content-Length: 2, 3\r\n\r\n{}", b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n{}",
        b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n", b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}"])),
    "no HTTP": lambda authority, connection, choice: connection.sendall(choice.choice(
        [b"", b"\x00" * 5000, b"SSH-2.0-x\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"HTTP/1.0 200\r\n\r\n{}", b"HTTP/9.9 200 OK\r\n\r\n{}", b"<html>", choice.randbytes(20_000)])),
    "resets": reset,
}
BEHAVIOURS = ["honest", "waits on everything", "odd windows", "late certificates", "certificates that clients refuse", "chains of many", "odd URLs in orders",
              "odd URLs in the directory", "odd accounts", "odd challenges", "odd orders", "orders never ready", "nonces refused", "odd nonces", "redirects",
              "refused with waits", "accounts unknown", "odd problems", "wrong bodies", "wrong content types", "odd statuses", "no handshake"] + list(RAW)


class Origin(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Site:
    def __init__(self, arguments, folder):
        self.folder, self.authority = folder, Authority(folder, arguments.seed)
        self.web, self.plain, self.odd, self.admin = (free_port() for _ in range(4))
        origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        base = f"""
            admin.address = "127.0.0.1:{self.admin}"
            listener.plain.address = "127.0.0.1:{self.plain}"
            listener.plain.upstream = "app"
            upstream.app.servers = ["127.0.0.1:{origin.server_address[1]}"]
            listener.web.address = "127.0.0.1:{self.web}"
            listener.web.upstream = "app"
            [listener.web.tls.acme]
            hosts = {json.dumps(LONG + SHORT)}
            on_demand = ["*.demand.test"]
            on_demand_ask = "{self.authority.url('ask')}"
            ca = ["{self.authority.url('dir')}"]
            ca_root = "{self.authority.signer.root_path}"
            directory = "{self.path('acme')}"
            orders_max = {ORDERS_MAX}
            wait = "1s"
            """
        odd = lambda urls: f"""
            [listener.odd]
            address = "127.0.0.1:{self.odd}"
            upstream = "app"
            [listener.odd.tls.acme]
            hosts = ["odd.example.test"]
            ca = {json.dumps(urls)}
            ca_root = "{self.authority.signer.root_path}"
            directory = "{self.path('odd')}"
            """
        # Which odd URLs a config may name at all: those that it may are asked, one after the other.
        accepts = lambda urls: subprocess.run([arguments.weir, "check", self.write("weir.toml", base + odd(urls))], capture_output=True).returncode
        codes = [accepts([url]) for url in ODD_URLS]
        self.crashed_checks = sum(code not in (0, 2) for code in codes)
        self.accepted = [url for url, code in zip(ODD_URLS, codes) if code == 0]
        config = self.write("weir.toml", base + (odd(self.accepted) if self.accepted else ""))
        with open(self.path("weir.log"), "w") as log:
            self.weir = subprocess.Popen([arguments.weir, "serve", config], stdout=log, stderr=subprocess.STDOUT)
        until = time.monotonic() + 60
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.web), 1).close()
            except OSError:
                if time.monotonic() > until:
                    sys.exit(f"Weir does not listen: see {folder}")
                time.sleep(0.1)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if not line.startswith("#")}

    def memory_kib(self):
        with open(f"/proc/{self.weir.pid}/status") as status:
            return int(re.search(r"RssAnon:\s+(\d+)", status.read())[1])

    def count(self, text):
        with open(self.path("weir.log"), errors="replace") as file:
            return sum(text in line for line in file)

    def longest_line(self):
        with open(self.path("weir.log"), "rb") as file:
            return max(map(len, file))


class Clients:
    """Handshakes, each verified. A host that was once shown with a good certificate must be until that ends, or the next one does."""

    def __init__(self, site):
        self.site, self.lock, self.over = site, threading.Lock(), False
        self.done, self.unready, self.bad, self.good_until, self.demanded = 0, 0, collections.Counter(), {}, 0
        self.context = ssl.create_default_context(cafile=site.authority.signer.root_path)
        self.context.options |= ssl.OP_NO_TICKET

    def shake(self, host):
        try:
            with socket.create_connection(("127.0.0.1", self.site.web), 20) as tcp:
                with self.context.wrap_socket(tcp, server_hostname=host) as tls:
                    ends = ssl.cert_time_to_seconds(tls.getpeercert()["notAfter"])
                    tls.sendall(f"GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
                    text = b""
                    while part := tls.recv(4096):
                        text += part
            if not text.endswith(b"hello"):
                raise ValueError(f"response {text[:80]!r}")
            with self.lock:
                self.done += 1
                self.good_until[host] = max(ends, self.good_until.get(host, 0))
        except Exception as error:
            with self.lock:
                if time.time() < self.good_until.get(host, 0) - 2:
                    self.bad[f"{host}: {type(error).__name__}: {error}"] += 1
                else:
                    self.unready += 1

    def of_config(self, seed):
        choice = random.Random(seed)
        while not self.over:
            ready = [host for host in list(self.good_until) if self.good_until[host] > time.time()]
            self.shake(choice.choice(ready) if ready and choice.random() < 0.9 else choice.choice(LONG + SHORT))
            time.sleep(0.01)

    def on_demand(self):
        while not self.over:
            self.demanded += 1
            self.shake(f"d{self.demanded}.demand.test")
            time.sleep(0.5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", required=True)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="weir-hostile-acme-")
    site = Site(arguments, folder)
    clients, authority = Clients(site), site.authority
    runs = [(clients.of_config, (1,)), (clients.of_config, (2,)), (clients.on_demand, ())]
    threads = [threading.Thread(target=run, args=given, daemon=True) for run, given in runs]
    for thread in threads:
        thread.start()
    began, choice, samples = time.monotonic(), random.Random(arguments.seed), []
    left = []
    with open(os.path.join(arguments.out, "samples.csv"), "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["seconds", "behaviour", "requests", "orders", "handshakes", "failed_with_a_good_certificate", "anonymous_memory_kib", "panics", "task_restarts"])
        while time.monotonic() - began < arguments.minutes * 60:
            if not left:
                left = choice.sample(BEHAVIOURS, len(BEHAVIOURS))
            # Honest at first, so that there is something to lose.
            authority.behaviour = "honest" if time.monotonic() - began < 2 * PHASE_S else left.pop()
            time.sleep(PHASE_S)
            now_is, memory = site.metrics(), site.memory_kib()
            samples.append((time.monotonic() - began, memory))
            rows.writerow([round(time.monotonic() - began), authority.behaviour, authority.requests, len(authority.orders), clients.done,
                           sum(clients.bad.values()), memory, int(now_is["weir_process_panics_total"]), int(now_is["weir_process_task_restarts_total"])])
            file.flush()
    last = site.metrics()
    states = {key: int(value) for key, value in last.items() if key.startswith("weir_acme_hosts")}
    clients.over = authority.over = True
    for thread in threads:
        thread.join(30)
    stopped_at = time.monotonic()
    site.weir.send_signal(signal.SIGTERM)
    code = site.weir.wait(60)
    stop_s = time.monotonic() - stopped_at
    report(arguments, site, clients, samples, last, states, (code, stop_s))
    print(f"logs: {folder}")


def report(arguments, site, clients, samples, last, states, end):
    authority, third = site.authority, len(samples) // 3
    of_host = collections.defaultdict(list)
    for order in authority.orders:
        of_host[order["host"]].append(order["at"])
    with open(os.path.join(arguments.out, "orders.csv"), "w", newline="") as file:
        rows, began = csv.writer(file), authority.orders[0]["at"]
        rows.writerow(["seconds", "host", "behaviour", "issued", "good"])
        rows.writerows([round(order["at"] - began, 2), order["host"], order["behaviour"], bool(order["chain"]), order["good"]] for order in authority.orders)
    gaps = [later - earlier for times in of_host.values() for earlier, later in zip(times, times[1:])]
    # Without a certificate in between, pauses of 2 s, 4 s ... less a quarter let nine orders be in ten minutes.
    excess = {host: len(times) for host, times in of_host.items() if len(times) > 9 * (1 + authority.issued_good[host])}
    demand = [host for host in of_host if host.endswith(".demand.test")]
    median = lambda part: sorted(memory for _, memory in part)[len(part) // 2] // 1024
    escaped = [path for path in ("/tmp/weir-acme-escaped", site.path("weir-acme-escaped")) if os.path.exists(path)]
    lines = {
        "minutes": round(samples[-1][0] / 60, 1), "behaviours, each several times": len(BEHAVIOURS), "requests to the authority": authority.requests,
        "most requests in a second": authority.most_per_second, "handshakes, verified": clients.done, "failed handshakes of hosts with a good certificate": sum(clients.bad.values()),
        "handshakes of hosts without one, failed": clients.unready, "panics": int(last["weir_process_panics_total"]),
        "tasks begun anew": int(last["weir_process_task_restarts_total"]), "lines with `panic` in the log": site.count("panic"),
        "orders at the authority": f"{len(authority.orders)} of {ORDERS_MAX} at most", "hosts that were ordered": len(of_host),
        "of them on demand": len(demand), "most orders of a host": max(map(len, of_host.values())), "hosts with more orders than the pauses permit": len(excess),
        "least seconds between orders of a host": round(min(gaps), 1) if gaps else None,
        "anonymous memory, MiB: median of the first, second and last third": ", ".join(str(median(samples[at:at + third])) for at in (0, third, 2 * third)),
        "odd URLs of directories that a config may name": f"{len(site.accepted)} of {len(ODD_URLS)}", "checks of such configs that crashed": site.crashed_checks,
        "accounts made": site.count("an account was made"), "longest line of the log, bytes": site.longest_line(),
        "files outside the folder": len(escaped), "exit code, seconds of the stop": f"{end[0]}, {end[1]:.1f}",
        "hosts by state at the end": ", ".join(f"{re.search('state=.([a-z-]+)', key)[1]} {count}" for key, count in sorted(states.items())),
        "weir": subprocess.run([arguments.weir, "--version"], capture_output=True, text=True).stdout.strip(),
    }
    with open(os.path.join(arguments.out, "summary.md"), "w") as file:
        file.write("| what | value |\n|---|---|\n")
        for what, value in lines.items():
            file.write(f"| {what} | {value} |\n")
        file.write("\n| behaviour | requests |\n|---|---:|\n")
        for behaviour, count in sorted(authority.by_behaviour.items()):
            file.write(f"| {behaviour} | {count} |\n")
        for failure, count in clients.bad.most_common(20):
            file.write(f"\nfailed handshake, {count} times: `{failure}`\n")
    print(open(file.name).read())


main()
