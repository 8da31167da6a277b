#!/usr/bin/env python3
"""The server under test of connectconformance: Weir in front of referenceserver. server.py WEIR REFERENCESERVER UPSTREAM

UPSTREAM is what Weir speaks to the server: `same` as the client, `http1`, `h2c`, `web` (h2c, with gRPC-Web translated), or `tls` for the same version over TLS where the client uses TLS.
Reads ServerCompatRequest from standard input and writes ServerCompatResponse to standard output, each with its length in front.
"""
import os, signal, socket, struct, subprocess, sys, tempfile, time

weir, reference, upstream = sys.argv[1:4]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """Number and value of every field of a message."""
    at, found = 0, {}
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        found[key >> 3] = value
    return found


def put(number, value):
    def number_bytes(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    if isinstance(value, int):
        return number_bytes(number << 3) + number_bytes(value)
    return number_bytes(number << 3 | 2) + number_bytes(len(value)) + value


def delimited(stream):
    return stream.read(struct.unpack(">I", stream.read(4))[0])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


request = fields(delimited(sys.stdin.buffer))
version, use_tls = request.get(2, 1), request.get(4, 0)
inner = version if upstream in ("same", "tls") else {"http1": 1, "h2c": 2, "web": 2}[upstream]
message = put(1, request.get(1, 0)) + put(2, inner) + put(6, request.get(6, 0))
inner_tls = upstream == "tls" and use_tls
if inner_tls:
    message += put(4, 1) + put(7, request[7])
server = subprocess.Popen([reference], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(struct.pack(">I", len(message)) + message)
server.stdin.flush()
answer = fields(delimited(server.stdout))
folder = tempfile.mkdtemp()
port = free_port()
config = f"""
[process]
workers = 1
[log]
level = "warn"
[listener.front]
address = "127.0.0.1:{port}"
upstream = "reference"
{'route = [{ path = "/", upstream = "reference", grpc_web = true }]' if upstream == "web" else ''}
http2.prior_knowledge = "{'allowed' if version == 2 and not use_tls else 'off'}"
{'http2.enabled = false' if version == 1 else ''}
"""
if use_tls:
    credentials = fields(request[7])
    for name, number in (("certificate", 1), ("key", 2)):
        with open(f"{folder}/{name}.pem", "wb") as file:
            file.write(credentials[number])
    config += f'tls.certificates = [{{ certificate = "{folder}/certificate.pem", key = "{folder}/key.pem" }}]\n'
    if request.get(5):
        with open(f"{folder}/client.pem", "wb") as file:
            file.write(request[5])
        config += f'tls.client_certificates.ca = "{folder}/client.pem"\n'
protocol = "http1" if inner == 1 else "h2" if inner_tls else "h2c"
config += f'[upstream.reference]\nservers = ["127.0.0.1:{answer[2]}"]\nprotocol = "{protocol}"\n'
if inner_tls:
    with open(f"{folder}/server.pem", "wb") as file:
        file.write(answer[3])
    config += f'tls = {{ ca = "{folder}/server.pem", server_name = "localhost" }}\n'
with open(f"{folder}/weir.toml", "w") as file:
    file.write(config)
proxy = subprocess.Popen([weir, "serve", f"{folder}/weir.toml"], stdout=sys.stderr)


def stop(*_):
    proxy.kill()
    server.terminate()
    subprocess.run(["rm", "-rf", folder])
    os._exit(0)


signal.signal(signal.SIGTERM, stop)
for _ in range(500):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
        break
    except OSError:
        time.sleep(0.01)
message = put(1, b"127.0.0.1") + put(2, port) + (put(3, credentials[1]) if use_tls else b"")
sys.stdout.buffer.write(struct.pack(">I", len(message)) + message)
sys.stdout.flush()
proxy.wait()
print("Weir has ended", proxy.returncode, file=sys.stderr)
stop()
