//! CONNECT over a stream (RFC 9113 section 8.5): a tunnel where the route allows it.

use crate::harness::http2::{H2C, start};
use crate::harness::{Http2Client, Origin, Weir, config_with, origin::ok};

/// An origin that agrees to CONNECT to `a.test:443` and sends every byte back; refuses others.
fn proxy() -> Origin {
    Origin::start(|conn| {
        loop {
            let head = conn.head()?;
            if head.start_line != "CONNECT a.test:443 HTTP/1.1" {
                conn.request_body(head)?;
                conn.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")?;
                continue;
            }
            conn.send("HTTP/1.1 200 Connected\r\n\r\n")?;
            let mut buf = [0; 4096];
            while let Some(len) = conn.skim(&mut buf) {
                conn.send(&buf[..len])?;
            }
            return Some(());
        }
    })
}

#[test]
fn a_tunnel_where_the_route_allows_it() {
    let origin = proxy();
    let settings =
        format!("{H2C}listener.web.route = [{{ path = \"/\", upstream = \"app\", allow_connect = true }}]");
    let config = config_with(&[origin.entry()], &settings).replace("listener.web.upstream = \"app\"\n", "");
    let weir = Weir::start(&config);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.open(&[(":method", "CONNECT"), (":authority", "a.test:443")], false);
    assert_eq!(client.head(stream).status, 200);
    client.data(stream, "hello", false);
    assert_eq!(client.body(stream, 5), b"hello");
    client.data(stream, " again", true);
    let received = client.response(stream);
    assert_eq!((received.text(), received.reset), ("hello again".to_owned(), None));

    let stream = client.open(&[(":method", "CONNECT"), (":authority", "b.test:443")], false);
    let received = client.outcome(stream);
    assert_eq!((received.status, received.text()), (403, "no".to_owned()));
}

#[test]
fn elsewhere_it_is_answered_501() {
    let origin = Origin::answering(ok("fine"));
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.open(&[(":method", "CONNECT"), (":authority", "a.test:443")], false);
    assert_eq!(client.outcome(stream).status, 501);
    assert_eq!(client.fetch("/").status, 200);
    assert_eq!(origin.targets(), ["/"]);
}
