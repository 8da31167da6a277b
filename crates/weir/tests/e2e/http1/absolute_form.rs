//! Targets in absolute form: the authority decides the route and becomes the Host; the server gets origin form.

use crate::harness::{Client, Origin, Weir};

#[test]
fn the_authority_routes_and_the_host_field_does_not() {
    let origins = [Origin::serving("a"), Origin::serving("b")];
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nupstream.a.servers = [\"{}\"]\nupstream.b.servers = [\"{}\"]\n\
         listener.web.route = [{{ host = \"a.test\", upstream = \"a\" }}, {{ host = \"b.test\", upstream = \"b\" }}]\n",
        origins[0].address(),
        origins[1].address()
    ));
    let cases = [
        ("http://a.test/p?q=1", "a.test", "/p?q=1", "a.test"),
        ("http://a.test:8080/p", "a.test:8080", "/p", "a.test:8080"),
        ("http://A.test", "A.test", "/", "A.test"),
        ("http://a.test?q", "a.test", "/?q", "a.test"),
        ("HTTP://a.test/%2e%2e/x", "a.test", "/x", "a.test"),
    ];
    for (target, host, received, forwarded_host) in cases {
        let response =
            Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!((response.status, response.text()), (200, "a".to_owned()), "{target}");
        let request = origins[0].last_request();
        assert_eq!((request.target(), request.field("host")), (received, Some(forwarded_host)), "{target}");
    }
    // A Host that contradicts the target must not send the request to b.
    let mut client = Client::connect(weir.web());
    client.send("GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n");
    let response = client.response();
    assert!(response.status == 400 || response.text() == "a", "{response:?}");
    assert!(origins[1].requests().is_empty());
}

/// RFC 9112 section 3.2.4: an absolute target of OPTIONS without a path means the server as a whole.
#[test]
fn options_without_a_path_is_for_the_whole_server() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying(&origin);
    let request = "OPTIONS http://a.test HTTP/1.1\r\nHost: a.test\r\n\r\n";
    assert_eq!(Client::exchange(weir.web(), request).status, 200);
    assert_eq!(origin.last_request().target(), "*");
}
