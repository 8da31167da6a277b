//! A client that disconnects is noticed: its server connection is closed, other clients are not affected.

use crate::harness::scripts::patient;
use crate::harness::{Client, End, Origin, Weir, origin::ok};

#[test]
fn a_reset_while_the_server_thinks() {
    let origin = patient();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send_get("/wait");
    origin.wait_for_requests(1);
    client.reset();
    let end = origin.wait_for_end(0);
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
    assert_eq!(Client::get(weir.web(), "/alive").text(), "alive");
}

#[test]
fn a_close_in_the_middle_of_the_response() {
    let origin = patient();
    let weir = Weir::proxying(&origin);
    for reset in [false, true] {
        let mut client = Client::connect(weir.web());
        client.send_get("/stream");
        assert_eq!(client.head().status(), Ok(200));
        client.take(100_000);
        let index = origin.connections() - 1;
        if reset {
            client.reset();
        } else {
            drop(client);
        }
        let end = origin.wait_for_end(index);
        assert!(matches!(end, End::Closed | End::Reset), "{end}");
    }
    assert_eq!(Client::get(weir.web(), "/alive").text(), "alive");
}

#[test]
fn a_close_in_the_middle_of_an_upload() {
    let origin = patient();
    let weir = Weir::proxying(&origin);
    for framing in ["Content-Length: 1000\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
        for reset in [false, true] {
            let mut client = Client::connect(weir.web());
            let before = origin.connections();
            client.send(format!("POST /up HTTP/1.1\r\nHost: a.test\r\n{framing}"));
            origin.wait_for_connections(before + 1);
            if reset {
                client.reset();
            } else {
                drop(client);
            }
            let end = origin.wait_for_end(before);
            assert!(matches!(end, End::Closed | End::Reset), "{framing:?}: {end}");
        }
    }
    assert!(origin.requests().is_empty(), "half an upload is no request: {:?}", origin.requests());
    assert_eq!(Client::get(weir.web(), "/alive").text(), "alive");
}

#[test]
fn a_close_in_the_middle_of_the_head_reaches_no_server() {
    let origin = patient();
    let weir = Weir::proxying(&origin);
    for part in ["G", "GET / HT", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a.test\r\n"] {
        let mut client = Client::connect(weir.web());
        client.send(part);
        client.finish();
        // Half a request deserves no answer, or a 4xx; it must not hang.
        let (answer, end) = client.take_to_end();
        assert_eq!(end, End::Closed, "{part:?}");
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{part:?}");
    }
    assert_eq!(origin.connections(), 0);
}

/// A client that hangs up while it waits must not keep its place: the one behind it is served by the same server.
#[test]
fn a_place_is_given_up() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            if request.target() == "/wait" {
                conn.wait_for_end();
                return None;
            }
            conn.send(ok("served"))?;
        }
    });
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         upstream.app.servers = [{{ address = \"{}\", max_requests = 1 }}]\n",
        origin.address()
    ));
    let mut first = Client::connect(weir.web());
    first.send_get("/wait");
    origin.wait_for_requests(1);
    let mut second = Client::connect(weir.web());
    second.send_get("/second");
    first.reset();
    assert_eq!(second.response().text(), "served");
}
