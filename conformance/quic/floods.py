"""What an attacker would try: for each, whether a bound is reached, what Weir counts, and how another client fares meanwhile.

All traffic goes to the loopback device. Addresses that are not the attacker's own are other addresses of 127.0.0.0/8.
"""

import os
import socket
import time

from aioquic.buffer import Buffer
from aioquic.quic.connection import QuicConnection
from aioquic.quic.packet import encode_quic_version_negotiation, pull_quic_header

import client as h3
from client import (
    CONTROL, DATA, DECODER, ENCODER, GOAWAY, HEADERS, MAX_PUSH_ID, PRIORITY_UPDATE, SETTINGS, Client, frame, get,
    head, prefixed, section, varint,
)
from rig import Bystander, Rig

FLOODS = []

# Ended with an error of RFC 9000.
CLOSED = "quic-violation"


def flood(about, ends=None, config=None, seconds=6):
    """`ends` is the reason for which Weir ends the connection, or `None` where it need not."""

    def add(function):
        FLOODS.append((function.__name__.replace("_", "-"), function, about, ends, config or {}, seconds))
        return function

    return add


def many(client, count, one, batch=20, seconds=20):
    """Does something many times, as fast as the client can, until the connection ends."""
    end = time.monotonic() + seconds
    for number in range(count):
        if client.end or time.monotonic() > end:
            return number
        try:
            one(number)
        except RuntimeError:
            # Weir has stopped the stream.
            client.rest(0.5)
            return number
        if number % batch == batch - 1:
            client.pump(0)
    client.rest(1)
    return count


def raw(client, count, frames, per_packet=1, seconds=20):
    """Sends packets of any frames."""
    return many(client, count, lambda number: client.send_frames(b"".join(
        frames(number * per_packet + at) for at in range(per_packet))), batch=16, seconds=seconds)


def packets(client, frames, per_packet=40, count=8000):
    return f"{raw(client, count, frames, per_packet)} packets of {per_packet}"


# Requests that cost more than they bring


@flood("requests that are reset at once (CVE-2023-44487)", "http3-too-many-resets")
def rapid_reset(rig, client):
    def one(_):
        id = client.bidi(get("/slow"), False)
        client.flush()
        client.quic.reset_stream(id, 0x10C)
    count = many(client, 3000, one)
    return f"{count} sent, {rig.origin.requests} at the server"


@flood("responses that are stopped at once", "http3-too-many-resets")
def rapid_stop(rig, client):
    def one(_):
        id = client.bidi(get("/slow"), True)
        client.flush()
        client.quic.stop_stream(id, 0x10C)
    count = many(client, 3000, one)
    return f"{count} sent, {rig.origin.requests} at the server"


@flood("malformed requests, which Weir has to reset (CVE-2025-8671)", "http3-too-many-faults")
def made_you_reset_by_heads(rig, client):
    bad = frame(HEADERS, section(head("/slow", connection="close")))
    return f"{many(client, 3000, lambda _: client.bidi(bad, True))} sent, {rig.origin.requests} at the server"


@flood("requests whose body is longer than announced", "http3-too-many-faults")
def made_you_reset_by_bodies(rig, client):
    start = frame(HEADERS, section(head("/slow", "POST", content_length="1")))

    def one(_):
        id = client.bidi(start, False)
        client.flush()
        client.stream(id, frame(DATA, b"ab"), True)
    count = many(client, 3000, one)
    return f"{count} sent, {rig.origin.requests} at the server"


@flood("streams that end without a request", "http3-too-many-faults")
def empty_requests(rig, client):
    return f"{many(client, 5000, lambda _: client.bidi(b'', True))} sent"


@flood("request streams with nothing on them, kept open", "request-head-timeout", {"listener": 'timeouts.request = "2s"'})
def silent_streams(rig, client):
    for _ in range(128):
        client.bidi(b"\x01", False)
    client.rest(5)
    return f"ended after {128} streams"


@flood("windows of 0 and large responses, with a PING now and then", "relay-client-timeout",
       {"listener": 'timeouts.send = { credit = "2s", rate_min = "500B/s" }'})
def zero_window(rig, client):
    return hold(rig, client, "/files/10m", 100)


@flood("windows of 0 and responses that fit into buffers, with a PING now and then", "relay-client-timeout",
       {"listener": 'timeouts.send = { credit = "2s", rate_min = "500B/s" }\ntimeouts.idle = "2s"'})
def zero_window_short(rig, client):
    return hold(rig, client, "/hello", 100)


for function in (zero_window, zero_window_short):
    function.prepare = dict(max_stream_data=0)


def hold(rig, client, path, count, seconds=9):
    for _ in range(count):
        client.bidi(get(path), True)
    began = time.monotonic()
    while time.monotonic() < began + seconds and not client.end:
        for _ in range(4):
            client.quic.send_ping(1)
            client.pump(0.01)
        client.pump(0.05)
    open_now = rig.metrics()['weir_listener_http3_connections_open{listener="web"}']
    held = "held" if not client.end else f"ended after {time.monotonic() - began:.1f} s"
    resets = sum(1 for stream in client.streams.values() if stream.reset is not None)
    # The bystander has one or two.
    return f"connection {held}, {resets} streams reset"


# Streams and frames


@flood("streams of unknown types", "http3-stream-flood")
def unknown_streams(rig, client):
    return f"{many(client, 5000, lambda _: client.uni(varint(0x21 + 0x1F * 5) + b'x', True), 4)} sent"


@flood("unidirectional streams that end before their type", "http3-stream-flood")
def typeless_streams(rig, client):
    return f"{many(client, 6000, lambda _: client.uni(b'', True), 4)} sent"


def control(client, payload, count=5000):
    id = 2
    return f"{many(client, count, lambda _: client.stream(id, payload))} sent"


@flood("PRIORITY_UPDATE", "http3-priority-flood")
def priorities(rig, client):
    return control(client, frame(PRIORITY_UPDATE, varint(0) + b"u=1"))


@flood("MAX_PUSH_ID", "http3-control-flood")
def push_ids(rig, client):
    return control(client, frame(MAX_PUSH_ID, varint(9)))


@flood("GOAWAY", "http3-control-flood")
def goaways(rig, client):
    return control(client, frame(GOAWAY, varint(0)))


@flood("frames of unknown types on the control stream", "http3-unknown-frame-flood")
def unknown_frames(rig, client):
    return control(client, frame(0x21))


@flood("frames of unknown types in a request", "http3-unknown-frame-flood")
def unknown_frames_in_request(rig, client):
    id = client.bidi(b"", False)
    return f"{many(client, 5000, lambda _: client.stream(id, frame(0x21)))} sent"


@flood("DATA without data", "http3-empty-data-flood")
def empty_data(rig, client):
    id = client.bidi(frame(HEADERS, section(head("/p", "POST"))), False)
    return f"{many(client, 5000, lambda _: client.stream(id, frame(DATA)))} sent"


# QPACK


@flood("insertions into the dynamic table", "http3-encoder-flood")
def insertions(rig, client):
    client.uni(varint(ENCODER) + b"\x3f\xe1\x1f")
    count = many(client, 9000, lambda _: client.stream(6, bytes([0x41]) + b'a' + bytes([1]) + b'b'))
    return f"{count} sent"


@flood("a large entry of the table, referred to again and again", None)
def qpack_bomb(rig, client):
    client.uni(varint(ENCODER) + b"\x3f\xe1\x1f" + bytes([0x41]) + b"a" + prefixed(0, 7, 3000) + b"v" * 3000)
    client.rest(0.3)
    lines = section(head())[2:]
    statuses = set()
    for _ in range(20):
        id = client.bidi(frame(HEADERS, b"\x02\x00" + lines + b"\x80" * 20000), True)
        statuses.add(client.wait(id, 3).status())
    return f"answered {statuses}"


@flood("more heads that wait for the table than are allowed", "http3-too-many-blocked")
def blocked_streams(rig, client):
    for _ in range(17):
        client.bidi(frame(HEADERS, b"\x02\x00" + section(head())[2:] + b"\x80"), True)
    client.rest(2)
    return f"17 sent"


@flood("long heads that wait for the table", "http3-blocked-too-large")
def blocked_bytes(rig, client):
    for _ in range(16):
        client.bidi(frame(HEADERS, b"\x02\x00" + section(head(x="y" * 15000))[2:] + b"\x80"), True)
        client.rest(0.1)
    client.rest(1)
    return f"16 heads of 15 KB"


@flood("cancellations of streams on the decoder stream", "http3-control-flood")
def decoder_stream(rig, client):
    client.uni(varint(DECODER))
    return f"{many(client, 3000, lambda number: client.stream(6, prefixed(0x40, 6, 4 * number) * 50))} sent"


# QUIC, within a connection


@flood("PING", "quic-frame-flood")
def pings(rig, client):
    return packets(client, lambda _: b'\x01')


@flood("MAX_DATA", "quic-frame-flood")
def max_data(rig, client):
    return packets(client, lambda n: b'\x10' + varint(1 << 30))


@flood("MAX_STREAM_DATA", "quic-frame-flood")
def max_stream_data(rig, client):
    client.bidi(get("/slow"), True)
    client.pump(0.1)
    return packets(client, lambda n: b'\x11' + varint(0) + varint(1 << 30))


@flood("MAX_STREAMS", "quic-frame-flood")
def max_streams(rig, client):
    return packets(client, lambda n: b'\x13' + varint(100))


@flood("DATA_BLOCKED and STREAMS_BLOCKED", "quic-frame-flood")
def blocked_frames(rig, client):
    return packets(client, lambda n: b'\x14' + varint(1) + b'\x16' + varint(1))


@flood("STOP_SENDING for one stream", "quic-frame-flood")
def stop_sending(rig, client):
    client.bidi(get("/slow"), True)
    client.pump(0.1)
    return packets(client, lambda n: b'\x05' + varint(0) + varint(0x10c))


@flood("STREAM without data", "quic-too-many-pieces")
def empty_stream_frames(rig, client):
    client.bidi(b"\x01", False)
    client.pump(0.1)
    return packets(client, lambda n: b'\x0e' + varint(0) + varint(1) + varint(0))


@flood("ACK of everything, again and again", "quic-ack-flood")
def acks(rig, client):
    # Of the first packets, each with a range of its own as far as that goes.
    ranges = varint(0) * 2
    return packets(client, lambda n: b'\x02' + varint(2) + varint(0) + varint(0) + varint(0))


@flood("ACK of packets that were never sent", CLOSED)
def optimistic_acks(rig, client):
    id = client.bidi(get("/files/10m"), True)
    client.pump(0.2)
    raw(client, 50, lambda n: b"\x02" + varint(100000 + n) + varint(0) + varint(0) + varint(5000))
    return f"{len(client.streams[id].raw)} bytes had come"


@flood("new connection IDs, each retiring those before it", CLOSED)
def new_connection_ids(rig, client):
    first = client.quic._host_cids[-1].sequence_number + 1

    def one(n):
        number = first + n
        return b"\x18" + varint(number) + varint(number) + b"\x08" + os.urandom(8) + os.urandom(16)
    return packets(client, one, 20)


@flood("connection IDs beyond the limit", CLOSED)
def too_many_connection_ids(rig, client):
    first = client.quic._host_cids[-1].sequence_number + 1
    one = lambda n: b"\x18" + varint(first + n) + varint(0) + b"\x08" + os.urandom(8) + os.urandom(16)
    return packets(client, one, 1, 50)


@flood("retired connection IDs, for each of which Weir gives another", None)
def retired_connection_ids(rig, client):
    client.pump(0.2)

    def one(n):
        return b"\x19" + varint(n + 1)
    # Those that exist, one a packet, as the new ones come.
    count = 0
    end = time.monotonic() + 6
    while not client.end and time.monotonic() < end:
        known = [cid.sequence_number for cid in client.quic._peer_cid_available]
        for number in known:
            client.send_frames(b"\x19" + varint(number))
            count += 1
        client.quic._peer_cid_available.clear()
        client.pump(0.002)
    return f"{count} retired"


@flood("PATH_CHALLENGE on the path in use", "quic-frame-flood")
def path_challenges(rig, client):
    before = client.received_bytes, client.sent_bytes
    count = raw(client, 8000, lambda n: b"\x1a" + os.urandom(8), 40)
    back, out = client.received_bytes - before[0], client.sent_bytes - before[1]
    return f"{count} packets of 40, {back / max(out, 1):.2f} times as many bytes back"


@flood("PATH_CHALLENGE with the address of another", None)
def path_challenges_elsewhere(rig, client):
    with victim() as (other, count):
        sent = 0
        for _ in range(1000):
            data = client.packet(b"\x1a" + os.urandom(8))
            other.sendto(data, client.to)
            sent += len(data)
            client.pump(0.002)
        back = count()
        assert back <= 3 * sent, f"{back} bytes for {sent}"
        return f"{sent} bytes in its name, {back} bytes to it ({back / sent:.1f} times)"


@flood("migration to the address of another during a download", None)
def migration_spoofing(rig, client):
    id = client.bidi(get("/files/10m"), True)
    client.until(lambda: len(client.streams[id].raw) > 300000, 5)
    with victim() as (other, count):
        data = client.packet(b"\x01")
        other.sendto(data, client.to)
        time.sleep(1.0)
        back = count()
        client.until(lambda: client.streams[id].ended or client.end, 15)
        whole = client.streams[id].ended
        return f"{len(data)} bytes in its name, {back} bytes to it; the download is {'whole' if whole else 'cut'}"


@flood("migration to the address of another and back, again and again", None)
def migration_again(rig, client):
    with victim() as (other, count):
        sent = 0
        for _ in range(100):
            data = client.packet(b"\x01")
            other.sendto(data, client.to)
            sent += len(data)
            time.sleep(0.01)
            client.send_frames(b"\x01")
            client.pump(0.01)
        back = count()
        alive = client.fetch("/hello", 5).status() == 200
        assert back <= 7 * 2 * 1500, f"{back} bytes to the other"
        return f"{sent} bytes in its name, {back} bytes to it; the connection {'lives' if alive else 'is dead'}"


class victim:
    """Another address, and how much has come to it."""

    def __enter__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.50", 0))
        self.socket.setblocking(False)
        return self.socket, self.count

    def count(self):
        total = 0
        time.sleep(0.3)
        while True:
            try:
                total += len(self.socket.recv(65536))
            except BlockingIOError:
                return total

    def __exit__(self, *_):
        self.socket.close()


@flood("pieces of streams with gaps between them, on many streams", "quic-too-many-pieces")
def fragments(rig, client):
    before, worst = rig.memory(), 0
    streams = [client.bidi(b"\x01", False) for _ in range(100)]
    client.rest(0.2)
    sent = 0
    for step in range(18):
        for id in streams:
            if client.end:
                break
            payload = b""
            for at in range(100):
                payload += b"\x0e" + varint(id) + varint(3 + 2 * (step * 100 + at)) + varint(1) + b"x"
            client.send_frames(payload)
            sent += len(payload)
        client.pump(0)
        worst = max(worst, rig.memory())
    return f"{sent >> 10} KiB sent, {worst - before:.0f} MiB more memory"


@flood("uploads that nobody reads", None)
def unread_uploads(rig, client):
    before, worst, clients = rig.memory(), 0, []
    for _ in range(20):
        other = rig.client().connect_http3()
        clients.append(other)
        for _ in range(10):
            other.bidi(frame(HEADERS, section(head("/unread", "POST"))) + frame(DATA, bytes(300000)), False)
        other.rest(0.1)
    for other in clients * 6:
        other.rest(0.02)
        worst = max(worst, rig.memory())
    return f"20 connections with 1 MiB each, {worst - before:.0f} MiB more memory"


@flood("windows that are full of data with a gap before it, on 150 connections", None,
       {"process": 'process.memory_max = "140MiB"'})
def full_windows(rig, client):
    before, worst, clients, sent = rig.memory(), 0, [], 0
    for number in range(150):
        try:
            other = rig.client(local=f"127.0.1.{number + 1}").connect_http3(2)
        except ConnectionError:
            break
        clients.append(other)
        streams = [other.bidi(b"\x01", False) for _ in range(4)]
        other.pump(0)
        for at in range(0, 250):
            for id in streams:
                other.send_frames(b"\x0e" + varint(id) + varint(5 + at * 1000) + varint(1000) + bytes(1000))
                sent += 1000
            if at % 10 == 9:
                other.pump(0)
        worst = max(worst, rig.memory())
    for other in clients:
        other.pump(0)
    closed = sum(other.end is not None for other in clients)
    return (f"{len(clients)} connections, {sent >> 20} MiB sent, {worst - before:.0f} MiB more memory of {before:.0f}, "
            f"{closed} closed")


# QUIC, before there is a connection


def initial(drop_rest=True, **config):
    """The first datagram of a client that has no socket, and the client."""
    quic = QuicConnection(configuration=h3.QuicConfiguration(
        is_client=True, alpn_protocols=["h3"], server_name=h3.NAME, **config))
    quic.connect(("127.0.0.1", 1), now=time.monotonic())
    return quic, quic.datagrams_to_send(now=time.monotonic())[0][0]


@flood("first packets from a thousand addresses, none of which goes on", None)
def initials(rig, client):
    sockets, before, back, out = [], rig.memory(), 0, 0
    for number in range(1000):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.bind((f"127.{1 + number // 250}.{number % 250}.7", 0))
        sock.setblocking(False)
        data = initial()[1]
        sock.sendto(data, client.to)
        out += len(data)
        sockets.append(sock)
    worst, retries, factors = 0, 0, []
    end = time.monotonic() + 8
    got = [0] * len(sockets)
    while time.monotonic() < end:
        for at, sock in enumerate(sockets):
            try:
                while True:
                    data = sock.recv(65536)
                    got[at] += len(data)
                    retries += data[0] & 0xF0 == 0xF0
            except BlockingIOError:
                pass
        worst = max(worst, rig.memory())
        time.sleep(0.2)
    for sock in sockets:
        sock.close()
    return (f"{retries} asked to prove their address, at most {max(got) / 1200:.1f} times as many bytes to one, "
            f"{worst - before:.0f} MiB more memory")


@flood("first packets in the name of others, more than `tls.handshake_rate` allows", None,
       {"listener": "tls.handshake_rate = 60"})
def rate_used_up(rig, client):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.13", 0))
    data, sent, served, failed, slow = [initial()[1] for _ in range(900)], 0, 0, 0, 0.0
    while data:
        for one in data[:90]:
            sock.sendto(one, client.to)
            sent += 1
        data = data[90:]
        began = time.monotonic()
        try:
            other = rig.client(local="127.0.0.14").connect_http3(4)
            served += other.fetch("/hello", 4).status() == 200
            other.close()
        except ConnectionError:
            failed += 1
        slow = max(slow, time.monotonic() - began)
    sock.close()
    assert served > failed, f"{served} served, {failed} not"
    return f"{sent} sent; of others meanwhile {served} served, {failed} not, at most {1000 * slow:.0f} ms"


@flood("handshakes of one address that never end", None)
def handshakes_held(rig, client):
    held = []
    for _ in range(700):
        other = rig.client(local="127.0.0.7")
        # The second flight, which would end the handshake, is lost.
        other.drop = lambda sent, number, other=other: sent and number > 1 + bool(other.quic._peer_token)
        held.append(other.start())
        if len(held) % 50 == 0:
            for other in held[-50:]:
                other.pump(0)
    end = time.monotonic() + 5
    fresh = failed = 0
    while time.monotonic() < end:
        try:
            new = rig.client(local="127.0.0.8").connect_http3(3)
            fresh += new.fetch("/hello", 3).status() == 200
            new.close()
        except ConnectionError:
            failed += 1
    for other in held:
        other.socket.close()
    proven = sum(bool(other.quic._peer_token) for other in held)
    return f"700 begun, {proven} with an address that is proven; others meanwhile: {fresh} served, {failed} not"


@flood("first packets whose handshake has gaps", None)
def crypto_fragments(rig, client):
    before, worst = rig.memory(), 0
    sent = 0
    for _ in range(120):
        other = rig.client(local="127.0.0.9")
        # Its own first packets are never sent: the handshake does not begin.
        other.quic.connect(other.to, now=time.monotonic())
        crypto = other.quic._cryptos[h3.Epoch.INITIAL]
        for step in range(6):
            payload = b"".join(
                b"\x06" + varint(3000 + 2 * (step * 150 + at)) + varint(1) + b"x" for at in range(150))
            payload = payload[:1100]
            while payload and not parses(payload):
                payload = payload[:-1]
            payload = payload.ljust(1120, b"\0")
            cid, own = other.quic._peer_cid.cid, other.quic.host_cid
            number = other.quic._packet_number
            other.quic._packet_number += 1
            start = bytes([0xC3]) + (1).to_bytes(4, "big") + bytes([len(cid)]) + cid + bytes([len(own)]) + own
            start += b"\0" + (0x4000 | len(payload) + 20).to_bytes(2, "big") + number.to_bytes(4, "big")
            other.send(crypto.encrypt_packet(start, payload, number))
            sent += 1200
        worst = max(worst, rig.memory())
        other.socket.close()
    return f"{sent >> 10} KiB sent, {worst - before:.0f} MiB more memory"


def parses(payload):
    buf = Buffer(data=payload)
    try:
        while not buf.eof():
            if buf.pull_uint8() != 6:
                return False
            buf.pull_uint_var()
            buf.pull_bytes(buf.pull_uint_var())
        return True
    except ValueError:
        return False


@flood("the first packet with the address of another, the rest with the own", None)
def spoofed_begin(rig, client):
    with victim() as (other, count):
        quic, data = initial()
        other.sendto(data, client.to)
        # What the attacker can guess of the handshake: nothing that was sent to the other address.
        mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        mine.bind(("127.0.0.60", 0))
        mine.setblocking(False)
        for _ in range(20):
            mine.sendto(data, client.to)
        time.sleep(0.5)
        got = 0
        try:
            while True:
                got += len(mine.recv(65536))
        except BlockingIOError:
            pass
        mine.close()
        back = count()
        return f"{back} bytes to the other ({back / len(data):.1f} times), {got} to the attacker for {20 * len(data)}"


@flood("a handshake that the client does not go on with: bytes for bytes", None)
def amplification(rig, client):
    factors = []
    for _ in range(5):
        other = rig.client(local="127.0.0.11", drop=lambda sent, number: sent and number > 1).start()
        other.paused = False
        other.rest(1.5)
        factors.append(other.received_bytes / 1200)
        other.socket.close()
    return f"at most {max(factors):.2f} times"


@flood("datagrams of a few bytes", None)
def tiny_datagrams(rig, client):
    return garbage(rig, client, lambda: os.urandom(1 + os.urandom(1)[0] % 20))


@flood("datagrams of random bytes", None)
def random_datagrams(rig, client):
    return garbage(rig, client, lambda: os.urandom(1200))


@flood("packets that look as if they belonged to a connection", None)
def forged_packets(rig, client):
    cid = client.quic._peer_cid.cid
    return garbage(rig, client, lambda: b"\x43" + cid + os.urandom(100))


@flood("a first packet with garbage behind it in the datagram", None)
def coalesced_garbage(rig, client):
    quic, data = initial()
    cid, own = quic._peer_cid.cid, quic.host_cid

    def one():
        junk = bytes([0xE0]) + (1).to_bytes(4, "big") + bytes([len(cid)]) + cid + bytes([len(own)]) + own
        return data + (junk + (0x4000 | 40).to_bytes(2, "big") + os.urandom(40)) * 4
    return garbage(rig, client, one)


@flood("versions that do not exist, in datagrams of full length", None)
def versions(rig, client):
    return garbage(rig, client, lambda: bytes([0xC0]) + os.urandom(4) + b"\x08" + os.urandom(8) + b"\x08"
                   + os.urandom(8) + bytes(1180))


@flood("versions that do not exist, in short datagrams", None)
def short_versions(rig, client):
    return garbage(rig, client, lambda: bytes([0xC0]) + os.urandom(4) + b"\x08" + os.urandom(8) + b"\x08"
                   + os.urandom(8) + bytes(100))


@flood("version negotiation, sent to the server", None)
def version_negotiations(rig, client):
    return garbage(rig, client, lambda: encode_quic_version_negotiation(
        source_cid=os.urandom(8), destination_cid=os.urandom(8), supported_versions=[1, 2]))


def garbage(rig, client, make, count=20000):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.12", 0))
    sock.setblocking(False)
    sent = back = answers = 0
    cpu = rig.cpu()
    end = time.monotonic() + 5
    for number in range(count):
        data = make()
        try:
            sent += sock.sendto(data, client.to)
        except BlockingIOError:
            pass
        if number % 20 == 0:
            try:
                while True:
                    back += len(sock.recv(65536))
                    answers += 1
            except BlockingIOError:
                pass
        if time.monotonic() > end:
            break
    took = rig.cpu() - cpu
    sock.close()
    alive = client.fetch("/hello", 5).status() == 200
    return (f"{number + 1} datagrams, {answers} answers with {back / max(sent, 1):.2f} times the bytes, "
            f"{1e6 * took / (number + 1):.0f} µs each; the connection beside it {'lives' if alive else 'is dead'}")


def run(weir, names, show):
    for name, function, about, ends, config, seconds in FLOODS:
        if names and name not in names:
            continue
        rig = Rig(weir, **config)
        try:
            bystander = Bystander(rig)
            before = rig.memory()
            client = rig.client(local="127.0.0.2", **getattr(function, "prepare", {})).connect_http3()
            client.pump(0.1)
            told = function(rig, client)
            client.pump(0.1)
            others = bystander.report()
            reasons, memory = rig.reasons(), rig.memory() - before
            panics = sum(value for key, value in rig.metrics().items() if key.startswith("weir_worker_panics"))
            end = client.end and f"{client.end.error_code:#x} {client.end.reason_phrase}".strip()
            show(name, about, ends, told, end, reasons, memory, others, panics, rig)
        except Exception as error:
            show(name, about, ends, f"{type(error).__name__}: {error}", None, {}, 0, "", 0, rig)
        finally:
            rig.stop()
