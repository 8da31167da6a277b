//! Upstreams get other servers while requests run: nothing is lost, and what leaves ends what it has begun.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_config::{Config, Server, ServerAddress};
use weir_control::{Proxy, ServerChanges};
use weir_proxy::net::listening::BoundAddress;
use weir_traffic::ServerTier;

/// How long a test waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that answers with its name; a request for `/held` waits for a word.
struct NamedServer {
    name: &'static str,
    addr: SocketAddr,
    held: Receiver<()>,
    release: Sender<()>,
}

impl NamedServer {
    fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("it is bound");
        let ((holds, held), (release, released)) = (channel(), channel());
        let released = Arc::new(Mutex::new(released));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                let (holds, released) = (holds.clone(), Arc::clone(&released));
                std::thread::spawn(move || answer(stream, name, &holds, &released));
            }
        });
        Self { name, addr, held, release }
    }

    fn server(&self) -> Server {
        let mut server = Server::new(ServerAddress::Ip(self.addr));
        server.name = self.name.into();
        server
    }
}

fn answer(mut stream: TcpStream, name: &str, holds: &Sender<()>, released: &Mutex<Receiver<()>>) {
    while let Some(request) = read_request(&mut stream) {
        if request.starts_with("GET /held ") {
            let _test_is_over = holds.send(());
            let _test_is_over = released.lock().expect("no test panics with it").recv();
        }
        let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
        if stream.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

/// A request with its body; `None` at the end of the connection.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut text = String::new();
    let mut buf = [0; 4096];
    loop {
        let whole = text
            .split_once("\r\n\r\n")
            .is_some_and(|(head, body)| !head.contains("Content-Length: 4") || body.len() >= 4);
        if whole {
            return Some(text);
        }
        let read = stream.read(&mut buf).ok().filter(|read| *read > 0)?;
        text.push_str(&String::from_utf8_lossy(&buf[..read]));
    }
}

/// A client with one connection.
struct PlainClient(TcpStream);

impl PlainClient {
    fn new(proxy: &Proxy) -> Self {
        let BoundAddress::Inet(addr) = proxy.bound_listeners()[0].address else { panic!("a TCP address") };
        Self::connect(addr)
    }

    fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).expect("the proxy listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        Self(stream)
    }

    fn send(&mut self, request: &str) {
        self.0.write_all(request.as_bytes()).expect("the proxy reads");
    }

    /// Status and body of the next response.
    fn response(&mut self) -> (u16, String) {
        let mut text = String::new();
        let mut buf = [0; 4096];
        loop {
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head
                    .lines()
                    .find_map(|line| line.to_lowercase().strip_prefix("content-length: ").map(str::to_owned));
                let length: usize = length.expect("a length").parse().expect("a number");
                if body.len() >= length {
                    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
                    return (status, body.to_owned());
                }
            }
            let read = self.0.read(&mut buf).expect("a response in time");
            assert!(read > 0, "the connection has ended after {text:?}");
            text.push_str(&String::from_utf8_lossy(&buf[..read]));
        }
    }

    fn get(&mut self, path: &str) -> (u16, String) {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        self.response()
    }

    fn post(&mut self) -> (u16, String) {
        self.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody");
        self.response()
    }

    /// Who answers `count` requests, each once, sorted.
    fn servers_of(&mut self, count: usize) -> Vec<String> {
        let mut names: Vec<String> = (0..count).map(|_| self.get("/").1).collect();
        names.sort();
        names.dedup();
        names
    }
}

fn start(first: &[&NamedServer], more: &str) -> Proxy {
    let servers: Vec<String> = first
        .iter()
        .map(|server| format!("{{ name = \"{}\", address = \"{}\" }}", server.name, server.addr))
        .collect();
    let config = format!(
        "process.workers = 2
         listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}
         [upstream.app]
         balance = \"round-robin\"
         servers = [{}]
         {more}",
        servers.join(", ")
    );
    let config = Config::parse(&config, "weir.toml").expect("a good config");
    Proxy::start(&config).expect("the proxy starts")
}

fn change(proxy: &mut Proxy, servers: Vec<Server>) -> usize {
    let changes = vec![ServerChanges { upstream: "app".into(), servers }];
    proxy.set_servers(changes).expect("nothing can fail without TLS")
}

#[test]
fn a_server_that_is_gone_ends_what_it_has_begun_and_gets_nothing_new() {
    let [a, b, c] = ["a", "b", "c"].map(NamedServer::start);
    let mut proxy = start(&[&a], "");
    let mut waiting = PlainClient::new(&proxy);
    waiting.send("GET /held HTTP/1.1\r\nHost: a.test\r\n\r\n");
    a.held.recv_timeout(PATIENCE).expect("the request is at the server");
    let mut client = PlainClient::new(&proxy);
    assert_eq!(client.servers_of(2), ["a"]);
    assert_eq!(change(&mut proxy, vec![b.server(), c.server()]), 1);
    assert_eq!(client.servers_of(8), ["b", "c"], "on a connection that was open before");
    assert_eq!(PlainClient::new(&proxy).servers_of(8), ["b", "c"]);
    assert_eq!(change(&mut proxy, vec![b.server(), c.server()]), 0, "they are the same");
    a.release.send(()).expect("it waits");
    assert_eq!(waiting.response(), (200, "a".to_owned()));
    assert_eq!(change(&mut proxy, vec![a.server(), c.server()]), 1);
    assert_eq!(client.servers_of(8), ["a", "c"], "one that was gone is back");
}

#[test]
fn an_upstream_may_have_no_server_for_a_time() {
    let a = NamedServer::start("a");
    let mut proxy = start(&[&a], "");
    let mut client = PlainClient::new(&proxy);
    assert_eq!(change(&mut proxy, Vec::new()), 1);
    assert_eq!(client.get("/").0, 503);
    assert_eq!(change(&mut proxy, vec![a.server()]), 1);
    assert_eq!(PlainClient::new(&proxy).get("/"), (200, "a".to_owned()));
}

#[test]
fn servers_of_the_last_resort_get_requests_when_they_are_all_that_is_left() {
    let [a, b] = ["a", "b"].map(NamedServer::start);
    let mut proxy = start(&[&a, &b], "");
    let mut client = PlainClient::new(&proxy);
    let ending = |server: &NamedServer| {
        let mut server = server.server();
        server.tier = ServerTier::LastResort;
        server
    };
    change(&mut proxy, vec![ending(&a), b.server()]);
    assert_eq!(client.servers_of(6), ["b"]);
    change(&mut proxy, vec![ending(&a)]);
    assert_eq!(client.servers_of(3), ["a"]);
}

#[test]
fn an_unknown_upstream_is_passed_over() {
    let a = NamedServer::start("a");
    let mut proxy = start(&[&a], "");
    let unknown = ServerChanges { upstream: "other".into(), servers: Vec::new() };
    assert_eq!(proxy.set_servers(vec![unknown]).expect("nothing fails"), 0);
    assert_eq!(PlainClient::new(&proxy).get("/").0, 200);
}

#[test]
fn what_changes_all_the_time_loses_no_request() {
    const CHANGES: usize = 300;
    let servers: Vec<NamedServer> = ["a", "b", "c", "d", "e"].map(NamedServer::start).into();
    let mut proxy = start(&servers.iter().take(2).collect::<Vec<_>>(), "");
    let BoundAddress::Inet(addr) = proxy.bound_listeners()[0].address else { panic!("a TCP address") };
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
            std::thread::spawn(move || {
                let mut client = PlainClient::connect(addr);
                while !is_over.load(Ordering::Relaxed) {
                    let (status, body) = if number % 2 == 0 { client.get("/") } else { client.post() };
                    assert_eq!(status, 200, "{body}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for turn in 0..CHANGES {
        let chosen = servers.iter().enumerate().filter(|(at, _)| (turn >> at) & 1 == 1 || *at == turn % 5);
        change(&mut proxy, chosen.map(|(_, server)| server.server()).collect());
        // Each set of servers sees some requests.
        let seen = answered.load(Ordering::Relaxed);
        while answered.load(Ordering::Relaxed) < seen + 4
            && !clients.iter().any(std::thread::JoinHandle::is_finished)
        {
            std::thread::yield_now();
        }
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().expect("every request was answered 200");
    }
    assert!(answered.load(Ordering::Relaxed) >= CHANGES);
}
