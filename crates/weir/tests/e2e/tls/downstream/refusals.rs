//! Clients that cannot be served: their response and the counters.

use super::Site;
use crate::harness::client_hello::hello_with;
use crate::harness::tls::try_connect;
use crate::harness::{CertificateAuthority, Client, End, Origin, eventually};

fn counted(site: &Site, reason: &str) -> bool {
    site.weir.metrics().all("weir_listener_failures_total", &[&format!("reason=\"{reason}\"")]) == [1.0]
}

#[test]
fn plain_http_on_a_tls_port_gets_an_explanation() {
    let origin = Origin::serving("never");
    let site = Site::start(&origin);
    let response = Client::get(site.weir.web(), "/");
    assert_eq!((response.status, response.reason()), (400, Some("plain-http-on-tls-port")));
    assert!(response.text().contains("https://"), "{}", response.text());
    assert!(response.closes());
    // All of a large request is there before the response.
    let body = "x".repeat(100_000);
    let mut client = Client::connect(site.weir.web());
    let request = format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n{body}");
    let _taken = client.send_what_is_taken(request);
    assert_eq!(client.response().status, 400);
    assert_eq!(origin.connections(), 0);
}

#[test]
fn noise_is_refused_and_silence_is_not_a_failure() {
    let origin = Origin::serving("never");
    let site = Site::start(&origin);
    let mut noise = Client::connect(site.weir.web());
    noise.send([0xff; 64]);
    let (_, end) = noise.take_to_end();
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
    eventually("the noise is counted", || counted(&site, "tls-handshake-failed"));
    // A probe of the port that sends nothing.
    Client::connect(site.weir.web()).finish();
    let mut broken = Client::connect(site.weir.web());
    broken.send(b"\x16\x03\x01\x00\x04\x01\x00\x00\x00");
    let (answer, _) = broken.take_to_end();
    assert_eq!(answer.first(), Some(&0x15), "an alert: {answer:?}");
    let mut half = Client::connect(site.weir.web());
    half.send(b"\x16\x03\x01\x02\x00");
    half.finish();
    half.take_to_end();
    eventually("one handshake was broken off", || counted(&site, "tls-client-closed"));
}

#[test]
fn a_client_that_does_not_trust_the_certificate_says_so() {
    let origin = Origin::serving("never");
    let site = Site::start(&origin);
    let error = try_connect(site.weir.web(), CertificateAuthority::new().client(), "a.test")
        .expect_err("the authority is unknown");
    assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    eventually("the alert is counted", || counted(&site, "tls-client-alert"));
    assert_eq!(origin.connections(), 0);
    let requests = site.weir.metrics().sum("weir_listener_requests_total", &["listener=\"web\""]);
    assert!(requests < 0.5, "no request came: {requests}");
}

#[test]
fn a_handshake_has_its_time() {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, "listener.web.timeouts.tls = \"300ms\"");
    let mut client = Client::connect(site.weir.web());
    client.send(b"\x16\x03\x01\x02\x00\x01");
    let (_, end) = client.take_to_end();
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
    eventually("the time limit is counted", || counted(&site, "tls-handshake-timeout"));
    // The limit ends with the handshake.
    let mut slow = site.connect();
    crate::harness::watchdog::work(std::time::Duration::from_millis(700));
    slow.assert_alive();
}

/// The start of an exchange and its time, in microseconds, of each line of the access log.
fn started_and_lasted(site: &Site, count: usize) -> Vec<(u64, u64)> {
    let number = |text: &str| text.parse().expect("it is a number");
    let lines = site.weir.access_log(count);
    lines
        .iter()
        .map(|line| line.split_once(' ').expect("two fields"))
        .map(|(at, time)| (number(at), number(time)))
        .collect()
}

#[test]
fn what_fails_before_a_request_has_its_own_start() {
    let origin = Origin::serving("x");
    let site = Site::start_with(
        &origin,
        "process.workers = 1\nlistener.web.timeouts.tls = \"300ms\"
         listener.web.access_log = { output = \"file:{dir}/access.log\", format = \"{time.us} {duration}\" }",
    );
    for start in [&b"\x16\x03\x01\x02\x00\x01"[..], b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n"] {
        let mut client = Client::connect(site.weir.web());
        client.send(start);
        client.take_to_end();
    }
    let lines = started_and_lasted(&site, 3);
    for pair in lines.windows(2) {
        // The clocks of the start and of the time are two: a millisecond between them does not count.
        assert!(pair[1].0 + 1_000 >= pair[0].0 + pair[0].1, "one begins after the other: {lines:?}");
    }
    assert!(lines[0].1 >= 300_000 && lines[1].1 >= 300_000, "the time of the handshake: {lines:?}");
}

#[test]
fn handshakes_that_stop_make_room_at_the_limit() {
    let origin = Origin::serving("fine");
    let site = Site::start_with(&origin, "process.workers = 1\nprocess.connections_max = 4");
    let halves: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = Client::connect(site.weir.web());
            client.send(b"\x16\x03\x01\x02\x00\x01");
            client
        })
        .collect();
    assert_eq!(site.connect().fetch("/").status, 200);
    eventually("one has gone for it", || counted(&site, "slow-head-at-limit"));
    drop(halves);
}

/// RFC 5246 section 7.2.2: `handshake_failure`, which is what clients and scanners take for "not this suite".
#[test]
fn unsupported_suites_end_in_the_expected_alert() {
    let origin = Origin::serving("never");
    let site = Site::start(&origin);
    // RSA key exchange without forward secrecy, CBC, RC4, 3DES.
    for suite in [0x002f, 0x009c, 0xc013, 0xc009, 0x0005, 0x000a] {
        let mut client = Client::connect(site.weir.web());
        client.send(hello_with(suite));
        let (answer, _) = client.take_to_end();
        assert_eq!(answer, [21, 3, 3, 0, 2, 2, 40], "suite {suite:04x}");
    }
    eventually("all are counted", || {
        site.weir.metrics().all("weir_listener_failures_total", &["reason=\"tls-no-shared-cipher\""]) == [6.0]
    });
}
