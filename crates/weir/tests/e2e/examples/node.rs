//! `examples/node`: two processes of Node, used by a browser and by scripted clients.

use std::net::{SocketAddr, TcpStream};

use rustix::process::Signal;

use super::{config, folder};
use crate::harness::browser::Browser;
use crate::harness::foreign_program::{foreign_command, free_address};
use crate::harness::websocket::HANDSHAKE;
use crate::harness::{Client, End, ForeignProgram, Weir, eventually, temporary_folder};

const NAMES: [&str; 2] = ["node-1", "node-2"];

fn start() -> (Weir, [ForeignProgram; 2]) {
    let addresses: [SocketAddr; 2] = [free_address(), free_address()];
    let started = std::array::from_fn(|index| {
        let mut command = foreign_command("node");
        command.arg(folder().join("node/server.mjs"));
        command.env("ADDRESS", addresses[index].to_string()).env("NAME", NAMES[index]);
        ForeignProgram::start(command, temporary_folder(), |_| TcpStream::connect(addresses[index]).is_ok())
    });
    let text = config(
        "node/weir.toml",
        &[
            (":8080\"", "127.0.0.1:0\""),
            ("127.0.0.1:3001\"", &format!("{}\"", addresses[0])),
            ("127.0.0.1:3002\"", &format!("{}\"", addresses[1])),
        ],
    );
    (Weir::start(&text), started)
}

/// The head of a response whose body goes on, and the client for the rest.
fn open_events(weir: &Weir, cookie: &str) -> (Client, String) {
    let mut client = Client::connect(weir.web());
    let fields = "Host: a.test\r\nAccept: text/event-stream\r\nAccept-Encoding: gzip, br, zstd\r\n";
    client.send(format!("GET /events HTTP/1.1\r\n{fields}{cookie}\r\n"));
    let head = client.head();
    assert_eq!(head.status(), Ok(200), "{head:?}");
    assert_eq!(head.fields.one("content-type"), Some("text/event-stream"));
    assert_eq!(head.fields.one("content-encoding"), None, "events are not compressed");
    let cookie = head.fields.one("set-cookie").and_then(|set| set.split(';').next());
    (client, format!("Cookie: {}\r\n", cookie.unwrap_or_default()))
}

/// The next chunk of a body, which is one event.
fn event(client: &mut Client) -> String {
    let mut size = String::new();
    while !size.ends_with("\r\n") {
        size.push(client.take(1)[0] as char);
    }
    let len =
        usize::from_str_radix(size.trim(), 16).unwrap_or_else(|_| panic!("no size of a chunk: {size:?}"));
    let chunk = String::from_utf8(client.take(len + 2)).expect("events are text");
    chunk.trim_end().to_owned()
}

#[test]
fn a_browser_gets_events_and_talks_over_a_websocket() {
    let (weir, _nodes) = start();
    let mut browser = Browser::start();
    browser.go(&format!("http://{}/", weir.web()));
    let mut heading = String::new();
    eventually("the page is there", || {
        heading = browser.text("h1");
        heading.starts_with("Chat on node-")
    });
    let name = heading.trim_start_matches("Chat on ").to_owned();
    let mut list = String::new();
    eventually("the first event is there, from the process that made the page", || {
        list = browser.text("#list");
        list == format!("event: hello from {name}")
    });
    // A line that is sent before the socket is open is an error of the page.
    eventually("the socket is open", || browser.evaluate("socket.readyState") == 1);
    browser.evaluate("text.value = 'good morning'; form.requestSubmit()");
    eventually("it came back by both ways", || {
        list = browser.text("#list");
        list.contains("event: good morning") && list.contains("socket: good morning")
    });
    assert_eq!(browser.complaints(), [] as [String; 0]);
}

#[test]
fn events_leave_at_once_and_pages_are_compressed() {
    let (weir, _nodes) = start();
    let (mut events, cookie) = open_events(&weir, "");
    let hello = event(&mut events);
    let name = hello.strip_prefix("data: hello from ").expect("the first event comes alone").to_owned();
    for number in 0..3 {
        let text = format!("number {number}");
        let fields = format!("Host: a.test\r\n{cookie}Content-Length: {}\r\n", text.len());
        let said = Client::exchange(weir.web(), &format!("POST /say HTTP/1.1\r\n{fields}\r\n{text}"));
        assert_eq!(said.status, 204);
        assert_eq!(event(&mut events), format!("data: {text}"));
    }
    let get = |fields: &str| {
        Client::exchange(weir.web(), &format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}{cookie}\r\n"))
    };
    for _ in 0..4 {
        assert!(get("").text().contains(&format!("Chat on {name}<")), "the cookie leads to one process");
    }
    let page = get("Accept-Encoding: gzip\r\n");
    assert_eq!(page.field("content-encoding"), Some("gzip"));
    assert!(page.body.bytes.len() < 1000, "{} bytes", page.body.bytes.len());
}

#[test]
fn a_websocket_returns_what_it_is_sent() {
    let (weir, _nodes) = start();
    let mut client = Client::connect(weir.web());
    client.send(HANDSHAKE);
    let head = client.head();
    assert_eq!(head.status(), Ok(101), "{head:?}");
    assert!(head.fields.one("set-cookie").is_some_and(|set| set.starts_with("node-server=")), "{head:?}");
    for len in [1_usize, 125, 126, 60_000] {
        let text = "x".repeat(len);
        let mut frame = vec![0x81];
        match len {
            0..126 => frame.push(0x80 | len as u8),
            _ => frame.extend([0x80 | 126, (len >> 8) as u8, len as u8]),
        }
        // A mask of zeros leaves the text as it is.
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        client.send(&frame);
        let head = if len < 126 { 2 } else { 4 };
        assert_eq!(client.take(head + len)[head..], *text.as_bytes());
    }
}

#[test]
fn clients_of_a_process_that_hangs_come_to_the_other_one() {
    let (weir, nodes) = start();
    let (mut events, cookie) = open_events(&weir, "");
    let hello = event(&mut events);
    let hung = NAMES.iter().position(|name| hello.ends_with(name)).expect("the event names the process");
    nodes[hung].signal(Signal::STOP);
    // The stream is cut by `on_down`; without that, it would be silent.
    let (_, end) = events.take_to_end();
    assert_ne!(end, End::Silence);
    let (mut events, _) = open_events(&weir, &cookie);
    assert_eq!(event(&mut events), format!("data: hello from {}", NAMES[1 - hung]));
}
