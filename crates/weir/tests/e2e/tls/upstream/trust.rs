//! Verification of servers, and the failures of it.

use rustls::version::{TLS12, TLS13};

use super::{folder, start, start_for, telling};
use crate::harness::http2::server::Http2Server;
use crate::harness::origin::ok;
use crate::harness::tls::{ECDSA, server_of};
use crate::harness::{CertificateAuthority, Client, Origin, Weir, eventually, temporary_folder};

#[test]
fn a_server_is_asked_by_name_and_its_connection_is_reused() {
    let authority = CertificateAuthority::new();
    let origin = telling(authority.server(&["app.test"]));
    let weir = start_for(&origin, &authority, "");
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        assert_eq!(client.fetch("/").text(), "app.test Full 0");
    }
    assert_eq!(origin.connections(), 1);
    assert_eq!(weir.metrics().sum("weir_server_tls_handshakes_total", &[]), 1.0);
}

#[test]
fn the_host_of_the_address_is_the_name_unless_another_is_given() {
    let authority = CertificateAuthority::new();
    let origin = telling(authority.server(&["localhost", "127.0.0.1", "own.test"]));
    let port = origin.address().port();
    // An address is never sent as a name (RFC 6066 section 3).
    for (server, described) in [
        (format!("\"localhost:{port}\""), "localhost"),
        (format!("\"127.0.0.1:{port}\""), "-"),
        (format!("{{ address = \"127.0.0.1:{port}\", server_name = \"own.test\" }}"), "own.test"),
    ] {
        let weir = start(folder(&authority), &server, "ca = \"ca.pem\"", "");
        eventually("the name of the server is resolved", || Client::get(weir.web(), "/").status == 200);
        assert_eq!(Client::get(weir.web(), "/").text().split(' ').next(), Some(described));
    }
}

/// What the client gets, and what the log says of it.
fn refused(weir: &Weir) -> String {
    let response = Client::get(weir.web(), "/");
    assert!([502, 504].contains(&response.status), "{response:?}");
    response.reason().expect("the answer names its reason").to_owned()
}

#[test]
fn servers_that_fail_verification_get_no_request() {
    let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    for (config, name, reason, detail) in [
        (other.server(&["app.test"]), "app.test", "rejected", "invalid peer certificate: BadSignature"),
        (authority.server(&["app.test"]), "other.test", "name-mismatch", "not valid for name"),
        (authority.server(&["app.test"]), "127.0.0.1", "name-mismatch", "not valid for name"),
        (authority.server_expired(&["app.test"]), "app.test", "expired", "expired"),
    ] {
        let origin = telling(config);
        let server = origin.entry();
        let tls = format!("ca = \"ca.pem\", server_name = \"{name}\"");
        let weir = start(folder(&authority), &server, &tls, "");
        assert_eq!(refused(&weir), format!("connect-tls-certificate-{reason}"));
        weir.line(&["no TLS with a server", detail]);
        assert!(origin.requests().is_empty());
        let metrics = weir.metrics();
        assert_eq!(metrics.sum("weir_server_tls_handshakes_total", &[]), 0.0);
        assert!(metrics.sum("weir_server_connect_errors_total", &[]) > 0.0);
        drop(weir);

        let weir =
            start(folder(&authority), &server, &format!("verify = false, server_name = \"{name}\""), "");
        assert_eq!(Client::get(weir.web(), "/").status, 200, "without verification: {detail}");
    }
}

/// With `subject_alt_names`, the server name is only what is sent in the handshake.
#[test]
fn one_of_the_alternative_names_is_enough_and_the_server_name_is_not() {
    let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    let origin = telling(authority.server_with_uri(&["app.test"], "spiffe://a.test/app"));
    let stranger = telling(other.server_with_uri(&["app.test"], "spiffe://a.test/app"));
    for (origin, names, is_trusted) in [
        (&origin, "\"spiffe://a.test/app\"", true),
        (&origin, "[\"other.test\", \"spiffe://a.test/app\"]", true),
        (&origin, "[\"spiffe://a.test/other\", \"app.test\"]", true),
        (&origin, "[\"spiffe://a.test/other\", \"other.test\"]", false),
        (&origin, "\"spiffe://A.test/app\"", false),
        (&stranger, "\"spiffe://a.test/app\"", false),
    ] {
        for server_name in ["app.test", "sent.test"] {
            let tls =
                format!("ca = \"ca.pem\", server_name = \"{server_name}\", subject_alt_names = {names}");
            let weir = start(folder(&authority), &origin.entry(), &tls, "");
            let response = Client::get(weir.web(), "/");
            let case = format!("{names} at {server_name}: {response:?}");
            match is_trusted {
                true => assert!(response.text().starts_with(&format!("{server_name} ")), "{case}"),
                false => assert_eq!(response.status, 502, "{case}"),
            }
        }
    }
    assert!(stranger.requests().is_empty());
}

/// A server's own certificate is as good as an authority when the config names it, but only for what it says.
#[test]
fn a_certificate_that_signed_itself_can_be_trusted_by_name() {
    let own = CertificateAuthority::named(&["app.test"]);
    let folder_of_origin = temporary_folder();
    own.write(folder_of_origin.path(), "own");
    let origin = telling(server_of(folder_of_origin.path(), "own", rustls::ALL_VERSIONS, None));
    let server = origin.entry();
    let weir = start(folder(&own), &server, "ca = \"ca.pem\", server_name = \"app.test\"", "");
    assert_eq!(Client::get(weir.web(), "/").text(), "app.test Full 0");
    let weir = start(folder(&own), &server, "ca = \"ca.pem\", server_name = \"other.test\"", "");
    assert_eq!(refused(&weir), "connect-tls-certificate-name-mismatch");
}

/// Revoked certificates are rejected; with an outdated list the revocation status is unknown.
#[test]
fn a_server_with_a_revoked_certificate_gets_no_request() {
    let authority = CertificateAuthority::new();
    let names = vec![rcgen::SanType::DnsName("app.test".try_into().expect("it is a host name"))];
    let certificate = authority.certify("app", |params| params.subject_alt_names = names);
    // That it is named itself does not help against the list.
    let trusted = authority.pem() + &certificate.pem;
    let folder_of_origin = temporary_folder();
    certificate.write(folder_of_origin.path(), "own");
    let origin = telling(server_of(folder_of_origin.path(), "own", rustls::ALL_VERSIONS, None));
    let folder = folder(&authority);
    std::fs::write(folder.path().join("ca.pem"), trusted).expect("a file");
    std::fs::write(folder.path().join("revoked.pem"), authority.revoking(&[], 4000)).expect("a file");
    let tls = "ca = \"ca.pem\", crl = \"revoked.pem\", server_name = \"app.test\", reload = \"100ms\", session_reuse = false";
    let weir = start(folder, &origin.entry(), tls, "");
    assert_eq!(Client::get(weir.web(), "/").status, 200);
    // The connection that is kept was verified before the server was revoked.
    for (list, reason) in [
        (authority.revoking(&[&certificate], 4000), "connect-tls-certificate-revoked"),
        (authority.revoking(&[], 2002), "connect-tls-revocation-unknown"),
    ] {
        std::fs::write(weir.folder().join("revoked.pem"), list).expect("a file");
        eventually(reason, || Client::get(weir.web(), "/").reason() == Some(reason));
    }
    weir.line(&["revoked.pem", "a list of revoked certificates is outdated"]);
}

/// Also those of HTTP/2, and those that no request asks for: they end with the requests that they carry.
#[test]
fn connections_that_were_verified_before_the_files_changed_end() {
    for protocol in ["http1", "h2"] {
        let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
        let mut config = authority.server(&["app.test"]);
        config.alpn_protocols = if protocol == "h2" { vec![b"h2".to_vec()] } else { Vec::new() };
        let origin = match protocol {
            "h2" => Origin::start_tls(config, |conn| {
                let mut server = Http2Server::accept(conn, &[])?;
                loop {
                    let asked = server.request()?;
                    server.respond(asked.stream, "200", b"fine")?;
                }
            }),
            _ => telling(config),
        };
        let tls = "ca = \"ca.pem\", server_name = \"app.test\", reload = \"100ms\", session_reuse = false";
        let settings = format!("upstream.app.protocol = \"{protocol}\"");
        let weir = start(folder(&authority), &origin.entry(), tls, &settings);
        assert_eq!(Client::get(weir.web(), "/").status, 200);
        let open = || weir.metrics().sum("weir_server_connections_open", &[]);
        assert!(open() > 0.0, "it is kept");
        std::fs::write(weir.folder().join("ca.pem"), other.pem()).expect("a file");
        eventually("no connection is left", || open() == 0.0);
        let refused = Client::get(weir.web(), "/");
        assert_eq!(refused.reason(), Some("connect-tls-certificate-rejected"), "{refused:?}");
        std::fs::write(weir.folder().join("ca.pem"), authority.pem()).expect("a file");
        eventually("it is trusted again", || Client::get(weir.web(), "/").status == 200);
    }
}

#[test]
fn a_server_that_requests_one_gets_the_certificate_of_the_upstream() {
    let (authority, clients, strangers) =
        (CertificateAuthority::new(), CertificateAuthority::new(), CertificateAuthority::new());
    for version in [&TLS12, &TLS13] {
        let origin = telling(authority.server_with(&["app.test"], &[version], Some(&clients)));
        let server = origin.entry();
        let tls = "ca = \"ca.pem\", server_name = \"app.test\"";
        let with_certificate = format!("{tls}, certificate = \"weir.pem\", key = \"weir.key\"");

        let folder_of_weir = folder(&authority);
        clients.issue(folder_of_weir.path(), "weir", &["weir.test"], ECDSA);
        let weir = start(folder_of_weir, &server, &with_certificate, "");
        assert_eq!(Client::get(weir.web(), "/").text(), "app.test Full 1");

        let weir = start(folder(&authority), &server, tls, "");
        let missing = refused(&weir);
        let folder_of_weir = folder(&authority);
        strangers.issue(folder_of_weir.path(), "weir", &["weir.test"], ECDSA);
        let weir = start(folder_of_weir, &server, &with_certificate, "");
        let reasons = (missing, refused(&weir));
        // In TLS 1.3 a server says so only when the client has finished, so that a request may be under way.
        let expected = match version == &TLS13 {
            true => ("server-tls-certificate-missing", "server-tls-alert"),
            false => ("connect-tls-certificate-missing", "connect-tls-alert"),
        };
        assert_eq!((&*reasons.0, &*reasons.1), expected);
    }
}

#[test]
fn a_server_without_tls_is_reported_as_such() {
    let authority = CertificateAuthority::new();
    let origin = Origin::serving("plain");
    let weir = start_for(&origin, &authority, "upstream.app.timeouts.connect = \"300ms\"");
    // It waits for a request, and takes the first message of the handshake for the beginning of one.
    assert!(["connect-tls-failed", "connect-timeout"].contains(&&*refused(&weir)));

    let origin = Origin::start(|conn| conn.send(ok("at once")));
    let weir = start_for(&origin, &authority, "");
    assert_eq!(refused(&weir), "connect-tls-failed");
}

#[test]
fn a_request_goes_to_the_next_server_when_one_cannot_be_trusted() {
    let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    let (bad, good) = (telling(other.server(&["app.test"])), telling(authority.server(&["app.test"])));
    let servers = format!("\"{}\", \"{}\"", bad.address(), good.address());
    let tls = "ca = \"ca.pem\", server_name = \"app.test\"";
    let weir = start(folder(&authority), &servers, tls, "upstream.app.ejection = \"off\"");
    for _ in 0..6 {
        let post = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
        assert_eq!(Client::exchange(weir.web(), post).status, 200);
    }
    assert!(bad.requests().is_empty());
    assert!(weir.metrics().sum("weir_server_connect_errors_total", &[]) >= 1.0);
}
