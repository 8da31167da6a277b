"""httpx, and WebSocket and cancel by h2: python.py BASE CA FILE-OF-100-MB"""
import asyncio, hashlib, os, random, socket, ssl, sys, time
import h2.config, h2.connection, h2.events, httpx

base, ca, path = sys.argv[1:4]
host, port = "localhost", int(base.rsplit(":", 1)[1])
context = ssl.create_default_context(cafile=ca)
short = lambda data: hashlib.sha256(data).hexdigest()[:16]


async def main():
    limits = httpx.Limits(max_connections=8, max_keepalive_connections=8)
    async with httpx.AsyncClient(http2=True, verify=context, timeout=120, limits=limits) as client:
        for n in (0, 1, 612, 16384, 100000, 1000000):
            answer = await client.get(f"{base}/size/{n}")
            print(f"get-{n}", answer.status_code, answer.http_version, short(answer.content), flush=True)
        for n in (404, 204):
            print(f"status-{n}", (await client.get(f"{base}/status/{n}")).status_code)
        answer = await client.get(f"{base}/size/100000000")
        print("get-100MB", short(answer.content), flush=True)

        async def body():
            with open(path, "rb") as file:
                while part := file.read(1 << 20):
                    yield part

        answer = await client.post(f"{base}/digest", content=body(), headers={"content-length": str(os.path.getsize(path))})
        print("post-100MB", answer.text, flush=True)
        digest, times = hashlib.sha256(), []
        async with client.stream("GET", f"{base}/events") as answer:
            async for part in answer.aiter_bytes():
                digest.update(part)
                times.append(time.monotonic())
        print("events", digest.hexdigest()[:16], "one-by-one" if times[-1] - times[0] > 0.7 else "together", flush=True)
        async def one(i):
            answer = await client.get(f"{base}/size/10000?wait=100ms&i={i}")
            return answer.status_code, short(answer.content)
        results = await asyncio.gather(*(one(i) for i in range(1000)))
        print("streams-1000", len(results), set(results), flush=True)
        name = f"httpx-{random.random()}"
        async with client.stream("GET", f"{base}/slow?id={name}") as answer:
            count = 0
            async for _ in answer.aiter_bytes():
                count += 1
                if count == 3:
                    break
        print("cancel", (await client.get(f"{base}/state?id={name}")).text, flush=True)


class Raw:
    """One connection by hyper-h2."""

    def __init__(self):
        tls = ssl.create_default_context(cafile=ca)
        tls.set_alpn_protocols(["h2"])
        self.socket = tls.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname=host)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()
        self.seen = []

    def flush(self):
        self.socket.sendall(self.h2.data_to_send())

    def until(self, found):
        """Reads until an event fulfils `found`."""
        while True:
            while self.seen:
                event = self.seen.pop(0)
                if found(event):
                    return event
            data = self.socket.recv(65536)
            assert data, "closed"
            for event in self.h2.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self.seen.append(event)
            self.flush()

    def get(self, target):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, [(":method", "GET"), (":scheme", "https"), (":authority", f"{host}:{port}"), (":path", target)], end_stream=True)
        self.flush()
        return stream

    def text(self, target):
        stream, body = self.get(target), b""
        while True:
            event = self.until(lambda e: getattr(e, "stream_id", None) == stream)
            if isinstance(event, h2.events.DataReceived):
                body += event.data
            if isinstance(event, h2.events.StreamEnded):
                return body


def websocket():
    raw = Raw()
    raw.until(lambda e: isinstance(e, h2.events.RemoteSettingsChanged))
    stream = raw.h2.get_next_available_stream_id()
    raw.h2.send_headers(stream, [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":authority", f"{host}:{port}"),
                                 (":path", "/ws"), ("sec-websocket-version", "13")])
    raw.flush()
    answer = raw.until(lambda e: isinstance(e, h2.events.ResponseReceived))
    status = dict(answer.headers)[":status"]
    got, want = b"", b""
    for size in (5, 3000, 100000, 5):
        payload = os.urandom(size)
        length = bytes([128 | size]) if size < 126 else bytes([128 | 126]) + size.to_bytes(2, "big") if size < 65536 else bytes([128 | 127]) + size.to_bytes(8, "big")
        frame = b"\x82" + length + b"\0\0\0\0" + payload
        while frame:
            room = min(raw.h2.local_flow_control_window(stream), 16384, len(frame))
            if not room:
                raw.until(lambda e: isinstance(e, h2.events.WindowUpdated))
                continue
            raw.h2.send_data(stream, frame[:room])
            raw.flush()
            frame = frame[room:]
        want += payload
        need = len(want) + (2 if size < 126 else 4 if size < 65536 else 10)
        back = b""
        while len(back) < size + (2 if size < 126 else 4 if size < 65536 else 10):
            back += raw.until(lambda e: isinstance(e, h2.events.DataReceived)).data
        got += back[-size:]
    raw.h2.send_data(stream, b"\x88\x82\0\0\0\0\x03\xe8")
    raw.flush()
    raw.until(lambda e: isinstance(e, (h2.events.StreamEnded, h2.events.StreamReset)))
    print("websocket", status, "same" if got == want else "different", flush=True)


def cancel_h2():
    raw, name = Raw(), f"h2-{random.random()}"
    stream = raw.get(f"/slow?id={name}")
    for _ in range(3):
        raw.until(lambda e: isinstance(e, h2.events.DataReceived))
    raw.h2.reset_stream(stream, 8)
    raw.flush()
    state = raw.text(f"/state?id={name}").decode()
    print("cancel_h2", state, "then", len(raw.text("/size/1000")), "on the same connection", flush=True)


asyncio.run(main())
for test in (websocket, cancel_h2):
    try:
        test()
    except Exception as fault:
        print(test.__name__, "failed:", repr(fault)[:200])
