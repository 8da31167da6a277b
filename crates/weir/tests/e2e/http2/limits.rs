//! Limits on requests: each with its status, each for its stream only.

use crate::harness::http2::frame::NO_ERROR;
use crate::harness::http2::{start_with, start_with_tls};
use crate::harness::scripts::echo;
use crate::harness::tls::{ECDSA, WEB_TLS};
use crate::harness::{CertificateAuthority, Http2Client, Weir, config_of, temporary_folder};

#[test]
fn a_head_that_is_too_large_is_answered_431() {
    let origin = echo();
    let weir = start_with(&origin, "listener.web.limits.head_size = \"2KiB\"");
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get_with("/", &[("x-large", &"x".repeat(3_000))]);
    let response = client.response(stream);
    assert_eq!((response.status, response.reason()), (431, Some("head-too-large")));
    let stream = client.get_with("/fits", &[("x-large", &"x".repeat(1_000))]);
    assert_eq!(client.response(stream).status, 200);
    assert_eq!(origin.targets(), ["/fits"]);
}

#[test]
fn too_many_fields_are_answered_431_and_crumbs_of_cookies_count() {
    let origin = echo();
    let weir = start_with(&origin, "listener.web.limits.headers = 10");
    let mut client = Http2Client::connect(weir.web());
    for name in ["x-many", "cookie"] {
        let stream = client.get_with("/", &[(name, "a"); 11]);
        let response = client.response(stream);
        assert_eq!((response.status, response.reason()), (431, Some("too-many-fields")), "{name}");
        let stream = client.get_with("/fits", &[(name, "a"); 10]);
        assert_eq!(client.response(stream).status, 200, "{name}");
    }
    assert_eq!(origin.targets(), ["/fits", "/fits"]);
}

#[test]
fn a_target_that_is_too_long_is_answered_414() {
    let origin = echo();
    let weir = start_with(&origin, "listener.web.limits.target_size = \"256B\"");
    let mut client = Http2Client::connect(weir.web());
    let response = client.fetch(&format!("/{}", "t".repeat(256)));
    assert_eq!((response.status, response.reason()), (414, Some("target-too-long")));
    assert_eq!(client.fetch(&format!("/{}", "t".repeat(255))).status, 200);
    assert_eq!(origin.targets().len(), 1);
}

#[test]
fn a_body_that_is_too_large_is_answered_413() {
    let origin = echo();
    let weir = start_with(&origin, "listener.web.limits.body_size = \"1000B\"");
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/announced", &[("content-length", "1001")]);
    let response = client.outcome(stream);
    assert_eq!((response.status, response.reason()), (413, Some("body-too-large")));
    let stream = client.post("/counted", &[]);
    client.data(stream, vec![b'x'; 600], false);
    client.data(stream, vec![b'x'; 600], false);
    let response = client.outcome(stream);
    assert_eq!((response.status, response.reason()), (413, Some("body-too-large")));
    assert_eq!(client.wait_for_reset(stream), NO_ERROR, "the rest is not wanted");
    assert_eq!(client.fetch_by_post("/fits", &[b'x'; 1000]).status, 200);
    assert_eq!(origin.targets(), ["/fits"]);
}

#[test]
fn a_body_that_does_not_come_is_answered_408() {
    let origin = echo();
    let weir = start_with(
        &origin,
        "listener.web.timeouts.request_body = { credit = \"200ms\", rate_min = \"1kB/s\" }",
    );
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/", &[]);
    client.data(stream, "some", false);
    let response = client.outcome(stream);
    assert_eq!((response.status, response.reason()), (408, Some("request-body-timeout")));
    assert_eq!(client.fetch("/fine").status, 200);
}

#[test]
fn a_route_that_does_not_exist_is_answered_404() {
    let origin = echo();
    let text = config_of(std::slice::from_ref(&origin), "").replace("listener.web.upstream = \"app\"\n", "");
    let text = format!(
        "{text}{}listener.web.route = [{{ path = \"/app\", upstream = \"app\" }}]",
        crate::harness::http2::H2C
    );
    let weir = Weir::start(&text);
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/other").status, 404);
    assert_eq!(client.fetch("/app").status, 200);
}

/// RFC 9113 section 9.1.1: the certificate of the connection is not the one that the host has.
#[test]
fn a_host_that_has_another_certificate_is_answered_421() {
    let origin = echo();
    let authority = CertificateAuthority::new();
    let folder = temporary_folder();
    authority.issue(folder.path(), "a", &["a.test", "also.a.test"], ECDSA);
    authority.issue(folder.path(), "b", &["b.test"], ECDSA);
    let certificates = WEB_TLS.replace("}]", "}, { certificate = \"b.pem\", key = \"b.key\" }]");
    let weir = Weir::start_in(
        folder,
        &config_of(std::slice::from_ref(&origin), "")
            .replace("upstream.app.servers", &format!("{certificates}upstream.app.servers")),
    );
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    let mut status = |host: &str| {
        let fields = [(":method", "GET"), (":scheme", "https"), (":authority", host), (":path", "/")];
        let stream = client.open(&fields, true);
        let response = client.response(stream);
        (response.status, response.reason().map(str::to_owned))
    };
    assert_eq!(status("a.test").0, 200);
    assert_eq!(status("also.a.test").0, 200, "the certificate is for it too");
    assert_eq!(status("b.test"), (421, Some("misdirected".to_owned())));
    assert_eq!(status("c.test").0, 200, "no other certificate is for it");
    assert_eq!(status("a.test").0, 200);
    let mut other = Http2Client::connect_tls_as(&authority, weir.web(), "b.test");
    assert_eq!(other.fetch("/").status, 421, "a.test, on the connection of b.test");
}

#[test]
fn limits_hold_with_tls() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, "listener.web.limits.body_size = \"10B\"");
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    let stream = client.post("/", &[("content-length", "11")]);
    assert_eq!(client.outcome(stream).status, 413);
    assert_eq!(client.fetch("/").status, 200);
}
