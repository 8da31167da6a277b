"""The cases of the gRPC interop suite with grpcio, whose messages are written by hand: grpcio_cases.py HOST:PORT [CA] [ROUNDS]

Each line is a case and `pass` or what was wrong. With ROUNDS, only how many cases passed and failed in so many rounds.
"""
import concurrent.futures, sys, time, grpc

target = sys.argv[1]
ca = sys.argv[2] if len(sys.argv) > 2 and sys.argv[2] != "-" else None
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 0
options = [("grpc.max_receive_message_length", 1 << 24)]
if ca:
    with open(ca, "rb") as file:
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(file.read()), options)
else:
    channel = grpc.insecure_channel(target, options)
same = lambda data: data
service = "/grpc.testing.TestService/"
unary = lambda name: channel.unary_unary(service + name, same, same)


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def put(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


payload = lambda size: put(1, 0) + put(2, bytes(size))
simple = lambda response, request: put(2, response) + put(3, payload(request))
streaming = lambda sizes, request=None, interval=0: b"".join(put(2, put(1, n) + (put(2, interval) if interval else b"")) for n in sizes) + (
    put(3, payload(request)) if request is not None else b"")
body = lambda message: len(message)


def fails(call, code):
    try:
        call()
    except grpc.RpcError as fault:
        assert fault.code() == code, (fault.code(), fault.details())
        return fault
    raise AssertionError("no failure")


def empty_unary():
    assert unary("EmptyCall")(b"") == b""


def large_unary():
    answer = unary("UnaryCall")(simple(314159, 271828))
    assert 314159 < len(answer) < 314180, len(answer)


def client_streaming():
    call = channel.stream_unary(service + "StreamingInputCall", same, same)
    assert call(iter([put(1, payload(n)) for n in (27182, 8, 1828, 45904)])) == put(1, 74922)


def server_streaming():
    call = channel.unary_stream(service + "StreamingOutputCall", same, same)
    got = [len(m) for m in call(streaming([31415, 9, 2653, 58979]))]
    assert [n - 31415 < 20 for n in got[:1]] == [True] and len(got) == 4, got


def ping_pong():
    import queue
    sizes, asks = [31415, 9, 2653, 58979], queue.Queue()
    call = channel.stream_stream(service + "FullDuplexCall", same, same)(iter(asks.get, None))
    for answer, ask in zip(sizes, [27182, 8, 1828, 45904]):
        asks.put(streaming([answer], ask))
        assert 0 < len(next(call)) - answer < 20
    asks.put(None)
    assert list(call) == []


def empty_stream():
    assert list(channel.stream_stream(service + "FullDuplexCall", same, same)(iter([]))) == []


def timeout_on_sleeping_server():
    call = channel.stream_stream(service + "FullDuplexCall", same, same)
    fails(lambda: list(call(iter([streaming([1], 27182, 5_000_000)]), timeout=0.05)), grpc.StatusCode.DEADLINE_EXCEEDED)


def cancel_after_begin():
    call = channel.stream_unary(service + "StreamingInputCall", same, same).future(iter(lambda: time.sleep(0.05) or put(1, payload(1)), None))
    call.cancel()
    assert call.code() == grpc.StatusCode.CANCELLED, call.code()


def cancel_after_first_response():
    call = channel.stream_stream(service + "FullDuplexCall", same, same)(iter(lambda: time.sleep(0.05) or streaming([31415], 27182), None))
    next(call)
    call.cancel()
    assert call.code() == grpc.StatusCode.CANCELLED, call.code()


def status_code_and_message():
    fault = fails(lambda: unary("UnaryCall")(put(7, put(1, 2) + put(2, b"test status message"))), grpc.StatusCode.UNKNOWN)
    assert fault.details() == "test status message", fault.details()


def special_status_message():
    text = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n"
    fault = fails(lambda: unary("UnaryCall")(put(7, put(1, 2) + put(2, text.encode()))), grpc.StatusCode.UNKNOWN)
    assert fault.details() == text, repr(fault.details())


def custom_metadata():
    sent = (("x-grpc-test-echo-initial", "test_initial_metadata_value"), ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab"))
    answer, call = unary("UnaryCall").with_call(simple(314159, 271828), metadata=sent)
    assert ("x-grpc-test-echo-initial", "test_initial_metadata_value") in [tuple(m) for m in call.initial_metadata()]
    assert ("x-grpc-test-echo-trailing-bin", b"\xab\xab\xab") in [tuple(m) for m in call.trailing_metadata()]


def unimplemented_method():
    fails(lambda: unary("UnimplementedCall")(b""), grpc.StatusCode.UNIMPLEMENTED)


def unimplemented_service():
    call = channel.unary_unary("/grpc.testing.UnimplementedService/UnimplementedCall", same, same)
    fails(lambda: call(b""), grpc.StatusCode.UNIMPLEMENTED)


def concurrent_large_unary():
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: large_unary(), range(40)))


cases = [empty_unary, large_unary, client_streaming, server_streaming, ping_pong, empty_stream, timeout_on_sleeping_server, cancel_after_begin,
         cancel_after_first_response, status_code_and_message, special_status_message, custom_metadata, unimplemented_method,
         unimplemented_service, concurrent_large_unary]
good = bad = 0
for _ in range(rounds or 1):
    for case in cases:
        try:
            case()
            good, outcome = good + 1, "pass"
        except Exception as fault:
            bad, outcome = bad + 1, repr(fault)[:300]
        if not rounds or outcome != "pass":
            print(case.__name__, outcome, flush=True)
if rounds:
    print(f"{good} passed, {bad} failed")
