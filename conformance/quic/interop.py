"""The cases of the QUIC interop runner, by their names, with aioquic as the client and a proxy as the network."""

import socket
import time

from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

import client as h3
from client import Client
from proxy import Network

CASES = []


class NotSupported(Exception):
    """Weir does not offer it, and says so as it should."""


def case(function):
    CASES.append((function.__name__.replace("_", "-"), function))
    return function


def whole(client, path, size, seconds=60):
    response = client.fetch(path, seconds)
    assert response.status() == 200, f"{path}: status {response.status()}, end {client.end}, reset {response.reset}"
    body = response.body()
    assert len(body) == size, f"{path}: {len(body)} of {size} bytes, end {client.end}"
    assert body == bytes(at * 7 % 251 for at in range(1024)) * (size // 1024), "the body differs"
    return response


def through(rig, network, **config):
    return Client(network.address, local="::1" if ":" in network.address[0] else "127.0.0.1", **config)


@case
def handshake(rig):
    client = rig.client().connect_http3()
    whole(client, "/files/1k", 1 << 10)
    client.close()


@case
def transfer(rig):
    client = rig.client(max_data=200_000, max_stream_data=100_000).connect_http3()
    ids = [client.request(f"/files/{name}") for name in ("1m", "3m", "100k")]
    sizes = [len(client.wait(id, 60).body()) for id in ids]
    assert sizes == [1 << 20, 3 << 20, 100 << 10], sizes
    return f"{sum(sizes) >> 20} MiB with small windows"


@case
def multiplexing(rig):
    client = rig.client().connect_http3()
    ids, done = [], 0
    while done < 2000:
        while len(ids) < 100 and done + len(ids) < 2000:
            ids.append(client.request("/files/1k"))
        for id in ids:
            assert client.wait(id).status() == 200
        done, ids = done + len(ids), []
    return f"{done} streams on one connection"


@case
def longrtt(rig):
    network = Network(rig.to, delay=0.75)
    client = through(rig, network, initial_rtt=1.5).connect_http3(20)
    whole(client, "/files/1k", 1 << 10)
    network.stop()
    return "1.5 s"


@case
def chacha20(rig):
    client = rig.client(cipher_suites=[CipherSuite.CHACHA20_POLY1305_SHA256]).connect_http3()
    whole(client, "/files/1m", 1 << 20)
    assert client.quic.tls.key_schedule.cipher_suite == CipherSuite.CHACHA20_POLY1305_SHA256


@case
def keyupdate(rig):
    client = rig.client().connect_http3()
    for _ in range(3):
        whole(client, "/files/100k", 100 << 10)
        before = client.quic._cryptos[h3.Epoch.ONE_RTT].key_phase
        client.quic.request_key_update()
        whole(client, "/files/100k", 100 << 10)
        crypto = client.quic._cryptos[h3.Epoch.ONE_RTT]
        assert crypto.key_phase != before and crypto.recv.key_phase == crypto.key_phase, "the server keeps its keys"
    return "three times"


@case
def retry(rig):
    # On a listener that limits connections of a client, every address is proven first.
    with rig.other(listener="connections_per_client_max = 100") as other:
        client = other.client().connect_http3()
        assert client.quic._retry_source_connection_id is not None, "no Retry"
        whole(client, "/files/1k", 1 << 10)


@case
def resumption(rig):
    client = rig.client().connect_http3()
    client.until(lambda: client.ticket is not None, 3)
    assert client.ticket, "no ticket"
    client.close()
    again = rig.client(session_ticket=client.ticket).connect_http3()
    assert again.resumed, "not resumed"
    whole(again, "/files/1k", 1 << 10)
    token = rig.client(session_ticket=client.ticket, token=client.token or b"").connect_http3()
    assert client.token, "no token of NEW_TOKEN"
    whole(token, "/files/1k", 1 << 10)


@case
def zerortt(rig):
    client = rig.client().connect_http3()
    client.until(lambda: client.ticket is not None, 3)
    client.close()
    if not client.ticket.max_early_data_size:
        # Tickets do not allow it, and a client that tries all the same is served behind the handshake.
        raise NotSupported("tickets allow no early data")
    again = rig.client(session_ticket=client.ticket)
    again.uni(h3.varint(h3.CONTROL) + h3.frame(h3.SETTINGS))
    again.start()
    id = again.request("/files/1k")
    response = again.wait(id)
    assert response.status() == 200 and again.early, (response.status(), again.early)


@case
def http3(rig):
    client = rig.client().connect_http3()
    ids = [client.request(path) for path in ("/files/1k", "/files/100k", "/hello", "/proxied")]
    assert [client.wait(id).status() for id in ids] == [200] * 4
    response = client.wait(client.request("/p", "POST", b"x" * 100_000), 20)
    assert response.body() == b"100000", response.body()
    response = client.fetch("/files/nothing")
    assert response.status() == 404


@case
def blackhole(rig):
    network = Network(rig.to, delay=0.015)
    client = through(rig, network).connect_http3()
    id = client.request("/files/3m")
    client.until(lambda: len(client.streams[id].raw) > 500_000, 10)
    network.dark = True
    client.until(lambda: False, 3)
    network.dark = False
    response = client.wait(id, 30)
    assert len(response.body()) == 3 << 20, f"{len(response.body())} bytes, {client.end}"
    network.stop()
    return "3 s of silence"


@case
def ecn(rig):
    client = rig.client()
    real, counts, marks = client.socket, [], []
    real.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)
    real.setsockopt(socket.IPPROTO_IP, 13, 1)  # IP_RECVTOS
    client.socket = MarkedSocket(real, marks)
    # aioquic drops the counts of an ACK: they are read on their way.
    heard = client.quic._handle_ack_frame

    def hear(context, frame_type, buf):
        counts.append(frame_type == 3)
        return heard(context, frame_type, buf)
    for table in [value for value in vars(client.quic).values() if isinstance(value, dict) and 0x1E in value]:
        table.update({kind: (hear, *table[kind][1:]) for kind in (2, 3)})
    client.connect_http3()
    whole(client, "/files/1m", 1 << 20)
    assert any(counts), "no counts in acknowledgements"
    # It marks until it sees that aioquic reports nothing (RFC 9000 section 13.4.2.1).
    assert 2 in marks, f"the server does not mark its packets: {set(marks)}"
    return f"{sum(counts)} of {len(counts)} acknowledgements with counts, {marks.count(2)} packets marked"


class MarkedSocket:
    """Reads the marks of what is received (ECN)."""

    def __init__(self, real, marks):
        self.real, self.marks = real, marks

    def __getattr__(self, name):
        return getattr(self.real, name)

    def recvfrom(self, size):
        data, ancillary, _, sender = self.real.recvmsg(size, 64)
        self.marks += [value[0] & 3 for level, kind, value in ancillary if kind == socket.IP_TOS]
        return data, sender


@case
def amplificationlimit(rig):
    # The first three datagrams of the client behind the first one are lost, so that the server has to stop.
    client = rig.client(drop=lambda sent, number: sent and 2 <= number <= 4)
    client.start()
    client.until(lambda: client.counts[True] >= 2, 1)
    before = client.received_bytes
    assert before <= 3 * 1200, f"{before} bytes for 1200"
    client.until(lambda: client.connected, 15)
    assert client.connected, "the handshake is not done"
    return f"{before} bytes for the first 1200"


def lossy(rig, count, path, size, **network):
    failed, took = [], time.monotonic()
    for number in range(count):
        net = Network(rig.to, delay=0.015, seed=number + 1, **network)
        client = through(rig, net)
        try:
            client.connect_http3(25)
            whole(client, path, size, 90)
        except (AssertionError, ConnectionError) as error:
            failed.append(f"{number}: {error}")
        client.socket.close()
        net.stop()
    assert not failed, f"{len(failed)} of {count}: {failed[:3]}"
    return f"{count} connections, {time.monotonic() - took:.0f} s"


@case
def handshakeloss(rig):
    return lossy(rig, 20, "/files/1k", 1 << 10, loss=0.3)


@case
def transferloss(rig):
    return lossy(rig, 2, "/files/1m", 1 << 20, loss=0.02)


@case
def handshakecorruption(rig):
    return lossy(rig, 20, "/files/1k", 1 << 10, corruption=0.3)


@case
def transfercorruption(rig):
    return lossy(rig, 2, "/files/1m", 1 << 20, corruption=0.02)


@case
def ipv6(rig):
    client = Client(("::1", rig.port)).connect_http3()
    whole(client, "/files/100k", 100 << 10)


@case
def v2(rig):
    client = rig.client(supported_versions=[QuicProtocolVersion.VERSION_2])
    client.start()
    client.until(lambda: client.end is not None, 5)
    assert client.end is not None and not client.connected, "neither a connection nor an answer"
    # And one that knows both ends with version 1.
    both = rig.client(supported_versions=[QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1],
                      original_version=QuicProtocolVersion.VERSION_2).connect_http3()
    whole(both, "/files/1k", 1 << 10)
    raise NotSupported(f"answered by version negotiation ({client.end.reason_phrase}); clients of both versions go on with 1")


@case
def versionnegotiation(rig):
    client = rig.client(supported_versions=[0x1A2A3A4A, QuicProtocolVersion.VERSION_1],
                        original_version=0x1A2A3A4A)
    client.connect_http3()
    whole(client, "/files/1k", 1 << 10)


def moving(rig, host):
    network = Network(rig.to, delay=0.01)
    client = through(rig, network).connect_http3()
    id = client.request("/files/10m")
    moves = pinged = 0
    response = client.streams[id]
    end = time.monotonic() + 60
    size = 0
    while not (response.ended or client.end) and time.monotonic() < end:
        if len(response.raw) - size > 1_500_000:
            size, moves = len(response.raw), moves + 1
            network.rebind(host and f"127.0.0.{20 + moves}")
        if time.monotonic() > pinged + 0.2:
            # A client that only receives does not notice the move: what it sends tells the server.
            client.quic.send_ping(1)
            pinged = time.monotonic()
        client.pump(0.02)
    assert response.ended and len(response.body()) == 10 << 20, f"{len(response.body())} bytes, {client.end}"
    network.stop()
    return f"{moves} moves during 10 MiB"


@case
def rebind_port(rig):
    return moving(rig, None)


@case
def rebind_addr(rig):
    return moving(rig, True)


@case
def connectionmigration(rig):
    client = rig.client(local="127.0.0.31").connect_http3()
    id = client.request("/files/10m")
    response, moves, size = client.streams[id], 0, 0
    end = time.monotonic() + 60
    before = client.quic._peer_cid.cid
    while not (response.ended or client.end) and time.monotonic() < end:
        if len(response.raw) - size > 3_000_000:
            size, moves = len(response.raw), moves + 1
            # With another connection ID on each path, as RFC 9000 section 9.5 wants it.
            client.quic.change_connection_id()
            client.rebind(f"127.0.0.{31 + moves}")
        client.pump(0.05)
    assert response.ended and len(response.body()) == 10 << 20, f"{len(response.body())} bytes, {client.end}"
    assert client.quic._peer_cid.cid != before
    return f"{moves} moves, each with another connection ID"


@case
def goodput(rig):
    network = Network(rig.to, delay=0.015, rate=1_250_000)
    client = through(rig, network).connect_http3()
    began = time.monotonic()
    whole(client, "/files/3m", 3 << 20, 60)
    share = (3 << 20) / (time.monotonic() - began) / 1_250_000
    network.stop()
    assert share > 0.6, f"{share:.2f} of the line"
    return f"{100 * share:.0f} % of 10 Mbit/s"


@case
def crosstraffic(rig):
    network = Network(rig.to, delay=0.015, rate=1_250_000)
    one, other = (through(rig, network).connect_http3() for _ in range(2))
    began = time.monotonic()
    ids = one.request("/files/3m"), other.request("/files/3m")
    end = began + 60
    took = {}
    while len(took) < 2 and time.monotonic() < end:
        for client, id in ((one, ids[0]), (other, ids[1])):
            client.pump(0.005)
            if client.streams[id].ended:
                took.setdefault(client, time.monotonic() - began)
    network.stop()
    assert len(took) == 2, "not both are done"
    share = 2 * (3 << 20) / max(took.values()) / 1_250_000
    return f"two downloads, {100 * share:.0f} % of the line, {min(took.values()):.1f} and {max(took.values()):.1f} s"


def run(rig, names, show):
    for name, function in CASES:
        if names and name not in names:
            continue
        try:
            show(name, "passes", function(rig) or "")
        except NotSupported as error:
            show(name, "not supported", str(error))
        except Exception as error:
            show(name, "FAILS", f"{type(error).__name__}: {error}")
