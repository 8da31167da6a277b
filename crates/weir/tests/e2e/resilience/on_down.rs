//! `on_down`: the treatment of connections to a server that its probes find down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{Client, End, FailureSwitch, Gate, Origin, Weir, eventually};

const HEALTH: &str =
    "health = { send = \"ping\", expect = \"pong\", interval = \"50ms\", timeout = \"300ms\", fall = 2 }";

/// A server that answers probes until it is ill, and echoes what clients send; then it hangs, as a stopped process does.
fn database(is_ill: &FailureSwitch) -> Origin {
    let ill = is_ill.clone();
    Origin::start(move |conn| {
        let first = conn.take(4)?;
        let answer: &[u8] = if first == b"ping" { b"pong" } else { &first };
        if ill.is_on() {
            conn.wait_for_end();
            return Some(());
        }
        conn.send(answer)?;
        conn.wait_for_end();
        Some(())
    })
}

fn start(server: &Origin, on_down: &str) -> Weir {
    Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\n\
         [listener.web]\naddress = \"127.0.0.1:0\"\nprotocol = \"tcp\"\nupstream = \"app\"\n\
         access_log = {{ format = \"{{bytes_out}} {{ended_by}} {{reason}}\", output = \"file:{{dir}}/access.log\" }}\n\
         [upstream.app]\nservers = [{}]\n{HEALTH}\n{on_down}\n",
        server.named("a")
    ))
}

fn open(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_listener_tunnels_open", &[])
}

#[test]
fn close_ends_tunnels_when_the_server_is_found_down() {
    let is_ill = FailureSwitch::new(false);
    let server = database(&is_ill);
    let weir = start(&server, "on_down = \"close\"");
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(weir.web())).collect();
    for client in &mut clients {
        client.send("data");
        assert_eq!(client.take(4), b"data");
    }
    is_ill.set(true);
    for client in &mut clients {
        assert_eq!(client.take_to_end(), (Vec::new(), End::Closed), "a waiting client sees the close");
    }
    weir.line(&["connections through the server that is down were closed", "server=\"a\"", "connections=3"]);
    eventually("they are gone", || open(&weir) == 0.0);
    assert_eq!(weir.access_log(3), ["4 server server-down"; 3]);
}

#[test]
fn without_it_they_go_on() {
    let is_ill = FailureSwitch::new(false);
    let server = database(&is_ill);
    let weir = start(&server, "");
    let mut client = Client::connect(weir.web());
    client.send("data");
    assert_eq!(client.take(4), b"data");
    is_ill.set(true);
    weir.line(&["the server is down"]);
    assert_eq!(open(&weir), 1.0);
}

/// A request that waits for a server that goes down is tried on another, like one whose connection breaks; what the client has begun to
/// get is cut off.
#[test]
fn requests_go_elsewhere_where_retries_may() {
    let gate = Gate::new();
    let is_down = Arc::new(AtomicBool::new(false));
    let (down, held) = (Arc::clone(&is_down), gate.clone());
    let a = Origin::start(move |conn| {
        loop {
            let target = conn.request()?.target().to_owned();
            if target == "/healthz" {
                let status = if down.load(Ordering::SeqCst) { 503 } else { 200 };
                conn.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n"))?;
            } else {
                if target == "/begun" {
                    conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")?;
                }
                held.wait("the server is down");
                return Some(());
            }
        }
    });
    let b = Origin::serving("b");
    let weir = Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
         [upstream.app]\nservers = [{}, {{ name = \"b\", address = \"{}\", backup = true }}]\n\
         health = {{ path = \"/healthz\", interval = \"30ms\", timeout = \"15s\", fall = 2 }}\non_down = \"close\"\n",
        a.named("a"),
        b.address()
    ));
    let mut clients: Vec<Client> = ["GET /wait", "POST /wait", "GET /begun"]
        .map(|line| {
            let mut client = Client::connect(weir.web());
            client.send(format!("{line} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"));
            client
        })
        .into();
    let asked = || a.targets().iter().filter(|target| *target != "/healthz").count();
    eventually("all are on the server", || asked() == 3);
    clients[2].head();
    assert_eq!(clients[2].take(4), b"half");
    is_down.store(true, Ordering::SeqCst);
    assert_eq!(clients[0].response().text(), "b");
    let refused = clients[1].response();
    assert_eq!((refused.status, refused.reason()), (502, Some("server-down")), "a POST is not sent twice");
    assert_eq!(clients[2].take_to_end(), (Vec::new(), End::Closed));
    gate.open();
}
