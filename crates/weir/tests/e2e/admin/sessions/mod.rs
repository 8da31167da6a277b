//! What runs now: every state in which a session can wait is seen from outside, sessions are ended in each of them, and who may do that.

mod answers;
mod ends;
mod states;

use std::process::Output;

use serde_json::Value;

use crate::harness::stream::Address;
use crate::harness::weir::command;
use crate::harness::{Client, Connection, Gate, Origin, Response, Weir, eventually, origin::ok};

const HANDSHAKE: &str = "GET /socket HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

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
                "/socket" => {
                    conn.send(SWITCH)?;
                    loop {
                        let byte = conn.take(1)?;
                        conn.send(byte)?;
                    }
                }
                _ => conn.send(ok("fine"))?,
            }
        }
    })
}

/// A Weir with a listener `web`, a server `a` in an upstream `app`, a socket where changes are allowed, and these settings as dotted keys.
fn start(origin: &Origin, settings: &str) -> Weir {
    start_on("\"127.0.0.1:0\"", &origin.address().to_string(), settings)
}

fn start_on(listener: &str, server: &str, settings: &str) -> Weir {
    Weir::start(&config(listener, server, "", settings))
}

fn config(listener: &str, server: &str, socket: &str, settings: &str) -> String {
    format!(
        "admin = {{ address = \"127.0.0.1:0\", socket = \"unix:{{dir}}/weir.sock\"{socket} }}\nprocess.workers = 2\n\
         listener.web.address = {listener}\nlistener.web.upstream = \"app\"\n\
         upstream.app.servers = [{{ name = \"a\", address = \"{server}\" }}]\n{settings}\n"
    )
}

fn socket(weir: &Weir) -> Address {
    Address::Unix(weir.folder().join("weir.sock"))
}

/// What is at `target` of the admin API.
fn look(weir: &Weir, target: &str) -> Value {
    let response = Client::exchange(socket(weir), &format!("GET {target} HTTP/1.1\r\nHost: weir\r\n\r\n"));
    assert_eq!(response.status, 200, "{target}: {}", response.text());
    serde_json::from_str(&response.text()).unwrap_or_else(|error| panic!("{error}: {}", response.text()))
}

fn post(weir: &Weir, target: &str) -> Response {
    let request = format!("POST {target} HTTP/1.1\r\nHost: weir\r\nContent-Length: 0\r\n\r\n");
    Client::exchange(socket(weir), &request)
}

/// The answer of the socket to a command.
fn ask(weir: &Weir, line: &str) -> String {
    let Address::Unix(path) = socket(weir) else { panic!("it is a path") };
    let stream = std::os::unix::net::UnixStream::connect(path).expect("the socket is there");
    let mut client = Client::on(crate::harness::stream::Stream::Unix(stream));
    client.send(format!("{line}\n"));
    String::from_utf8(client.take_to_end().0).expect("answers are UTF-8")
}

/// The sessions, the oldest first.
fn sessions(weir: &Weir, query: &str) -> Vec<Value> {
    look(weir, &format!("/api/sessions{query}"))["sessions"].as_array().expect("a list").clone()
}

/// The session of this client once it is in this state.
fn session(weir: &Weir, client: &Client, state: &str) -> Value {
    let from = format!("127.0.0.1:{}", client.local_port());
    let mut found = Value::Null;
    eventually(&format!("the session is in state {state}"), || {
        found = sessions(weir, "").into_iter().find(|session| session["client"] == *from).unwrap_or_default();
        found["state"] == state
    });
    found
}

fn id(session: &Value) -> &str {
    session["id"].as_str().expect("a session has an id")
}

/// Runs `weir` with these arguments, on the socket.
fn run(weir: &Weir, arguments: &[&str]) -> Output {
    let socket = format!("unix:{}", weir.folder().join("weir.sock").display());
    let arguments: Vec<&str> = arguments.iter().chain(&["--admin", &socket]).copied().collect();
    command(&arguments).output().expect("the program was built with this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// How often sessions were ended on request, by the counter of failures.
fn cut(weir: &Weir) -> f64 {
    weir.metrics().all("weir_listener_failures_total", &["reason=\"cut-by-operator\""]).iter().sum()
}
