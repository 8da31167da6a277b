//! Every phase has a time limit; it ends what makes no progress, and nothing else.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::harness::scripts::gated;
use crate::harness::watchdog::{now, pause};
use crate::harness::{Client, End, Gate, Origin, Weir, origin::ok};

#[test]
fn a_connection_without_a_request() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "listener.web.timeouts.idle = \"200ms\"");
    Client::connect(weir.web()).assert_closed();
}

#[test]
fn a_connection_between_requests() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "listener.web.timeouts.idle = \"200ms\"");
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        assert_eq!(client.fetch("/").status, 200);
    }
    client.assert_closed();
}

/// A route has its own limit on the wait for a response, in place of that of the upstream.
#[test]
fn a_response_that_a_route_does_not_wait_for() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.web.address = \"127.0.0.1:0\"\n\
         [[listener.web.route]]\npath = \"/quick\"\nupstream = \"app\"\ntimeouts.response = \"100ms\"\n\
         [upstream.app]\nservers = [\"{}\"]\ntimeouts.response = \"10m\"\n",
        origin.address()
    ));
    let response = Client::get(weir.web(), "/quick");
    assert_eq!((response.status, response.reason()), (504, Some("response-timeout")));
}

/// An exchange under way is not idle, however long the server thinks.
#[test]
fn a_slow_server_is_not_an_idle_client() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        let start = now();
        while start.elapsed() < Duration::from_millis(600) {
            pause();
        }
        conn.send(ok("thought"))
    });
    let weir = Weir::proxying_with(&origin, "listener.web.timeouts.idle = \"200ms\"");
    assert_eq!(Client::get(weir.web(), "/").text(), "thought");
}

#[test]
fn a_head_that_does_not_end() {
    let origin = Origin::serving("never");
    let weir = Weir::proxying_with(&origin, "listener.web.timeouts.request = \"200ms\"");
    for part in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a.test\r\n"] {
        let mut client = Client::connect(weir.web());
        client.send(part);
        let response = client.response();
        assert_eq!((response.status, response.reason()), (408, Some("request-head-timeout")), "{part:?}");
        assert!(response.closes(), "{response:?}");
        client.assert_closed();
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_body_that_stands_still() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(ok("never"))
    });
    let weir = Weir::proxying_with(&origin, "listener.web.timeouts.request_body = \"200ms\"");
    for framing in ["Content-Length: 10\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
        let before = origin.connections();
        let mut client = Client::connect(weir.web());
        client.send(format!("POST /up HTTP/1.1\r\nHost: a.test\r\n{framing}"));
        let response = client.response();
        assert_eq!((response.status, response.reason()), (408, Some("request-body-timeout")), "{framing:?}");
        client.assert_closed();
        let end = origin.wait_for_end(before);
        assert!(matches!(end, End::Closed | End::Reset), "{end}");
    }
    assert!(origin.requests().is_empty());
}

#[test]
fn a_body_that_moves_lives_longer_than_its_credit() {
    let origin = Origin::start(|conn| {
        let request = conn.request()?;
        conn.send(ok(&request.text().len().to_string()))
    });
    let weir = Weir::proxying_with(&origin, "listener.web.timeouts.request_body = \"1s\"");
    let mut client = Client::connect(weir.web());
    client.send("POST /up HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let start = now();
    let mut sent = 0;
    while start.elapsed() < Duration::from_millis(2_500) {
        client.send("1\r\nx\r\n");
        sent += 1;
        pause();
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().text(), sent.to_string());
}

#[test]
fn a_body_that_trickles() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(ok("never"))
    });
    let limit = "listener.web.timeouts.request_body = { credit = \"300ms\", rate_min = \"10MiB/s\" }";
    let weir = Weir::proxying_with(&origin, limit);
    let mut client = Client::connect(weir.web());
    client.send("POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000\r\n\r\n");
    let mut writer = client.duplicate();
    std::thread::spawn(move || {
        while writer.send_what_is_taken("x").is_ok() {
            pause();
        }
    });
    let response = client.response();
    assert_eq!(response.status, 408, "{response:?}");
    assert!(
        ["request-body-too-slow", "request-body-timeout"].contains(&response.reason().unwrap_or_default())
    );
}

/// A listening socket whose queue is full drops further connections: there is no answer.
struct Deaf {
    address: SocketAddr,
    _socket: Socket,
    _queued: Vec<TcpStream>,
}

fn deaf() -> Deaf {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("the system has sockets");
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().expect("an address").into()).expect("a free port");
    socket.listen(0).expect("a bound socket can listen");
    let address =
        socket.local_addr().ok().and_then(|a| a.as_socket()).expect("a bound socket has an address");
    // The queue takes backlog + 1 connections.
    let queued = (0..2)
        .filter_map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok())
        .collect();
    Deaf { address, _socket: socket, _queued: queued }
}

#[test]
fn a_server_that_does_not_accept() {
    let deaf = deaf();
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"{}\"]\n\
         upstream.app.timeouts.connect = \"200ms\"\n",
        deaf.address
    ));
    let mut client = Client::connect(weir.web());
    let response = client.fetch("/");
    assert_eq!((response.status, response.reason()), (504, Some("connect-timeout")), "{response:?}");
}

#[test]
fn a_server_that_does_not_answer() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.wait_for_end();
        None
    });
    let weir = Weir::proxying_with(&origin, "upstream.app.timeouts.response = \"200ms\"");
    for request in [
        "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi",
    ] {
        let response = Client::exchange(weir.web(), request);
        assert_eq!((response.status, response.reason()), (504, Some("response-timeout")), "{request:?}");
    }
    let posts = origin.requests().iter().filter(|r| r.method() == "POST").count();
    assert_eq!(posts, 1, "a POST that may have been carried out is not sent again");
}

/// A client may poll with a request that is answered when there is news: a second server would be asked for nothing.
#[test]
fn a_request_that_waits_long_is_repeated_on_request_only() {
    for (retry, attempts) in [("", 1), ("upstream.app.retry.on_timeout = true", 2)] {
        let silent = || {
            Origin::start(|conn| {
                conn.request()?;
                conn.wait_for_end();
                None
            })
        };
        let origins = [silent(), silent()];
        let weir = Weir::start(&format!(
            "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
             upstream.app.servers = [\"{}\", \"{}\"]\nupstream.app.timeouts.response = \"200ms\"\n{retry}\n",
            origins[0].address(),
            origins[1].address()
        ));
        let response = Client::get(weir.web(), "/news");
        assert_eq!((response.status, response.reason()), (504, Some("response-timeout")), "{retry}");
        let asked: usize = origins.iter().map(|origin| origin.requests().len()).sum();
        assert_eq!(asked, attempts, "{retry}");
    }
}

#[test]
fn a_full_server() {
    let busy = Gate::new();
    let origin = gated(&busy, "/", "late");
    let weir = Weir::proxying_with(
        &origin,
        "upstream.app.max_requests = 1\nupstream.app.timeouts.queue = \"200ms\"",
    );
    let mut first = Client::connect(weir.web());
    first.send_get("/first");
    origin.wait_for_requests(1);
    let response = Client::get(weir.web(), "/second");
    assert_eq!((response.status, response.reason()), (503, Some("queue-timeout")), "{response:?}");
    busy.open();
    assert_eq!(first.response().text(), "late");
    assert_eq!(origin.targets(), ["/first"]);
}

/// The client stops taking a response that is larger than every buffer between.
#[test]
fn a_client_that_does_not_read() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
        while conn.send([b'x'; 65_536]).is_some() {}
        conn.wait_for_end();
        None
    });
    let weir = Weir::proxying_with(&origin, "listener.web.timeouts.send = \"300ms\"");
    let mut client = Client::connect_narrow(weir.web());
    client.send_get("/");
    assert_eq!(client.head().status(), Ok(200));
    let end = origin.wait_for_end(0);
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
}

#[test]
fn a_response_that_stops() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")?;
        conn.wait_for_end();
        None
    });
    let weir = Weir::proxying_with(&origin, "upstream.app.timeouts.relay = \"200ms\"");
    let mut client = Client::connect(weir.web());
    client.send_get("/");
    client.head();
    assert_eq!(client.take(5), b"hello");
    let (rest, end) = client.take_to_end();
    assert_eq!((rest.as_slice(), end), (&b""[..], End::Closed), "the length in the head shows the cut");
    origin.wait_for_end(0);
}

#[test]
fn a_whole_exchange() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.wait_for_end();
        None
    });
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nupstream.app.servers = [\"{}\"]\n\
         listener.web.route = [{{ path = \"/\", upstream = \"app\", timeouts = {{ exchange = \"200ms\" }} }}]\n",
        origin.address()
    ));
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, response.reason()), (504, Some("exchange-timeout")), "{response:?}");
}

/// A request whose time is over while it waits for a connection is not sent any more, also where a connection is at
/// hand.
#[test]
fn a_whole_exchange_that_does_not_get_to_its_server() {
    let deaf = deaf();
    let spare = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "process.workers = 1\nlistener.web.address = \"127.0.0.1:0\"\n\
         listener.web.route = [{{ path = \"/patient\", upstream = \"app\" }},\
         {{ path = \"/\", upstream = \"app\", timeouts = {{ exchange = \"100ms\" }} }}]\n\
         upstream.app.servers = [\"{}\", {{ address = \"{}\", backup = true }}]\n\
         upstream.app.timeouts.connect = \"600ms\"\n",
        deaf.address,
        spare.address()
    ));
    let patient = || assert_eq!(Client::get(weir.web(), "/patient").text(), "fine");
    patient();
    let post = "POST /hurried HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi";
    let response = Client::exchange(weir.web(), post);
    assert_eq!((response.status, response.reason()), (504, Some("exchange-timeout")), "{response:?}");
    patient();
    assert_eq!((spare.targets(), spare.connections()), (vec!["/patient".to_owned(); 2], 1));
}

#[test]
fn an_old_connection() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "listener.web.timeouts.connection_age = \"300ms\"");
    let mut client = Client::connect(weir.web());
    let start = now();
    // Kept busy, it is never idle; its age ends it, after a whole exchange.
    loop {
        if client.send_what_is_taken("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").is_err() {
            break;
        }
        match client.try_response_to("GET") {
            Ok(response) => {
                assert_eq!(response.status, 200);
                if response.closes() {
                    client.assert_closed();
                    break;
                }
            }
            // Closed while it was quiet; the request crossed the close on the wire.
            Err(end) => break assert!(matches!(end, End::Closed | End::Reset), "{end}"),
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the age of a connection must end it");
        pause();
    }
}
