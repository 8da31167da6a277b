"""Calls of grpcio to the server of grpc-go's interop suite: grpcio_calls.py PORT"""
import sys, time, grpc, concurrent.futures as cf
port = sys.argv[1]
ident = lambda b: b
ch = grpc.insecure_channel(f"127.0.0.1:{port}")
empty = ch.unary_unary('/grpc.testing.TestService/EmptyCall', ident, ident)
duplex = ch.stream_stream('/grpc.testing.TestService/FullDuplexCall', ident, ident)
unimpl = ch.unary_unary('/grpc.testing.TestService/Nothing', ident, ident)
assert empty(b'') == b''
with cf.ThreadPoolExecutor(64) as pool:
    results = list(pool.map(lambda _: empty(b''), range(5000)))
assert results == [b''] * 5000
try: unimpl(b''); assert False
except grpc.RpcError as e: assert e.code() == grpc.StatusCode.UNIMPLEMENTED, e
# StreamingOutputCallRequest: response_parameters {size: 1000}
msg = bytes([0x12, 0x03, 0x08, 0xe8, 0x07])
got = [len(m) for m in duplex(iter([msg] * 50))]
assert len(got) == 50 and min(got) >= 1000, got
# deadline: response after a long interval (interval_us = 5 s)
slow = bytes([0x12, 0x07, 0x08, 0x01, 0x10, 0xc0, 0x96, 0xb1, 0x02])
t = time.time()
try: list(duplex(iter([slow]), timeout=0.3)); assert False
except grpc.RpcError as e: assert e.code() == grpc.StatusCode.DEADLINE_EXCEEDED, e
assert time.time() - t < 2
call = duplex(iter([msg] * 3)); next(call); call.cancel()
assert empty(b'') == b''
print("all fine", port)
