//! Open connections: every state is visible in the list, connections are ended in each state, and only with permission.

mod answers;
mod ends;
mod states;

use serde_json::Value;

use crate::harness::admin::json;
use crate::harness::tls::WEB_TLS;
use crate::harness::websocket::{HANDSHAKE, switch_and_return_bytes};
use crate::harness::{
    CertificateAuthority, Client, Connection, Gate, Origin, Response, Weir, config_with, eventually,
    origin::ok,
};

/// An origin that holds `/held` until the gate opens, sends half of `/half` and waits for it too, leaves `/left` without an answer, makes
/// `/socket` a tunnel that sends bytes back, and answers anything else.
fn origin(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn: &mut Connection| {
        loop {
            match conn.request()?.target().split('?').next().unwrap_or_default() {
                "/held" => {
                    gate.wait("the test lets the request go on");
                    conn.send(ok("fine"))?;
                }
                "/left" => {
                    conn.wait_for_end();
                    return Some(());
                }
                "/half" => {
                    conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")?;
                    gate.wait("the test lets the response go on");
                    conn.send("other")?;
                }
                "/socket" => return switch_and_return_bytes(conn),
                _ => conn.send(ok("fine"))?,
            }
        }
    })
}

/// A Weir with a server `a` and a socket where changes are allowed.
fn start(origin: &Origin, settings: &str) -> Weir {
    Weir::start(&config(&origin.address().to_string(), settings))
}

/// The same with TLS on the listener `web`, and the authority that clients trust.
fn start_with_tls(origin: &Origin) -> (CertificateAuthority, Weir) {
    let authority = CertificateAuthority::new();
    let text = config(&origin.address().to_string(), WEB_TLS);
    let weir = Weir::start_in(authority.folder_for_web(), &text);
    (authority, weir)
}

fn config(server: &str, settings: &str) -> String {
    let servers = [format!("{{ name = \"a\", address = \"{server}\" }}")];
    let socket = "admin.socket = \"unix:{dir}/weir.sock\"\nprocess.workers = 2";
    config_with(&servers, &format!("{socket}\n{settings}"))
}

/// What is at `target` of the admin API.
fn look(weir: &Weir, target: &str) -> Value {
    json(&Client::exchange(weir.socket(), &format!("GET {target} HTTP/1.1\r\nHost: weir\r\n\r\n")))
}

fn post(weir: &Weir, target: &str) -> Response {
    let request = format!("POST {target} HTTP/1.1\r\nHost: weir\r\nContent-Length: 0\r\n\r\n");
    Client::exchange(weir.socket(), &request)
}

/// A client that has sent this.
fn sent(weir: &Weir, bytes: impl AsRef<[u8]>) -> Client {
    let mut client = Client::connect(weir.web());
    client.send(bytes);
    client
}

/// The connections, the oldest first.
fn connections(weir: &Weir, query: &str) -> Vec<Value> {
    look(weir, &format!("/api/connections{query}"))["connections"].as_array().expect("a list").clone()
}

/// The connection of this client once it is in this state.
fn connection(weir: &Weir, client: &Client, state: &str) -> Value {
    let from = format!("127.0.0.1:{}", client.local_port());
    let mut found = Value::Null;
    eventually(&format!("the connection is in state {state}"), || {
        found = connections(weir, "")
            .into_iter()
            .find(|connection| connection["client"] == *from)
            .unwrap_or_default();
        found["state"] == state
    });
    found
}

fn id(connection: &Value) -> &str {
    connection["id"].as_str().expect("a connection has an id")
}

/// How often connections were ended on request, by the counter of failures.
fn cut(weir: &Weir) -> f64 {
    weir.metrics().all("weir_listener_failures_total", &["reason=\"killed-by-operator\""]).iter().sum()
}
