//! Reloads of the config: what holds from now on, and that nobody notices anything else.

mod changes;
mod listeners;
mod on_change;
mod refusals;
mod removals;
mod survival;
mod under_load;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Client, Connection, Gate, Origin, Response, Weir, origin::ok};

pub(crate) const HANDSHAKE: &str = "GET /socket HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// An origin that says its name; `/held` waits for the gate, `/socket` becomes a tunnel that sends every byte back.
fn named(name: &'static str, gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn| {
        loop {
            match conn.request()?.target() {
                "/held" => {
                    gate.wait("the test lets the request go on");
                    conn.send(ok(name))?;
                }
                "/socket" => {
                    conn.send(SWITCH)?;
                    return mirror(conn);
                }
                _ => conn.send(ok(name))?,
            }
        }
    })
}

fn mirror(conn: &mut Connection) -> Option<()> {
    loop {
        let byte = conn.take(1)?;
        conn.send(byte)?;
    }
}

/// A config of one listener `web`, all of whose requests go to an upstream `app` with these servers.
fn config(servers: &[(&str, &Origin)], settings: &str) -> String {
    let server = |(name, origin): &(&str, &Origin)| {
        format!("{{ name = \"{name}\", address = \"{}\" }}", origin.address())
    };
    let servers: Vec<String> = servers.iter().map(server).collect();
    format!(
        "admin = {{ address = \"127.0.0.1:0\", changes = true }}\nlistener.web.address = \"127.0.0.1:0\"\n\
         listener.web.upstream = \"app\"\nupstream.app.servers = [{}]\n{settings}\n",
        servers.join(", ")
    )
}

/// A client with an open tunnel.
fn tunnel(weir: &Weir) -> Client {
    let mut client = Client::connect(weir.web());
    client.send(HANDSHAKE);
    assert_eq!(client.head().status(), Ok(101));
    assert_alive(&mut client);
    client
}

/// Panics unless a byte comes back through the tunnel.
fn assert_alive(tunnel: &mut Client) {
    tunnel.send("x");
    assert_eq!(tunnel.take(1), b"x");
}

fn get(client: &mut Client, target: &str) -> Response {
    client.send_get(target);
    client.response()
}

/// Counts something over threads.
#[derive(Clone, Default)]
struct Tally(Arc<AtomicUsize>);

impl Tally {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
