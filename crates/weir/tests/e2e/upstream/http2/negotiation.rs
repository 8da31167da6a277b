//! Which protocol a server speaks: by the config, or by ALPN.

use rustls::ServerConfig;

use crate::harness::http2::server::Http2Server;
use crate::harness::origin::ok;
use crate::harness::{
    CertificateAuthority, Client, Connection, Http2Client, Origin, Weir, config_with, temporary_folder,
};

fn config(authority: &CertificateAuthority, protocols: &[&[u8]]) -> ServerConfig {
    let mut config = authority.server(&["a.test"]);
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    config
}

/// Speaks what was agreed on.
fn agreed(conn: &mut Connection) -> Option<()> {
    // The handshake is over with the first byte.
    let first = conn.take(1)?;
    if conn.tls().session().alpn_protocol() == Some(b"h2") {
        panic!("{first:?} is taken");
    }
    Some(())
}

fn start(authority: &CertificateAuthority, origin: &Origin, protocol: &str) -> Weir {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).expect("the folder is ours");
    let text = config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1\nlistener.web.http2.prior_knowledge = \"allowed\"\n\
             upstream.app.protocol = \"{protocol}\"\n\
             upstream.app.tls = {{ ca = \"ca.pem\", server_name = \"a.test\" }}\n"
        ),
    );
    Weir::start_in(folder, &text)
}

fn http2(conn: &mut Connection) -> Option<()> {
    let mut server = Http2Server::accept(conn, &[])?;
    loop {
        let asked = server.request()?;
        assert_eq!(asked.field(":scheme"), Some("https"));
        server.respond(asked.stream, "200", b"by h2")?;
    }
}

fn http1(conn: &mut Connection) -> Option<()> {
    loop {
        conn.request()?;
        conn.send(ok("by h1"))?;
    }
}

#[test]
fn http2_over_tls() {
    let authority = CertificateAuthority::new();
    let origin = Origin::start_tls(config(&authority, &[b"h2"]), http2);
    for protocol in ["h2", "auto"] {
        let before = origin.connections();
        let weir = start(&authority, &origin, protocol);
        let mut client = Http2Client::connect(weir.web());
        let streams: Vec<u32> = (0..50).map(|_| client.get("/")).collect();
        for stream in streams {
            assert_eq!(client.response(stream).text(), "by h2");
        }
        assert_eq!(origin.connections() - before, 1, "{protocol}");
        assert_eq!(weir.metrics().sum("weir_server_tls_handshakes_total", &[]), 1.0);
    }
}

#[test]
fn auto_takes_http1_where_a_server_prefers_it_or_knows_no_other() {
    let authority = CertificateAuthority::new();
    for protocols in [&[&b"http/1.1"[..]][..], &[]] {
        let origin = Origin::start_tls(config(&authority, protocols), http1);
        let weir = start(&authority, &origin, "auto");
        let mut client = Http2Client::connect(weir.web());
        for _ in 0..3 {
            let streams: Vec<u32> = (0..5).map(|_| client.get("/")).collect();
            for stream in streams {
                let response = client.response(stream);
                assert_eq!((response.status, response.text()), (200, "by h1".to_owned()), "{response:?}");
            }
        }
        let connections = origin.connections();
        assert!(connections <= 5, "connections are used again: {connections}");
        let mut client = Client::connect(weir.web());
        assert_eq!(client.fetch("/").text(), "by h1");
        assert_eq!(origin.connections(), connections);
    }
}

#[test]
fn a_server_that_does_not_agree_on_http2_is_told() {
    let authority = CertificateAuthority::new();
    let origin = Origin::start_tls(config(&authority, &[]), agreed);
    let weir = start(&authority, &origin, "h2");
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, response.reason()), (502, Some("connect-not-http2")));
}
