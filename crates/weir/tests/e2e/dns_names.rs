//! Servers named by DNS, and IPv6: `localhost` is a name like any other.

use std::net::TcpListener;

use crate::harness::{Client, Origin, Weir, origin::ok};

fn config(listen: &str, server: &str) -> String {
    format!(
        "listener.web.address = \"{listen}\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"{server}\"]\n"
    )
}

#[test]
fn localhost() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&config("127.0.0.1:0", &format!("localhost:{}", origin.address().port())));
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        client.send_get("/");
        let response = client.response();
        assert_eq!((response.status, response.text()), (200, "fine".to_owned()), "{response:?}");
    }
}

#[test]
fn ipv6_on_both_sides() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        // A machine without IPv6 has nothing to show here; the IPv4 tests stand for it.
        return;
    };
    let origin = Origin::listen(listener, |conn| {
        loop {
            conn.request()?;
            conn.send(ok("six"))?;
        }
    });
    let weir = Weir::start(&config("[::1]:0", &origin.address().to_string()));
    assert_eq!(Client::get(weir.web(), "/").text(), "six");
    assert_eq!(origin.last_request().field("x-forwarded-for"), Some("::1"));
}

/// RFC 6761 section 6.4: `invalid` never has an address; only the requests to it fail.
#[test]
fn a_name_without_address() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.other.address = \"127.0.0.1:0\"\n\
         listener.web.upstream = \"lost\"\nlistener.other.upstream = \"app\"\n\
         upstream.lost.servers = [\"no-such-host.invalid:80\"]\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    ));
    let response = Client::get(weir.web(), "/");
    assert!([502, 503].contains(&response.status), "{response:?}");
    assert!(response.reason().is_some(), "{response:?}");
    assert_eq!(Client::get(weir.address("other"), "/").text(), "fine");
}
