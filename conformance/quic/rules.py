"""What RFC 9000, 9001, 9114, 9204, 9218 and 9220 forbid clients, or have servers ignore: each rule with its section and the error that is due.

The list of rules is that of h3spec and more; no code of it is here.
"""

import os
import time

import client as h3
from client import (
    CANCEL_PUSH, CONTROL, DATA, DECODER, ENCODER, GOAWAY, HEADERS, MAX_PUSH_ID, PRIORITY_UPDATE, PUSH, PUSH_PROMISE,
    SETTINGS, frame, get, head, prefixed, section, varint,
)

RULES = []

# Codes of QUIC (RFC 9000 section 20.1) and of HTTP/3 (RFC 9114 section 8.1, RFC 9204 section 6).
INTERNAL, FLOW, STREAM_LIMIT, STREAM_STATE, FINAL_SIZE, ENCODING, PARAMETER, ID_LIMIT, VIOLATION = 1, 3, 4, 5, 6, 7, 8, 9, 10
NO_ERROR, GENERAL, CREATION, CRITICAL, UNEXPECTED, FRAME_ERROR, EXCESSIVE, ID_ERROR, SETTINGS_ERROR, MISSING = (
    0x100, 0x101, 0x103, 0x104, 0x105, 0x106, 0x107, 0x108, 0x109, 0x10A)
REJECTED, CANCELLED, INCOMPLETE, MESSAGE = 0x10B, 0x10C, 0x10D, 0x10E
DECOMPRESSION, ENCODER_ERROR, DECODER_ERROR = 0x200, 0x201, 0x202


def rule(where, about, expected, **client):
    """`expected` is a code or several, `None` where the connection lives and serves, or `"message"` for a malformed request."""

    def add(function):
        RULES.append((function.__name__.replace("_", "-"), where, about, expected, client, function))
        return function

    return add


def table(where, about, expected, rows, act, bare=False):
    """One rule for each row."""
    for name, row in rows.items():
        def function(client, row=row):
            return act(client, row)
        function.__name__ = name
        function.bare = bare
        RULES.append((name.replace("_", "-"), where, about + f": {name.replace('_', ' ')}", expected, {}, function))


def bare(function):
    """The case opens the control stream itself."""
    function.bare = True
    return function


# Control streams


def on_control(client, payload):
    client.stream(2, payload)


@rule("RFC 9114 6.2.1", "a second control stream", CREATION)
def second_control_stream(client):
    client.uni(varint(CONTROL) + frame(SETTINGS))


@rule("RFC 9204 4.2", "a second encoder stream", CREATION)
def second_encoder_stream(client):
    client.uni(varint(ENCODER))
    client.uni(varint(ENCODER))


@rule("RFC 9204 4.2", "a second decoder stream", CREATION)
def second_decoder_stream(client):
    client.uni(varint(DECODER))
    client.uni(varint(DECODER))


@rule("RFC 9114 6.2.2", "a push stream of a client", CREATION)
def push_stream(client):
    client.uni(varint(PUSH) + varint(0))


@rule("RFC 9114 6.2.1", "the control stream ends", CRITICAL)
def control_stream_ends(client):
    client.stream(2, b"", True)


@rule("RFC 9114 6.2.1", "the control stream is reset", CRITICAL)
def control_stream_reset(client):
    client.pump(0.05)
    client.quic.reset_stream(2, 0x100)


@rule("RFC 9204 4.2", "the encoder stream ends", CRITICAL)
def encoder_stream_ends(client):
    client.uni(varint(ENCODER), True)


@rule("RFC 9204 4.2", "the decoder stream is reset", CRITICAL)
def decoder_stream_reset(client):
    id = client.uni(varint(DECODER))
    client.pump(0.05)
    client.quic.reset_stream(id, 0x100)


@rule("RFC 9114 6.2.1", "the server's control stream is stopped", CRITICAL)
def control_stream_stopped(client):
    client.until(lambda: client.peer_streams, 2)
    client.quic.stop_stream(3, 0x100)


@rule("RFC 9114 6.2.1", "the first frame is GOAWAY", MISSING)
@bare
def no_settings(client):
    client.uni(varint(CONTROL) + frame(GOAWAY, varint(0)))


@rule("RFC 9114 6.2.1", "the first frame is of an unknown type", MISSING)
@bare
def unknown_before_settings(client):
    client.uni(varint(CONTROL) + frame(0x21))


table("RFC 9114 7.2", "not allowed on control streams", UNEXPECTED, {
    "data_on_control": frame(DATA, b"x"),
    "headers_on_control": frame(HEADERS, section(head())),
    "push_promise_on_control": frame(PUSH_PROMISE, varint(0)),
    "second_settings": frame(SETTINGS),
    "http2_priority_on_control": frame(2, b"12345"),
    "http2_ping_on_control": frame(6, b"12345678"),
    "http2_window_update_on_control": frame(8, b"1234"),
    "http2_continuation_on_control": frame(9),
}, on_control)

table("RFC 9114 7.1", "the payload does not fit", FRAME_ERROR, {
    "goaway_without_id": frame(GOAWAY),
    "goaway_with_more": frame(GOAWAY, varint(0) + b"x"),
    "max_push_id_without_id": frame(MAX_PUSH_ID),
    "max_push_id_with_more": frame(MAX_PUSH_ID, varint(0) + b"x"),
    "cancel_push_without_id": frame(CANCEL_PUSH),
}, on_control)

table("RFC 9114 7.2", "the id cannot be", ID_ERROR, {
    "cancel_of_no_push": frame(CANCEL_PUSH, varint(0)),
    "max_push_id_smaller": frame(MAX_PUSH_ID, varint(8)) + frame(MAX_PUSH_ID, varint(4)),
    "goaway_larger": frame(GOAWAY, varint(0)) + frame(GOAWAY, varint(8)),
}, on_control)

table("RFC 9218 7.2", "the id cannot be", ID_ERROR, {
    "priority_of_no_request": frame(PRIORITY_UPDATE, varint(2) + b"u=1"),
    "priority_of_no_push": frame(PRIORITY_UPDATE + 1, varint(0) + b"u=1"),
}, on_control)


def first_settings(client, payload):
    client.uni(varint(CONTROL) + frame(SETTINGS, payload))


table("RFC 9114 7.2.4.1", "a setting of HTTP/2", SETTINGS_ERROR, {
    f"setting_{number}": varint(number) + varint(1) for number in (2, 3, 4, 5)
}, first_settings, True)
table("RFC 9114 7.2.4", "settings that are broken", SETTINGS_ERROR, {
    "setting_twice": varint(6) + varint(100) + varint(6) + varint(100),
    "connect_protocol_2": varint(8) + varint(2),
    "datagram_2": varint(0x33) + varint(2),
}, first_settings, True)


@rule("RFC 9114 7.1", "settings that are cut", FRAME_ERROR)
@bare
def settings_cut(client):
    client.uni(varint(CONTROL) + frame(SETTINGS, varint(6)))


@rule("RFC 9114 7.1", "the control stream ends within a frame", (FRAME_ERROR, CRITICAL))
def control_ends_in_frame(client):
    client.stream(2, varint(GOAWAY) + varint(4) + b"x", True)


# What has to be ignored


@rule("RFC 9114 9", "a frame of an unknown type on the control stream", None)
def unknown_frame_on_control(client):
    on_control(client, frame(0x21 + 31 * 1000, b"anything"))


@rule("RFC 9114 9", "frames of unknown types around HEADERS and DATA", None)
def unknown_frame_in_request(client):
    grease = frame(0x21 + 31 * 7, b"anything")
    data = grease + frame(HEADERS, section(head("/p", "POST"))) + grease + frame(DATA, b"abc") + grease
    response = client.wait(client.bidi(data, True))
    assert response.status() == 200 and response.body() == b"3", (response.status(), response.body())


@rule("RFC 9114 9", "a stream of an unknown type", None)
def unknown_stream(client):
    client.uni(varint(0x21 + 31 * 3) + b"anything")


@rule("RFC 9114 6.2", "a stream that is reset before its type", None)
def stream_without_type(client):
    client.uni(b"", True)


@rule("RFC 9114 7.2.4.1", "settings of unknown numbers", None)
@bare
def unknown_settings(client):
    first_settings(client, varint(0x21 + 31 * 9) + varint(77))


@rule("RFC 9114 7.2.8", "long forms of small integers", None)
@bare
def long_integers(client):
    long = lambda number: bytes([0xC0]) + number.to_bytes(7, "big")
    client.uni(long(CONTROL) + long(SETTINGS) + long(0))


@rule("RFC 9218 7.2", "a priority that cannot be parsed", None)
def bad_priority(client):
    on_control(client, frame(PRIORITY_UPDATE, varint(0) + b"u=;;,\xff"))


@rule("RFC 9114 7.2.8", "a frame of an unknown type with nothing but its head", None)
def endless_unknown_frame(client):
    id = client.bidi(get() + varint(0x21) + varint(0), True)
    assert client.wait(id).status() == 200


@rule("RFC 9114 7.1", "a request in pieces of one byte", None)
def byte_by_byte(client):
    data = frame(HEADERS, section(head("/p", "POST"))) + frame(DATA, b"abc") + frame(HEADERS, section([("x-t", "1")]))
    id = client.bidi(data[:1])
    for at in range(1, len(data)):
        client.stream(id, data[at:at + 1], at == len(data) - 1)
        client.pump(0.001)
    response = client.wait(id)
    assert response.status() == 200 and response.body() == b"3", (response.status(), response.body())


# Request streams


def on_request(client, data):
    client.bidi(data, True)


table("RFC 9114 4.1", "frames that must not come there", UNEXPECTED, {
    "data_before_headers": frame(DATA, b"x"),
    "data_behind_trailers": get() + frame(HEADERS, section([("x-t", "1")])) + frame(DATA, b"x"),
    "headers_behind_trailers": get() + frame(HEADERS, section([("x-t", "1")])) * 2,
    "cancel_push_in_request": get() + frame(CANCEL_PUSH, varint(0)),
    "settings_in_request": get() + frame(SETTINGS),
    "push_promise_in_request": get() + frame(PUSH_PROMISE, varint(0) + section(head())),
    "goaway_in_request": get() + frame(GOAWAY, varint(0)),
    "max_push_id_in_request": get() + frame(MAX_PUSH_ID, varint(0)),
    "priority_update_in_request": get() + frame(PRIORITY_UPDATE, varint(0)),
    "http2_priority_in_request": get() + frame(2, b"12345"),
    "http2_ping_in_request": get() + frame(6, b"12345678"),
    "http2_window_update_in_request": get() + frame(8, b"1234"),
    "http2_continuation_in_request": get() + frame(9),
}, on_request)

table("RFC 9114 7.1", "frames that are cut by the end of the stream", FRAME_ERROR, {
    "headers_cut": frame(HEADERS, section(head()))[:-3],
    "data_cut": frame(HEADERS, section(head("/p", "POST"))) + varint(DATA) + varint(9) + b"abc",
    "frame_head_cut": get() + b"\x40",
}, on_request)

NOT_A_LINE = [(":method", "GET"), (":scheme", "https"), (":path", "/hello")]
ALL = NOT_A_LINE + [(":authority", h3.NAME)]


def bad_head(client, lines):
    client.bidi(frame(HEADERS, section(lines)), True)


table("RFC 9114 4.3", "pseudo-header fields", "message", {
    "no_method": [line for line in ALL if line[0] != ":method"],
    "no_scheme": [line for line in ALL if line[0] != ":scheme"],
    "no_path": [line for line in ALL if line[0] != ":path"],
    "empty_path": [(name, "" if name == ":path" else value) for name, value in ALL],
    "no_authority": NOT_A_LINE,
    "empty_authority": NOT_A_LINE + [(":authority", "")],
    "empty_host": NOT_A_LINE + [("host", "")],
    "authority_unlike_host": ALL + [("host", "b.test")],
    "authority_with_user": NOT_A_LINE + [(":authority", "me@a.test")],
    "method_twice": ALL + [(":method", "GET")],
    "path_twice": ALL + [(":path", "/")],
    "scheme_twice": ALL + [(":scheme", "https")],
    "authority_twice": ALL + [(":authority", h3.NAME)],
    "status_in_request": ALL + [(":status", "200")],
    "unknown_pseudo": ALL + [(":unknown", "1")],
    "pseudo_behind_fields": [("x", "1")] + ALL,
    "protocol_without_connect": ALL + [(":protocol", "websocket")],
    "connect_with_path": [(":method", "CONNECT"), (":authority", "a.test:443"), (":path", "/")],
    "connect_with_scheme": [(":method", "CONNECT"), (":authority", "a.test:443"), (":scheme", "https")],
    "extended_connect_without_path": [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"),
                                      (":authority", h3.NAME)],
    "bad_method": [(":method", "G ET")] + ALL[1:],
    "space_in_path": [(":method", "GET"), (":scheme", "https"), (":path", "/a b"), (":authority", h3.NAME)],
    "star_with_get": [(":method", "GET"), (":scheme", "https"), (":path", "*"), (":authority", h3.NAME)],
    "relative_path": [(":method", "GET"), (":scheme", "https"), (":path", "hello"), (":authority", h3.NAME)],
}, bad_head)

table("RFC 9114 4.2", "fields", "message", {
    "upper_case": ALL + [("X-Upper", "1")],
    "empty_name": ALL + [("", "1")],
    "space_in_name": ALL + [("x y", "1")],
    "colon_in_name": ALL + [("x:y", "1")],
    "connection": ALL + [("connection", "close")],
    "keep_alive": ALL + [("keep-alive", "1")],
    "proxy_connection": ALL + [("proxy-connection", "close")],
    "transfer_encoding": ALL + [("transfer-encoding", "chunked")],
    "upgrade": ALL + [("upgrade", "h2c")],
    "te_gzip": ALL + [("te", "gzip")],
    "line_feed_in_value": ALL + [("x", "a\nb")],
    "carriage_return_in_value": ALL + [("x", "a\rb")],
    "nul_in_value": ALL + [("x", "a\0b")],
    "space_before_value": ALL + [("x", " a")],
    "length_twice": ALL + [("content-length", "0"), ("content-length", "1")],
    "length_signed": ALL + [("content-length", "+0")],
    "length_list": ALL + [("content-length", "0, 1")],
}, bad_head)

table("RFC 9114 4.1.2", "bodies", "message", {
    "body_too_short": frame(HEADERS, section(head("/p", "POST", content_length="5"))) + frame(DATA, b"abc"),
    "body_too_long": frame(HEADERS, section(head("/p", "POST", content_length="1"))) + frame(DATA, b"abc"),
    "body_missing": frame(HEADERS, section(head("/p", "POST", content_length="5"))),
    "pseudo_in_trailers": frame(HEADERS, section(head("/p", "POST"))) + frame(DATA, b"abc")
    + frame(HEADERS, section([(":method", "GET")])),
    "upper_case_in_trailers": frame(HEADERS, section(head("/p", "POST"))) + frame(DATA, b"abc")
    + frame(HEADERS, section([("X-T", "1")])),
    "connection_in_trailers": frame(HEADERS, section(head("/p", "POST"))) + frame(DATA, b"abc")
    + frame(HEADERS, section([("connection", "1")])),
}, on_request)


@rule("RFC 9114 4.1", "the stream ends without a request", "incomplete")
def empty_request(client):
    client.bidi(b"", True)


@rule("RFC 9114 4.2.1", "cookies in several lines arrive as one", None)
def cookies(client):
    response = client.wait(client.bidi(frame(HEADERS, section(ALL + [("cookie", "a=1"), ("cookie", "b=2")])), True))
    assert response.status() == 200


# QPACK

table("RFC 9204 2.2", "field sections that cannot be decoded", DECOMPRESSION, {
    "static_index_too_large": frame(HEADERS, b"\0\0" + prefixed(0xC0, 6, 99)),
    "dynamic_index_with_insert_count_0": frame(HEADERS, b"\0\0\x80"),
    "post_base_index_with_insert_count_0": frame(HEADERS, b"\0\0\x10"),
    "insert_count_impossible": frame(HEADERS, prefixed(0, 8, 257) + b"\0\x80"),
    "base_negative": frame(HEADERS, b"\x02\x81\x80"),
    "huffman_padding_too_long": frame(HEADERS, b"\0\0" + bytes([0x21, 0x61, 0x82, 0xFF, 0xFF])),
    "section_cut": frame(HEADERS, section(head())[:-1]),
    "section_empty": frame(HEADERS),
    "integer_too_long": frame(HEADERS, b"\0\0" + b"\xff" + b"\xff" * 12),
}, on_request)


def on_encoder(client, data):
    client.uni(varint(ENCODER) + data)


table("RFC 9204 4.3", "instructions of the encoder", ENCODER_ERROR, {
    "capacity_too_large": prefixed(0x20, 5, 4097),
    "insert_with_static_index_too_large": b"\x3f\xe1\x1f" + prefixed(0xC0, 6, 99) + b"\0",
    "insert_with_dynamic_index_too_large": b"\x3f\xe1\x1f" + b"\x80\0",
    "insert_larger_than_table": prefixed(0x20, 5, 64) + prefixed(0x40, 5, 100) + b"a" * 100 + b"\0",
    "duplicate_of_nothing": b"\x3f\xe1\x1f\x00",
    "insert_before_capacity": b"\x41a\x01b",
}, on_encoder)


def on_decoder(client, data):
    client.uni(varint(DECODER) + data)


table("RFC 9204 4.4", "instructions of the decoder", DECODER_ERROR, {
    "acknowledgement_of_nothing": b"\x80",
    "increment_0": b"\x00",
    "increment_too_large": prefixed(0, 6, 1000),
}, on_decoder)


@rule("RFC 9204 4.4.2", "the cancellation of a stream that there is not", None)
def cancellation(client):
    on_decoder(client, prefixed(0x40, 6, 400))


@rule("RFC 9204 2.1.2", "more blocked streams than are allowed", DECOMPRESSION)
def too_many_blocked(client):
    for _ in range(17):
        client.bidi(frame(HEADERS, b"\x02\x00" + section(head())[2:] + b"\x80"), True)


@rule("RFC 9204 2.1.2", "a blocked stream goes on when its entry comes", None)
def blocked_goes_on(client):
    id = client.bidi(frame(HEADERS, b"\x02\x00" + section(head())[2:] + b"\x80"), True)
    client.rest(0.3)
    assert not client.streams[id].ended
    on_encoder(client, b"\x3f\xe1\x1f\x41a\x01b")
    assert client.wait(id).status() == 200


@rule("RFC 9204 3.2.2", "entries are evicted and still found by those behind them", None)
def eviction(client):
    id = client.uni(varint(ENCODER) + b"\x3f\xe1\x1f")
    for number in range(200):
        client.stream(id, b"\x41x" + prefixed(0, 7, 50) + bytes([97 + number % 26]) * 50)
    client.rest(0.5)
    count = 200 % (2 * 128) + 1
    # Required insert count 200, base 200, the newest entry.
    section_bytes = prefixed(0, 8, count) + b"\0" + section(head())[2:] + b"\x80"
    assert client.wait(client.bidi(frame(HEADERS, section_bytes), True)).status() == 200


# QUIC


def frames(client, payload):
    client.pump(0.1)
    client.send_frames(payload)


table("RFC 9000 12.4", "frames that only servers send", VIOLATION, {
    "new_token_of_client": b"\x07\x04abcd",
    "handshake_done_of_client": b"\x1e",
}, frames)
table("RFC 9000 12.4", "frames that cannot be read", ENCODING, {
    "unknown_frame_type": b"\x3f\x00",
    "stream_cut": b"\x0a" + varint(0) + varint(900) + b"x",
    "ack_with_negative_range": b"\x02" + varint(2) + varint(0) + varint(0) + varint(9),
    "max_streams_beyond_2_60": b"\x12" + varint((1 << 60) + 1),
    "streams_blocked_beyond_2_60": b"\x16" + varint((1 << 60) + 1),
}, frames)
table("RFC 9000 12.4", "frame types in more bytes than needed (may be refused)", (VIOLATION, None), {
    "long_frame_type": b"\x40\x01",
}, frames)
table("RFC 9000 4", "beyond what was allowed", FLOW, {
    "beyond_stream_window": b"\x0e" + varint(0) + varint(300000) + varint(1) + b"x",
    "beyond_last_offset": b"\x0e" + varint(0) + varint((1 << 62) - 1) + varint(1) + b"x",
}, frames)
table("RFC 9000 4.6", "more streams than were allowed", STREAM_LIMIT, {
    "beyond_streams": b"\x0a" + varint(4 * 1000) + varint(1) + b"x",
    "beyond_plain_streams": b"\x0a" + varint(4 * 1000 + 2) + varint(1) + b"x",
}, frames)
table("RFC 9000 4.5", "the size of a stream changes", FINAL_SIZE, {
    "bytes_behind_the_end": b"\x0b" + varint(0) + varint(1) + b"\x01" + b"\x0e" + varint(0) + varint(5) + varint(1) + b"x",
    "another_size_by_reset": b"\x0b" + varint(0) + varint(1) + b"\x01" + b"\x04" + varint(0) + varint(0x10C) + varint(9),
    "smaller_than_what_came": b"\x0a" + varint(0) + varint(4) + b"\x21\x40\xff\x00" + b"\x04" + varint(0) + varint(0x10C) + varint(1),
}, frames)
table("RFC 9000 19", "on streams where that cannot be", STREAM_STATE, {
    "reset_of_send_only": b"\x04" + varint(3) + varint(0) + varint(0),
    "stream_on_send_only": b"\x0a" + varint(3) + varint(1) + b"x",
    "stop_of_receive_only": b"\x05" + varint(2) + varint(0),
    "window_of_receive_only": b"\x11" + varint(2) + varint(9),
    "stream_of_server_not_begun": b"\x0a" + varint(1) + varint(1) + b"x",
    "stop_of_server_stream_not_begun": b"\x05" + varint(1) + varint(0),
    "window_of_server_stream_not_begun": b"\x11" + varint(1) + varint(9),
}, frames)
table("RFC 9000 19.15", "connection IDs", ENCODING, {
    "connection_id_of_no_byte": b"\x18" + varint(90) + varint(0) + b"\0" + bytes(16),
    "connection_id_of_21_bytes": b"\x18" + varint(90) + varint(0) + b"\x15" + bytes(21) + bytes(16),
}, frames)
table("RFC 9000 19.15", "connection IDs", (ENCODING, VIOLATION), {
    "retires_more_than_itself": b"\x18" + varint(90) + varint(91) + b"\x08" + bytes(8) + bytes(16),
}, frames)
table("RFC 9000 19.16", "a connection ID that was never issued", VIOLATION, {
    "retire_of_unknown": b"\x19" + varint(1000),
}, frames)
table("RFC 9000 13.1", "the acknowledgement of a packet that was never sent", VIOLATION, {
    "ack_of_unsent": b"\x02" + varint(1 << 20) + varint(0) + varint(0) + varint(0),
}, frames)
table("RFC 9000 19.11", "limits that are not larger are ignored", None, {
    "smaller_limits": b"\x10" + varint(1) + b"\x12" + varint(1) + b"\x13" + varint(1),
    "padding_and_ping": b"\0\0\0\x01\0",
    "path_response_to_nothing": b"\x1b12345678",
}, frames)


@rule("RFC 9000 17.3.1", "reserved bits of a packet are set", VIOLATION)
def reserved_bits(client):
    client.pump(0.1)
    crypto = client.quic._cryptos[h3.Epoch.ONE_RTT]
    number = client.quic._packet_number
    client.quic._packet_number += 1
    header = bytes([0x5B | crypto.key_phase << 2]) + client.quic._peer_cid.cid + number.to_bytes(4, "big")
    client.send(crypto.encrypt_packet(header, b"\x01\0\0\0", number))


@rule("RFC 9000 12.4", "a packet without frames", VIOLATION)
def no_frames(client):
    client.pump(0.1)
    crypto = client.quic._cryptos[h3.Epoch.ONE_RTT]
    number = client.quic._packet_number
    client.quic._packet_number += 1
    header = bytes([0x43 | crypto.key_phase << 2]) + client.quic._peer_cid.cid + number.to_bytes(4, "big")
    client.send(crypto.encrypt_packet(header, b"", number))


@rule("RFC 9001 6", "a change of keys before the last was acknowledged", (None, 0xE))
def key_updates(client):
    client.fetch()
    client.quic.request_key_update()
    assert client.fetch().status() == 200


# Transport parameters


def parameter(number, value=b""):
    return varint(number) + varint(len(value)) + value


def parameters(where, about, expected, rows):
    for name, change in rows.items():
        def function(client):
            pass
        function.__name__, function.parameters = name, change
        RULES.append((name.replace("_", "-"), where, about + f": {name.replace('_', ' ')}", expected, {}, function))


def without(number):
    """Leaves a parameter out."""
    def change(own):
        buf, out = h3.Buffer(data=own), b""
        while not buf.eof():
            known, size = buf.pull_uint_var(), buf.pull_uint_var()
            value = buf.pull_bytes(size)
            if known != number:
                out += parameter(known, value)
        return out
    return change


def having(number, value):
    return lambda own: without(number)(own) + parameter(number, value)


parameters("RFC 9000 18.2", "transport parameters", PARAMETER, {
    "original_connection_id_of_client": having(0, b"12345678"),
    "preferred_address_of_client": having(0xD, bytes(4 + 2 + 16 + 2) + b"\x08" + bytes(8) + bytes(16)),
    "retry_connection_id_of_client": having(0x10, b"12345678"),
    "reset_token_of_client": having(2, bytes(16)),
    "ack_delay_exponent_21": having(0xA, varint(21)),
    "max_ack_delay_2_14": having(0xB, varint(1 << 14)),
    "payload_size_1199": having(3, varint(1199)),
    "connection_id_limit_1": having(0xE, varint(1)),
    "streams_beyond_2_60": having(8, varint((1 << 60) + 1)),
    "plain_streams_beyond_2_60": having(9, varint((1 << 60) + 1)),
    "parameter_twice": lambda own: own + parameter(4, varint(1)),
    "parameter_cut": lambda own: own + b"\x04\x08\x01",
    "no_source_connection_id": without(0xF),
    "other_source_connection_id": having(0xF, b"12345678"),
    "migration_value_not_empty": having(0xC, b"x"),
})
parameters("RFC 9000 7.4.2", "transport parameters that are not known", None, {
    "reserved_parameter": having(27 + 31 * 9, b"anything"),
})


@rule("RFC 9001 8.1", "no protocol of the client is known", 0x178, alpn_protocols=["other"])
def unknown_alpn(client):
    pass


@rule("RFC 9001 8.1", "the client names no protocol", (0x178, 0x16D), alpn_protocols=None)
def no_alpn(client):
    pass


def run(weir_rig, names, show):
    for name, where, about, expected, config, function in RULES:
        if names and name not in names:
            continue
        outcome, passed = one(weir_rig, expected, config, function)
        show(name, where, about, expected, outcome, passed)


def one(rig, expected, config, function):
    change = getattr(function, "parameters", None)
    client = rig.client(parameters=change, **config)
    try:
        try:
            client.connect(5)
            if not getattr(function, "bare", False) and not change and not config:
                client.uni(varint(CONTROL) + frame(SETTINGS))
                client.pump(0.02)
        except ConnectionError:
            pass
        if client.end is None:
            function(client)
        wanted = expected if isinstance(expected, tuple) else (expected,)
        malformed = "message" in wanted or "incomplete" in wanted
        answered = lambda: any(s.reset is not None or s.ended for s in client.streams.values())
        client.until(lambda: client.end is not None or malformed and answered(), 0.4 if None in wanted else 2)
        if malformed:
            client.pump(0.05)
            stream = client.streams[0]
            code = client.code() if client.end else stream.reset if stream.reset is not None else stream.stopped
            status = stream.status()
            outcome = f"status {status}" if status else f"reset {code:#x}" if code is not None else "nothing"
            due = MESSAGE if "message" in wanted else INCOMPLETE
            return outcome, client.end is None and (code == due or status is not None and 400 <= status < 500)
        if client.end is not None:
            return f"{client.end.error_code:#x} {client.end.reason_phrase}".strip(), client.end.error_code in wanted
        served = client.fetch("/hello", 3)
        return "lives" if served.status() == 200 else f"no answer {client.end}", None in wanted and served.status() == 200
    except AssertionError as error:
        return f"failed: {error}", False
    finally:
        client.socket.close()
