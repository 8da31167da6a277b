//! Servers that want a request over HTTP/1.1 (HTTP_1_1_REQUIRED): it goes again that way where the upstream allows it.

use rustls::ServerConfig;

use super::start as start_h2c;
use crate::harness::http2::frame::HTTP_1_1_REQUIRED;
use crate::harness::http2::server::Http2Server;
use crate::harness::origin::ok;
use crate::harness::{
    CertificateAuthority, Client, Connection, Http2Client, Origin, Weir, config_with, eventually,
    temporary_folder,
};

fn server_config(authority: &CertificateAuthority) -> ServerConfig {
    let mut config = authority.server(&["a.test"]);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// A server of both protocols: over HTTP/2 `script` runs, over HTTP/1.1 the body comes back.
fn both(
    authority: &CertificateAuthority,
    script: impl Fn(&mut Http2Server<'_>) -> Option<()> + Send + Sync + 'static,
) -> Origin {
    Origin::start_tls(server_config(authority), move |conn| {
        if speaks_http2(conn)? {
            return script(&mut Http2Server::accept(conn, &[])?);
        }
        loop {
            let request = conn.request()?;
            conn.send(ok(&format!("by h1: {} {}", request.target(), request.text())))?;
        }
    })
}

/// What was agreed on.
fn speaks_http2(conn: &mut Connection) -> Option<bool> {
    // The handshake is over with the first byte.
    conn.peek(1)?;
    Some(conn.tls().session().alpn_protocol() == Some(b"h2"))
}

/// Requires HTTP/1.1 of each request by a reset.
fn resets(server: &mut Http2Server<'_>) -> Option<()> {
    loop {
        let asked = server.request()?;
        server.reset(asked.stream, HTTP_1_1_REQUIRED)?;
    }
}

/// Requires HTTP/1.1 of the connection.
fn goes_away(server: &mut Http2Server<'_>) -> Option<()> {
    server.head()?;
    server.go_away(0, HTTP_1_1_REQUIRED)?;
    server.read_to_end();
    Some(())
}

fn start(authority: &CertificateAuthority, origin: &Origin, protocol: &str, keys: &str) -> Weir {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).expect("the folder is ours");
    let text = config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1\nlistener.web.http2.prior_knowledge = \"allowed\"\n\
             upstream.app.protocol = \"{protocol}\"\n\
             upstream.app.retry.budget = \"0%\"\nupstream.app.retry.budget_per_second = 0\n\
             upstream.app.tls = {{ ca = \"ca.pem\", server_name = \"a.test\" }}\n{keys}"
        ),
    );
    Weir::start_in(folder, &text)
}

fn posts(weir: &Weir, count: usize) {
    let mut client = Http2Client::connect(weir.web());
    let streams: Vec<u32> = (0..count)
        .map(|_| {
            let stream = client.post("/p", &[]);
            client.data(stream, "hello", true);
            stream
        })
        .collect();
    for stream in streams {
        let response = client.response(stream);
        assert_eq!((response.status, response.text()), (200, "by h1: /p hello".to_owned()), "{response:?}");
    }
}

#[test]
fn requests_go_again_over_http1_whatever_their_method() {
    for script in [resets, goes_away] {
        let authority = CertificateAuthority::new();
        let origin = both(&authority, script);
        let weir = start(&authority, &origin, "auto", "");
        posts(&weir, 10);
        let unprocessed = weir.metrics().sum("weir_server_unprocessed_total", &[]);
        assert!((1.0..=10.0).contains(&unprocessed), "{unprocessed}");
        assert_eq!(weir.metrics().sum("weir_server_failures_total", &[]), unprocessed);
        // The server is remembered: nothing goes over HTTP/2 for a while, and connections of HTTP/1 are used again.
        let connections = origin.connections();
        let mut client = Client::connect(weir.web());
        for _ in 0..5 {
            assert_eq!(client.fetch("/g").text(), "by h1: /g ");
        }
        posts(&weir, 5);
        assert_eq!(origin.connections(), connections);
        assert_eq!(weir.metrics().sum("weir_server_unprocessed_total", &[]), unprocessed);
    }
}

#[test]
fn other_streams_of_the_connection_end_as_they_would_have() {
    let authority = CertificateAuthority::new();
    let origin = both(&authority, |server| {
        let first = server.head()?;
        let second = server.head()?;
        server.reset(second.stream, HTTP_1_1_REQUIRED)?;
        // It is told that the connection ends, and answers all the same.
        let third = server.respond(first.stream, "200", b"by h2");
        server.read_to_end();
        third
    });
    let weir = start(&authority, &origin, "auto", "");
    let mut client = Http2Client::connect(weir.web());
    let first = client.get("/1");
    let second = client.get("/2");
    assert_eq!(client.response(second).text(), "by h1: /2 ");
    assert_eq!(client.response(first).text(), "by h2");
}

#[test]
fn a_body_that_is_no_longer_there_is_not_sent_again() {
    let authority = CertificateAuthority::new();
    let origin = both(&authority, |server| {
        let asked = server.head()?;
        server.body(asked.stream, 50_000)?;
        server.reset(asked.stream, HTTP_1_1_REQUIRED)?;
        server.read_to_end();
        Some(())
    });
    let weir = start(&authority, &origin, "auto", "upstream.app.retry.body_size = \"4KiB\"\n");
    let mut client = Client::connect(weir.web());
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 60000\r\n\r\n");
    client.send(vec![b'x'; 50_000]);
    let response = client.response();
    assert_eq!((response.status, response.reason()), (502, Some("response-http1-required")));
    // The next one does not meet HTTP/2.
    assert_eq!(Client::get(weir.web(), "/n").text(), "by h1: /n ");
}

#[test]
fn an_upstream_of_http2_alone_says_what_the_server_wants() {
    let authority = CertificateAuthority::new();
    let over_tls = both(&authority, resets);
    let plain = Origin::start(|conn| resets(&mut Http2Server::accept(conn, &[])?));
    let weirs = [start(&authority, &over_tls, "h2", ""), start_h2c(&plain, "")];
    for (weir, origin) in weirs.into_iter().zip([&over_tls, &plain]) {
        let mut client = Http2Client::connect(weir.web());
        for _ in 0..3 {
            let stream = client.get("/");
            let response = client.response(stream);
            assert_eq!((response.status, response.reason()), (502, Some("response-http1-required")));
        }
        // No attempt is made in vain, and the connection is as good as before for requests that the server takes.
        assert_eq!(origin.connections(), 1);
        assert_eq!(weir.metrics().sum("weir_server_attempts_total", &[]), 3.0);
        eventually("the failures are counted", || {
            let failures = weir.metrics();
            failures.sum("weir_listener_failures_total", &["reason=\"response-http1-required\""]) == 3.0
        });
    }
}

#[test]
fn health_checks_follow_to_http1() {
    let authority = CertificateAuthority::new();
    let origin = both(&authority, resets);
    let health = "upstream.app.health = { path = \"/health\", interval = \"50ms\", timeout = \"5s\", fall = 1, rise = 1 }\n";
    let weir = start(&authority, &origin, "auto", health);
    eventually("probes have succeeded", || {
        weir.metrics().sum("weir_server_probes_total", &["result=\"passed\""]) >= 3.0
    });
    assert_eq!(weir.metrics().sum("weir_server_probes_total", &["result=\"failed\""]), 0.0);
    assert_eq!(Client::get(weir.web(), "/").text(), "by h1: / ");
}
