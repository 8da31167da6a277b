//! The runtime socket: what it says, what can be changed there while requests go on, who may do that, and the programs that were made for
//! HAProxy's.

mod commands;
mod changes;
mod refusals;
mod tools;

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::harness::stream::Address;
use crate::harness::watchdog::WATCHDOG;
use crate::harness::weir::command;
use crate::harness::{Client, Connection, Gate, Origin, Weir, eventually, origin::ok};

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// An origin that says its name; `/held` waits for the gate, `/socket` becomes a tunnel that sends every byte back.
fn named(name: &'static str, gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn: &mut Connection| {
        loop {
            match conn.request()?.target() {
                "/held" => {
                    gate.wait("the test lets the request go on");
                    conn.send(ok(name))?;
                }
                "/socket" => {
                    conn.send(SWITCH)?;
                    loop {
                        let byte = conn.take(1)?;
                        conn.send(byte)?;
                    }
                }
                _ => conn.send(ok(name))?,
            }
        }
    })
}

/// A config with the socket `weir.sock`, a listener `web` and an upstream `app` with servers `a`, `b`, ... of weight 10.
fn config(origins: &[&Origin], socket: &str, settings: &str) -> String {
    let server = |(name, origin): (char, &&Origin)| {
        format!("{{ name = \"{name}\", address = \"{}\", weight = 10 }}", origin.address())
    };
    let servers: Vec<String> = ('a'..).zip(origins).map(server).collect();
    format!(
        "admin = {{ address = \"127.0.0.1:0\", socket = \"unix:{{dir}}/weir.sock\"{socket} }}\n\
         listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n[upstream.app]\nservers = [{}]\n{settings}\n",
        servers.join(", ")
    )
}

fn path(weir: &Weir) -> PathBuf {
    weir.folder().join("weir.sock")
}

/// What is answered to a line until the connection is closed.
fn ask(weir: &Weir, line: &str) -> String {
    let mut stream = UnixStream::connect(path(weir)).expect("the socket is there");
    stream.set_read_timeout(Some(WATCHDOG)).expect("a socket has a read timeout");
    writeln!(stream, "{line}").expect("the socket takes a line");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer comes to its end");
    answer
}

/// A value of `show stat`, by the names of proxy, service and column.
fn stat(weir: &Weir, proxy: &str, service: &str, column: &str) -> String {
    let csv = ask(weir, "show stat");
    let mut lines = csv.lines();
    let header = lines.next().unwrap_or_default().trim_start_matches("# ");
    let at = header
        .split(',')
        .position(|name| name == column)
        .unwrap_or_else(|| panic!("no {column} in {header}"));
    let row = lines.find(|line| line.starts_with(&format!("{proxy},{service},")));
    let row = row.unwrap_or_else(|| panic!("no {proxy}/{service} in {csv}"));
    row.split(',').nth(at).unwrap_or_default().to_owned()
}

/// `weir ctl` with these arguments, asked over the socket.
fn ctl(weir: &Weir, arguments: &[&str]) -> Output {
    let socket = format!("unix:{}", path(weir).display());
    let arguments: Vec<&str> =
        ["ctl"].iter().chain(arguments).chain(&["--admin", &socket]).copied().collect();
    command(&arguments).output().expect("weir runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn http(weir: &Weir, request: &str) -> crate::harness::Response {
    Client::exchange(Address::Unix(path(weir)), request)
}

fn post(weir: &Weir, target: &str, body: &str) -> crate::harness::Response {
    let length = body.len();
    http(weir, &format!("POST {target} HTTP/1.1\r\nHost: weir\r\nContent-Length: {length}\r\n\r\n{body}"))
}

/// Requests that go on until the test has seen enough; not one may fail.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Some clients that keep their connections, some that do not.
    fn start(web: SocketAddr) -> Load {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = |keeps: bool| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || {
                let mut client = Client::connect(web);
                while !stop.load(Ordering::SeqCst) {
                    if !keeps {
                        client = Client::connect(web);
                    }
                    client.send_get("/work");
                    let response = client.response();
                    assert_eq!(response.status, 200, "{response:?}");
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let clients = [true, false, true].into_iter().map(client).collect();
        Load { stop, done, clients }
    }

    /// Waits until requests that began after this moment have been answered.
    fn goes_on(&self) {
        let enough = self.done.load(Ordering::SeqCst) + 2 * self.clients.len() as u64;
        let fails = || self.clients.iter().any(JoinHandle::is_finished);
        eventually("requests go on", || self.done.load(Ordering::SeqCst) >= enough || fails());
    }

    fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().expect("no request has failed");
        }
    }
}
