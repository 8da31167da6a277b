//! Which server a connection goes to: by the server name of its TLS handshake or its source, past servers that refuse, after a wait.

use std::sync::Arc;

use super::{address, config, echo};
use crate::harness::client_hello::hello;
use crate::harness::origin::ok;
use crate::harness::tls::{WEB_TLS, connect, try_connect};
use crate::harness::{CLOSED_PORT, CertificateAuthority, Client, Gate, Origin, Weir, eventually, latin1};

#[test]
fn a_server_that_refuses_is_passed_over() {
    let server = echo();
    let weir = Weir::start(&config(&[CLOSED_PORT, &address(&server)], "balance = \"round-robin\"", ""));
    for _ in 0..4 {
        assert_eq!(Client::connect(weir.web()).take(5), b"hello");
    }
    let lines = weir.access_log(4);
    assert!(
        lines.iter().any(|line| line.contains(" 2 ")),
        "some connections tried the dead server first: {lines:?}"
    );
    assert!(lines.iter().all(|line| line.contains(&address(&server))), "{lines:?}");
}

#[test]
fn without_a_server_the_connection_is_closed_and_logged() {
    let weir = Weir::start(&config(&[CLOSED_PORT], "", ""));
    Client::connect(weir.web()).assert_closed();
    let lines = weir.access_log(1);
    assert!(lines[0].ends_with("- connect-refused"), "{lines:?}");
}

#[test]
fn connections_beyond_the_limit_of_a_server_wait_for_it() {
    let gate = Arc::new(Gate::new());
    let (held, opened) = (Arc::clone(&gate), "the first connection may end");
    let server = Origin::start(move |conn| {
        conn.send("x")?;
        held.wait(opened);
        Some(())
    });
    let weir = Weir::start(&config(&[&address(&server)], "max_requests = 1", ""));
    let mut first = Client::connect(weir.web());
    assert_eq!(first.take(1), b"x");
    let mut second = Client::connect(weir.web());
    eventually("the second waits", || weir.queue_length() == 1);
    assert_eq!(server.connections(), 1);
    gate.open();
    // Half a connection still takes a place.
    drop(first);
    assert_eq!(second.take(1), b"x");
}

#[test]
fn tls_passes_through_to_the_server_whose_name_it_asks_for() {
    let named = |name: &'static str| {
        Origin::start(move |conn| {
            conn.take(10)?;
            conn.send(name)?;
            conn.finish();
            conn.wait_for_end();
            Some(())
        })
    };
    let (one, below, other) = (named("one"), named("below"), named("other"));
    let text = format!(
        "admin.address = \"127.0.0.1:0\"\n[listener.web]\naddress = \"127.0.0.1:0\"\nprotocol = \"tcp\"\n\
         access_log = {{ format = \"{{route}} {{reason}}\", output = \"file:{{dir}}/access.log\" }}\n\
         [[listener.web.route]]\nsni = \"one.test\"\nupstream = \"one\"\n\
         [[listener.web.route]]\nsni = \"*.one.test\"\nupstream = \"below\"\n\
         [[listener.web.route]]\nsource = \"127.0.0.9\"\nupstream = \"below\"\n\
         [[listener.web.route]]\nname = \"rest\"\nupstream = \"other\"\n\
         [upstream.one]\nservers = [\"{}\"]\n[upstream.below]\nservers = [\"{}\"]\n[upstream.other]\nservers = [\"{}\"]\n",
        one.address(),
        below.address(),
        other.address()
    );
    let weir = Weir::start(&text);
    let ask = |bytes: &[u8], bytewise: bool| {
        let mut client = Client::connect(weir.web());
        client.exempt("the server behind the TCP listener answers HTTP with its name");
        match bytewise {
            true => client.send_bytewise(bytes).expect("it is taken"),
            false => client.send(bytes),
        }
        String::from_utf8(client.take_to_end().0).expect("a name")
    };
    assert_eq!(ask(&hello("one.test"), false), "one");
    assert_eq!(ask(&hello("ONE.test"), true), "one");
    assert_eq!(ask(&hello("deep.in.one.test"), false), "below");
    assert_eq!(ask(&hello("two.test"), false), "other");
    assert_eq!(ask(b"GET / HTTP/1.0\r\n\r\n", false), "other");
    assert_eq!(latin1(&one.connection(0).received), latin1(&hello("one.test")), "it went on untouched");
    let mut far = Client::connect_from("127.0.0.9", weir.web());
    far.send(hello("two.test"));
    assert_eq!(far.take_to_end().0, b"below");
    // A hello whose lengths contradict each other.
    let mut broken = hello("one.test");
    broken[8] ^= 0x40;
    let mut client = Client::connect(weir.web());
    client.send(&broken);
    client.finish();
    client.take_to_end();
    eventually("it is logged", || {
        std::fs::read_to_string(weir.folder().join("access.log")).is_ok_and(|text| text.contains("- tls-"))
    });
}

/// One port serves names whose TLS ends at the listener and names whose TLS ends at their servers.
#[test]
fn tls_ends_here_for_some_names_and_at_the_servers_for_others() {
    let (ours, theirs) = (CertificateAuthority::new(), CertificateAuthority::new());
    let plain = Origin::serving("plain");
    let secure = Origin::start_tls(theirs.server(&["db.a.test"]), |conn| {
        conn.request()?;
        conn.send(ok("secure"))
    });
    let folder = ours.folder_for_web();
    let text = format!(
        "admin.address = \"127.0.0.1:0\"\n{WEB_TLS}listener.web.address = \"127.0.0.1:0\"\nlistener.web.protocol = \"tcp\"\n\
         [[listener.web.route]]\nsni = \"*.a.test\"\nupstream = \"plain\"\n\
         [[listener.web.route]]\nsni = \"db.a.test\"\nupstream = \"secure\"\ntls_passthrough = true\n\
         [[listener.web.route]]\nname = \"rest\"\nupstream = \"plain\"\n\
         [upstream.plain]\nservers = [\"{}\"]\n[upstream.secure]\nservers = [\"{}\"]\n",
        plain.address(),
        secure.address()
    );
    let weir = Weir::start_in(folder, &text);
    for _ in 0..2 {
        // Each is trusted by the authority that its own end has a certificate of.
        let mut client = connect(weir.web(), theirs.client(), "db.a.test");
        assert_eq!(client.fetch("/").text(), "secure");
        for name in ["a.test", "www.a.test"] {
            assert!(try_connect(weir.web(), theirs.client(), name).is_err(), "{name}");
        }
        assert!(try_connect(weir.web(), ours.client(), "db.a.test").is_err());
        let mut client = connect(weir.web(), ours.client(), "a.test");
        assert_eq!(client.fetch("/").text(), "plain");
    }
}

#[test]
fn a_hello_that_does_not_end_is_not_waited_for() {
    let server = echo();
    let text = format!(
        "admin.address = \"127.0.0.1:0\"\n[listener.web]\naddress = \"127.0.0.1:0\"\nprotocol = \"tcp\"\ntimeouts.tls = \"200ms\"\n\
         access_log = {{ format = \"{{reason}}\", output = \"file:{{dir}}/access.log\" }}\n\
         [[listener.web.route]]\nsni = \"one.test\"\nupstream = \"one\"\n[upstream.one]\nservers = [\"{}\"]\n",
        server.address()
    );
    let weir = Weir::start(&text);
    let mut slow = Client::connect(weir.web());
    slow.send(&hello("one.test")[..20]);
    let mut nameless = Client::connect(weir.web());
    nameless.send(hello("two.test"));
    nameless.take_to_end();
    slow.take_to_end();
    let mut lines = weir.access_log(2);
    lines.sort();
    assert_eq!(lines, ["no-route", "tls-handshake-timeout"]);
    assert_eq!(server.connections(), 0);
}
