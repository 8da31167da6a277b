"""A client of HTTP/3 on aioquic that blocks, and that can also send what no client should.

Everything above TLS is written out here: frames of HTTP/3 and field sections are bytes, so that a case says exactly what goes out.
"""

import socket
import ssl
import time

from aioquic.buffer import Buffer, encode_uint_var
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.tls import Epoch

import pylsqpack

NAME = "a.test"
DATA, HEADERS, CANCEL_PUSH, SETTINGS, PUSH_PROMISE, GOAWAY, MAX_PUSH_ID = 0, 1, 3, 4, 5, 7, 13
PRIORITY_UPDATE = 0xF0700
CONTROL, PUSH, ENCODER, DECODER = 0, 1, 2, 3

varint = encode_uint_var


def frame(kind, payload=b""):
    """A frame of HTTP/3."""
    return varint(kind) + varint(len(payload)) + payload


def section(lines):
    """A field section without the dynamic table."""
    out = b"\0\0"
    for name, value in lines:
        name, value = (text if isinstance(text, bytes) else text.encode() for text in (name, value))
        out += prefixed(0x20, 3, len(name)) + name + prefixed(0, 7, len(value)) + value
    return out


def prefixed(first, bits, number):
    """An integer of HPACK and QPACK."""
    most = (1 << bits) - 1
    if number < most:
        return bytes([first | number])
    out, number = bytes([first | most]), number - most
    while number >= 128:
        out, number = out + bytes([number % 128 | 128]), number // 128
    return out + bytes([number])


def head(path="/hello", method="GET", **others):
    """The lines of a request."""
    lines = [(":method", method), (":scheme", "https"), (":authority", NAME), (":path", path)]
    return lines + [(name.replace("_", "-"), value) for name, value in others.items()]


def get(path="/hello"):
    """The bytes of a request stream."""
    return frame(HEADERS, section(head(path)))


class Response:
    """What has come on a request stream."""

    def __init__(self):
        self.raw, self.ended, self.reset, self.stopped = bytearray(), False, None, None
        self.began = time.monotonic()
        self.took = None

    def frames(self):
        buf, out = Buffer(data=bytes(self.raw)), []
        try:
            while not buf.eof():
                kind, size = buf.pull_uint_var(), buf.pull_uint_var()
                out.append((kind, buf.pull_bytes(size)))
        except ValueError:
            pass
        return out

    def fields(self):
        for kind, payload in self.frames():
            if kind == HEADERS:
                # Weir's encoder needs the dynamic table only for clients that allow one.
                return pylsqpack.Decoder(0, 0).feed_header(0, payload)[1]
        return []

    def status(self):
        return next((int(value) for name, value in self.fields() if name == b":status"), None)

    def body(self):
        return b"".join(payload for kind, payload in self.frames() if kind == DATA)


class Client:
    """One connection. `socket` may be changed at any time: the client has moved then."""

    def __init__(self, to, local="127.0.0.1", prepare=None, parameters=None, drop=None, **config):
        self.to = to
        family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
        self.family = family
        self.local = "::1" if family == socket.AF_INET6 else local
        self.socket = self.open_socket()
        self.ticket = self.token = None
        settings = dict(is_client=True, alpn_protocols=["h3"], verify_mode=ssl.CERT_NONE, server_name=NAME)
        settings.update(config)
        self.config = QuicConfiguration(**settings)
        self.quic = QuicConnection(
            configuration=self.config,
            session_ticket_handler=lambda ticket: setattr(self, "ticket", ticket),
            token_handler=lambda token: setattr(self, "token", token),
        )
        if parameters:
            # Has the client send these bytes of transport parameters in place of, or behind, its own.
            own = self.quic._serialize_transport_parameters
            self.quic._serialize_transport_parameters = lambda: parameters(own())
        if prepare:
            prepare(self.quic)
        # A datagram for which it answers true is not sent, or not received.
        self.drop = drop or (lambda sent, number: False)
        self.counts = {True: 0, False: 0}
        self.streams, self.end, self.connected, self.resumed, self.early = {}, None, False, None, None
        self.paused = False
        self.peer_streams = {}
        self.received_bytes = self.sent_bytes = 0
        self.received = []
        self.keep_received = False

    def open_socket(self):
        sock = socket.socket(self.family, socket.SOCK_DGRAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.bind((self.local, 0))
        return sock

    # The connection

    def start(self):
        self.quic.connect(self.to, now=time.monotonic())
        self.flush()
        return self

    def connect(self, seconds=10):
        self.start()
        self.until(lambda: self.connected or self.end, seconds)
        if not self.connected:
            raise ConnectionError(f"no connection: {self.end}")
        return self

    def connect_http3(self, seconds=10, settings=b"", **others):
        """Connects, and opens the control stream."""
        self.connect(seconds)
        self.uni(varint(CONTROL) + frame(SETTINGS, settings))
        return self

    def close(self):
        self.quic.close()
        self.flush()
        self.socket.close()

    def rebind(self, local=None):
        """Goes on from another port, or another address."""
        self.socket.close()
        self.local = local or self.local
        self.socket = self.open_socket()

    def flush(self):
        for data, to in self.quic.datagrams_to_send(now=time.monotonic()):
            self.counts[True] += 1
            if not self.drop(True, self.counts[True]):
                self.send(data, to)

    def send(self, data, to=None):
        self.sent_bytes += len(data)
        try:
            self.socket.sendto(data, to or self.to)
        except OSError:
            pass

    def pump(self, seconds=0.05):
        """Takes what comes within a time, or what is there at once."""
        if not self.paused:
            self.flush()
        due = self.quic.get_timer()
        now = time.monotonic()
        wait = max(0.0, min(seconds, due - now if due else seconds))
        self.socket.settimeout(max(wait, 0.0005))
        try:
            while True:
                data, sender = self.socket.recvfrom(65536)
                self.received_bytes += len(data)
                if self.keep_received:
                    self.received.append(data)
                self.counts[False] += 1
                if not self.drop(False, self.counts[False]):
                    self.quic.receive_datagram(data, self.to, now=time.monotonic())
                self.socket.settimeout(0.0001)
        except (TimeoutError, BlockingIOError):
            pass
        except ConnectionError:
            pass
        now = time.monotonic()
        due = self.quic.get_timer()
        if due is not None and due <= now:
            self.quic.handle_timer(now)
        while (event := self.quic.next_event()) is not None:
            self.hear(event)
        if not self.paused:
            self.flush()

    def until(self, done, seconds=10):
        """Goes on until something is so; whether it is."""
        end = time.monotonic() + seconds
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self.pump(min(left, 0.1))
        return True

    def rest(self, seconds):
        self.until(lambda: self.end is not None, seconds)

    def hear(self, event):
        if isinstance(event, events.HandshakeCompleted):
            self.connected = True
            self.resumed, self.early = event.session_resumed, event.early_data_accepted
        elif isinstance(event, events.ConnectionTerminated):
            self.end = event
        elif isinstance(event, events.StreamDataReceived):
            if event.stream_id % 4 == 3:
                self.peer_streams.setdefault(event.stream_id, bytearray()).extend(event.data)
                return
            response = self.streams.setdefault(event.stream_id, Response())
            response.raw += event.data
            response.ended |= event.end_stream
            if response.ended and response.took is None:
                response.took = time.monotonic() - response.began
        elif isinstance(event, events.StreamReset):
            self.streams.setdefault(event.stream_id, Response()).reset = event.error_code
        elif isinstance(event, events.StopSendingReceived):
            self.streams.setdefault(event.stream_id, Response()).stopped = event.error_code

    # Streams

    def bidi(self, data=b"", end=False):
        """Opens a request stream."""
        id = self.quic.get_next_available_stream_id()
        self.quic.send_stream_data(id, data, end)
        self.streams.setdefault(id, Response())
        return id

    def uni(self, data=b"", end=False):
        id = self.quic.get_next_available_stream_id(is_unidirectional=True)
        self.quic.send_stream_data(id, data, end)
        return id

    def stream(self, id, data=b"", end=False):
        self.quic.send_stream_data(id, data, end)

    def request(self, path="/hello", method="GET", body=b"", end=True, **others):
        data = frame(HEADERS, section(head(path, method, **others)))
        if body:
            data += frame(DATA, body)
        return self.bidi(data, end)

    def wait(self, id, seconds=10):
        """The response on a stream."""
        response = self.streams[id]
        self.until(lambda: response.ended or response.reset is not None or self.end, seconds)
        return response

    def fetch(self, path="/hello", seconds=10, **others):
        return self.wait(self.request(path, **others), seconds)

    # What no client of HTTP/3 has a use for

    def packet(self, payload, number=None, id=None):
        """A packet of this connection with any frames."""
        crypto = self.quic._cryptos[Epoch.ONE_RTT]
        if number is None:
            number = self.quic._packet_number
            self.quic._packet_number += 1
        header = bytes([0x43 | crypto.key_phase << 2]) + (id or self.quic._peer_cid.cid)
        header += (number & 0xFFFFFFFF).to_bytes(4, "big")
        return crypto.encrypt_packet(header, payload.ljust(4, b"\0"), number)

    def send_frames(self, payload, **others):
        self.send(self.packet(payload, **others))

    def code(self):
        """Why the connection is over: the code, and whether that is one of HTTP/3."""
        if self.end is None:
            return None
        return self.end.error_code
