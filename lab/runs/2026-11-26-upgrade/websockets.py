#!/usr/bin/env python3
"""WebSockets that stay open, and their server.

websockets.py server PORT
websockets.py client PORT COUNT SECONDS    each sends a message every two seconds and waits for its echo; prints what became of them
"""

import asyncio
import sys
import time

HANDSHAKE = (
    "GET /ws HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
).encode()
ACCEPTED = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
).encode()
# Text "ping", masked with zeros, as a client must; the echo comes without a mask.
SENT = b"\x81\x84\0\0\0\0ping"
ECHO = b"\x81\x04ping"


async def serve_one(reader, writer):
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ACCEPTED)
        while await reader.readexactly(len(SENT)):
            writer.write(ECHO)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


async def serve(port):
    server = await asyncio.start_server(serve_one, "127.0.0.1", port, backlog=2000)
    await server.serve_forever()


async def hold(port, began, seconds, ends):
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            ends.append(("refused", time.monotonic() - began))
            return
        while time.monotonic() - began < seconds:
            writer.write(SENT)
            if await asyncio.wait_for(reader.readexactly(len(ECHO)), 10) != ECHO:
                raise ConnectionError("another echo")
            await asyncio.sleep(2)
        ends.append(("open", seconds))
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
        ends.append(("ended", time.monotonic() - began))


async def client(port, count, seconds):
    began, ends = time.monotonic(), []
    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(hold(port, began, seconds, ends)))
        if number % 50 == 49:
            await asyncio.sleep(0.02)
    await asyncio.gather(*tasks)
    ended = sorted(at for how, at in ends if how == "ended")
    times = f", from {ended[0]:.1f} s to {ended[-1]:.1f} s" if ended else ""
    print(f"{count} WebSockets: {sum(how == 'open' for how, _ in ends)} open after {seconds} s, "
          f"{len(ended)} ended before{times}, {sum(how == 'refused' for how, _ in ends)} refused")


if sys.argv[1] == "server":
    asyncio.run(serve(int(sys.argv[2])))
else:
    asyncio.run(client(*map(int, sys.argv[2:5])))
