//! More connections at once than there is room for: the surplus waits in the backlog, responses make room by `Connection: close`, and every
//! request is answered.

use std::net::SocketAddr;
use std::thread;

use rustls::ClientConfig;

use crate::harness::http2::H2C;
use crate::harness::origin::ok;
use crate::harness::scripts::echo;
use crate::harness::tls::{WEB_TLS, connect};
use crate::harness::watchdog::pause;
use crate::harness::{CertificateAuthority, Client, Gate, Http2Client, Origin, Weir, config_with};

/// How the clients of a crowd connect.
enum Transport {
    Plain,
    Tls(ClientConfig),
    Http2,
    Http2Tls(CertificateAuthority),
}

/// What each client of a crowd sends, and whether it wants to keep its connection.
#[derive(Debug, Clone, Copy)]
struct Crowd {
    count: usize,
    is_post: bool,
    is_kept: bool,
}

/// A connection of a client that has its response, if it is open still.
#[derive(Debug)]
enum Open {
    Http1(#[expect(dead_code, reason = "it is only held")] Client),
    Http2(#[expect(dead_code, reason = "it is only held")] Box<Http2Client>),
}

impl Transport {
    /// Connects, sends one request, and panics unless its response comes.
    fn serve(&self, to: SocketAddr, number: usize, crowd: Crowd) -> Option<Open> {
        let mut client = match self {
            Self::Plain => Client::connect(to),
            Self::Tls(config) => connect(to, config.clone(), "a.test"),
            Self::Http2 => return Self::serve_http2(Http2Client::connect(to), number, crowd),
            Self::Http2Tls(authority) => {
                return Self::serve_http2(Http2Client::connect_tls(authority, to), number, crowd);
            }
        };
        let connection = if crowd.is_kept { "" } else { "Connection: close\r\n" };
        let (method, body) = if crowd.is_post { ("POST", "body") } else { ("GET", "") };
        let length = if crowd.is_post { "Content-Length: 4\r\n" } else { "" };
        client.send(format!("{method} /{number} HTTP/1.1\r\nHost: a.test\r\n{connection}{length}\r\n{body}"));
        let response = client.response();
        assert_eq!((response.status, response.text()), (200, format!("/{number}{body}")), "{crowd:?}");
        (crowd.is_kept && !response.closes()).then_some(Open::Http1(client))
    }

    fn serve_http2(mut client: Http2Client, number: usize, crowd: Crowd) -> Option<Open> {
        let target = format!("/{number}");
        let response =
            if crowd.is_post { client.fetch_by_post(&target, b"body") } else { client.fetch(&target) };
        assert_eq!(response.status, 200, "{crowd:?}");
        // A client that keeps its connection reads on, and knows of its end.
        let _ended = client.try_settle();
        (crowd.is_kept && client.goaways.is_empty()).then(|| Open::Http2(Box::new(client)))
    }
}

/// Has all clients of a crowd served at once, each on a thread of its own; those that keep their connection keep it until all are.
fn serve_crowd(weir: &Weir, transport: &Transport, crowd: Crowd) {
    let to = weir.web();
    let served: Vec<Option<Open>> = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..crowd.count).map(|number| scope.spawn(move || transport.serve(to, number, crowd))).collect();
        clients.into_iter().map(|client| client.join().expect("it is answered")).collect()
    });
    assert_eq!(served.len(), crowd.count);
}

fn serve_crowds(weir: &Weir, transport: &Transport, count: usize) {
    for (is_post, is_kept) in [(false, false), (true, false), (false, true), (true, true)] {
        serve_crowd(weir, transport, Crowd { count, is_post, is_kept });
    }
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_listener_requests_total", &[]), 4.0 * count as f64);
    assert_eq!(metrics.sum("weir_worker_slow_heads_ended_total", &[]), 0.0, "no client was slow");
}

fn limited(origin: &Origin, settings: &str) -> String {
    config_with(&[origin.entry()], &format!("process.connections_max = 100\n{settings}"))
}

#[test]
fn of_120_clients_at_a_limit_of_100_each_is_answered() {
    let origin = echo();
    for limit in ["process", "listener.web"] {
        let settings = format!("process.workers = 2\n{limit}.connections_max = 100");
        serve_crowds(&Weir::start(&config_with(&[origin.entry()], &settings)), &Transport::Plain, 120);
    }
    let weir = Weir::start(&limited(&origin, H2C));
    serve_crowds(&weir, &Transport::Http2, 120);
}

#[test]
fn of_120_clients_with_tls_each_is_answered() {
    let origin = echo();
    let authority = CertificateAuthority::new();
    let weir = Weir::start_in(authority.folder_for_web(), &limited(&origin, WEB_TLS));
    serve_crowds(&weir, &Transport::Tls(authority.client()), 120);
    let weir = Weir::start_in(authority.folder_for_web(), &limited(&origin, WEB_TLS));
    serve_crowds(&weir, &Transport::Http2Tls(authority), 120);
}

#[test]
fn of_1_500_clients_with_512_descriptors_each_is_answered() {
    let origin = echo();
    let config = |settings| config_with(&[origin.entry()], settings);
    serve_crowds(&Weir::start_limited(512, &config("")), &Transport::Plain, 1_500);
    serve_crowds(&Weir::start_limited(512, &config(H2C)), &Transport::Http2, 1_500);
}

/// A client that is connected and has not sent anything is about to: it makes no room.
#[test]
fn connections_that_are_just_open_do_not_make_room() {
    let origin = echo();
    let weir = Weir::start(&limited(&origin, ""));
    let mut clients: Vec<Client> = (0..120).map(|_| Client::connect(weir.web())).collect();
    for client in &mut clients {
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody");
    }
    // Those of one worker may wait for a client that is read later.
    let readers = clients
        .into_iter()
        .map(|mut client| thread::spawn(move || assert_eq!(client.response().text(), "/body")));
    readers.collect::<Vec<_>>().into_iter().for_each(|reader| reader.join().expect("it is answered"));
    assert_eq!(weir.metrics().sum("weir_worker_idle_connections_closed_total", &[]), 0.0);
}

/// But it does not keep others out for ever.
#[test]
fn connections_that_stay_silent_make_room_after_a_second() {
    let origin = echo();
    let authority = CertificateAuthority::new();
    let settings = format!(
        "process.workers = 1\nprocess.connections_max = 6\nlistener.plain.upstream = \"app\"\n\
                 listener.plain.address = \"127.0.0.1:0\"\n{WEB_TLS}listener.plain.http2.prior_knowledge = \"allowed\""
    );
    let weir = Weir::start_in(authority.folder_for_web(), &config_with(&[origin.entry()], &settings));
    let plain = weir.address("plain");
    let _silent = [Client::connect(plain), Client::connect(weir.web())];
    let _shaken = [authority.connect(weir.web()), authority.connect(weir.web())];
    let mut http2 = [Http2Client::connect(plain), Http2Client::connect(plain)];
    http2[0].settle();
    http2[1].settle();
    let mut new: Vec<Client> = (0..6).map(|_| Client::connect(plain)).collect();
    for client in &mut new {
        client.send_get("/new");
    }
    for client in &mut new {
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(http2.each_mut().map(Http2Client::end_code), [0, 0], "each is told that nothing was taken");
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_worker_slow_heads_ended_total", &[]), 6.0);
    assert_eq!(metrics.sum("weir_worker_idle_connections_closed_total", &[]), 0.0);
}

/// A client that sends one request after the other learns by its response that its connection ends: none of its requests is lost.
#[test]
fn responses_end_connections_while_others_wait_for_their_places() {
    let origin = echo();
    for limit in ["process.connections_max = 2", "listener.web.connections_max = 2"] {
        let settings = format!("process.workers = 1\n{limit}\n{H2C}");
        let weir = Weir::start(&config_with(&[origin.entry()], &settings));
        let mut busy = Client::connect(weir.web());
        assert!(!busy.fetch("/0").closes(), "nothing waits");
        let mut streams = Http2Client::connect(weir.web());
        assert_eq!(streams.fetch("/0").status, 200);
        let mut waiting = [Client::connect(weir.web()), Client::connect(weir.web())];
        for client in &mut waiting {
            client.send("GET /waited HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        }
        let is_told = (1..100_000).any(|number| busy.fetch(&format!("/{number}")).closes());
        assert!(is_told);
        busy.assert_closed();
        drop(busy);
        for client in &mut waiting {
            assert_eq!(client.response().text(), "/waited", "{limit}");
        }
        let mut third = Client::connect(weir.web());
        assert!(!third.fetch("/again").closes(), "nothing waits any more");
    }
}

/// What a client has sent behind the request counts: a response that ends the connection would lose it.
#[test]
fn pipelined_requests_are_answered_first() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            if request.target() == "/first" {
                held.wait("another client waits");
            }
            conn.send(ok("fine"))?;
        }
    });
    let weir =
        Weir::start(&config_with(&[origin.entry()], "process.workers = 1\nprocess.connections_max = 1"));
    let mut client = Client::connect(weir.web());
    client.send(
        "GET /first HTTP/1.1\r\nHost: a.test\r\n\r\nPOST /second HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n",
    );
    origin.wait_for_requests(1);
    let mut other = Client::connect(weir.web());
    other.send_get("/other");
    gate.open();
    assert!(!client.response().closes());
    assert_eq!(client.response().status, 200);
    drop(client);
    assert_eq!(other.response().status, 200);
}

/// Over all workers, by the time for which they have been idle.
#[test]
fn the_connection_that_has_been_idle_longest_makes_room_whichever_worker_has_it() {
    const CLIENTS: usize = 12;
    let origin = Origin::serving("fine");
    let settings = format!("process.workers = 3\nprocess.connections_max = {CLIENTS}");
    let weir = Weir::start(&config_with(&[origin.entry()], &settings));
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(weir.web())).collect();
    // Last in an order of their own, so that the order in which they came says nothing.
    for step in 0..CLIENTS {
        assert_eq!(clients[step * 5 % CLIENTS].fetch("/").status, 200);
        pause();
    }
    let mut new = Vec::new();
    for step in 0..CLIENTS / 2 {
        let mut client = Client::connect(weir.web());
        assert_eq!(client.fetch("/new").status, 200);
        new.push(client);
        clients[step * 5 % CLIENTS].assert_closed();
    }
    for step in CLIENTS / 2..CLIENTS {
        clients[step * 5 % CLIENTS].assert_alive();
    }
}
