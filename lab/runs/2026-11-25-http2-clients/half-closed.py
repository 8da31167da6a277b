"""A WebSocket that the server ends and the client does not: half-closed.py PORT CA ADMIN-PORT [SECONDS]

By h2, to Weir in front of `origin` with HTTP/1. Prints what Weir still has open after END_STREAM of its side.
"""
import socket, ssl, sys, time, urllib.request
import h2.config, h2.connection, h2.events

port, ca, admin = int(sys.argv[1]), sys.argv[2], sys.argv[3]
context = ssl.create_default_context(cafile=ca)
context.set_alpn_protocols(["h2"])
tls = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")
conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
conn.initiate_connection()
conn.send_headers(1, [(":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":authority", f"localhost:{port}"), (":path", "/ws"), ("sec-websocket-version", "13")])
conn.send_data(1, b"\x88\x82\0\0\0\0\x03\xe8")
tls.sendall(conn.data_to_send())
ended = False
while not ended:
    for event in conn.receive_data(tls.recv(65536)):
        ended |= isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset))
        if isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
            print(type(event).__name__)
    tls.sendall(conn.data_to_send())
for _ in range(int(sys.argv[4]) if len(sys.argv) > 4 else 3):
    time.sleep(1)
    text = urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics").read().decode()
    print([line for line in text.splitlines() if line.startswith(("weir_listener_tunnels_open", "weir_server_attempts_open")) and not line.endswith(" 0")])
