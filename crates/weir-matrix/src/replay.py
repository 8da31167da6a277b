import base64, os, re, signal, socket, ssl, struct, subprocess, sys, tempfile, threading, time

PATIENCE = 5.0  # seconds for which a step waits; a case that hangs takes them all
folder = tempfile.mkdtemp(prefix="weir-replay-")
for name, content in FILES.items():
    with open(os.path.join(folder, name), "wb") as file:
        file.write(base64.b64decode(content))

listeners, open_connections, client_sockets = {}, {}, []
for name in SERVERS:
    listeners[name] = socket.create_server(("127.0.0.1", 0))
    open_connections[name] = []
config = CONFIG
for name, listener in listeners.items():
    config = config.replace("{" + name + "}", "127.0.0.1:%d" % listener.getsockname()[1])
path = os.path.join(folder, "weir.toml")
with open(path, "w") as file:
    file.write(config)

program = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else "weir"
weir = subprocess.Popen([program, "serve", path], cwd=folder, stderr=subprocess.PIPE, text=True)
log, ready = [], threading.Event()
def follow():
    for line in weir.stderr:
        log.append(line)
        if line.strip() == "ready":
            ready.set()
threading.Thread(target=follow, daemon=True).start()

def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)

def happen(event, name):
    print("== event:", event)
    if event == "reload":
        weir.send_signal(signal.SIGHUP)
        until(lambda: any("the config was reloaded" in line for line in log))
    elif event == "upgrade":
        weir.send_signal(signal.SIGUSR2)
        until(lambda: any("another process serves now" in line for line in log))
    elif event == "server-killed":
        listeners[name].close()
        for sock in open_connections[name]:
            abort(sock)
    elif event == "client-gone":
        for sock in client_sockets:
            sock.shutdown(socket.SHUT_RDWR)

def abort(sock):
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    except OSError:
        pass

def replay(sock, steps, name):
    received, ended = bytearray(), False
    sock.settimeout(PATIENCE)
    for step in steps:
        try:
            if step[0] == "send":
                sock.sendall(base64.b64decode(step[1]))
            elif step[0] in ("wait", "wait-for-end"):
                # Ids and ports differ from run to run, and with them lengths: some bytes and then silence are enough.
                sock.settimeout(PATIENCE)
                while not ended and (step[0] == "wait-for-end" or len(received) < step[1]):
                    try:
                        chunk = sock.recv(65536)
                    except socket.timeout:
                        if sock.gettimeout() < PATIENCE:
                            break
                        raise
                    received += chunk
                    ended = not chunk
                    if step[0] == "wait":
                        sock.settimeout(0.4)
                sock.settimeout(PATIENCE)
            elif step[0] == "finish":
                sock.unwrap().shutdown(socket.SHUT_WR) if isinstance(sock, ssl.SSLSocket) else sock.shutdown(socket.SHUT_WR)
            elif step[0] == "abort":
                abort(sock)
                break
            elif step[0] == "event":
                happen(step[1], name)
        except socket.timeout:
            print("== %s: nothing came for %s s" % (name, PATIENCE))
            break
        except (OSError, ssl.SSLError) as error:
            print("== %s: %s" % (name, error))
            break
    print("== what Weir sent to %s:\n%s" % (name, bytes(received[:20000])))

def serve(name):
    for is_tls, protocol, steps in SERVERS[name]:
        try:
            sock, _ = listeners[name].accept()
        except OSError:
            return
        if is_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(os.path.join(folder, "server.pem"), os.path.join(folder, "server.key"))
            context.set_alpn_protocols([protocol])
            try:
                sock = context.wrap_socket(sock, server_side=True)
            except (OSError, ssl.SSLError) as error:
                print("== %s: %s" % (name, error))
                continue
        open_connections[name].append(sock)
        threading.Thread(target=replay, args=(sock, steps, name), daemon=True).start()

for name in SERVERS:
    threading.Thread(target=serve, args=(name,), daemon=True).start()
if not ready.wait(20):
    sys.exit("the program does not get ready:\n" + "".join(log))
address = next(re.search(r"listener=web address=([0-9.]+):([0-9]+)", line) for line in log if "listener=web" in line)
for is_tls, protocol, steps in CLIENTS:
    if protocol == "h3":
        print("== a client of HTTP/3, which this script cannot be: run the case by its name")
        continue
    sock = socket.create_connection((address.group(1), int(address.group(2))))
    if is_tls:
        context = ssl.create_default_context(cafile=os.path.join(folder, "ca.pem"))
        context.set_alpn_protocols([protocol])
        context.load_cert_chain(os.path.join(folder, "client.pem"), os.path.join(folder, "client.key"))
        sock = context.wrap_socket(sock, server_hostname="a.test")
    client_sockets[:] = [sock]
    replay(sock, steps, "the client")
time.sleep(0.2)
weir.kill()
print("== log of the program:\n" + "".join(log))
