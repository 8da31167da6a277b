//! Every kind of failure is kept and explained, by the id that its client got or by its number in the list.

use super::{assert_reported, failed, failures, get, weir, why};
use crate::harness::scripts::gated;
use crate::harness::tls::ECDSA;
use crate::harness::{
    CLOSED_PORT, CertificateAuthority, Client, Gate, Origin, Weir, eventually, origin::ok, temporary_folder,
};

/// RFC 9114 section 8.1.
#[cfg(feature = "http3")]
const H3_EXCESSIVE_LOAD: u64 = 0x107;

#[cfg(feature = "http3")]
const HTTP3: &str = "listener.web.http3 = {}\nlistener.web.tls.unknown_names = \"refused\"\n";

#[test]
fn a_server_that_is_not_there() {
    let weir = weir(&[CLOSED_PORT], "");
    let (response, id) = get(&weir, "/app/page?secret=1");
    assert_eq!((response.status, response.reason()), (502, Some("connect-refused")));
    let report = why(&weir, &id);
    let attempt = format!("attempt 1  on {CLOSED_PORT} after");
    assert_reported(
        &report,
        &[
            &id,
            "request    GET /app/page for example.test\n",
            "on listener web\n",
            "route      everything, which takes path prefix /\n",
            "upstream   app, which chooses by least-requests\n",
            &attempt,
            "no connection came about",
            "had 0 in flight; there was no other server",
            "failed after",
            "connect-refused",
            "nothing of the request was",
            "answer     502 by Weir itself",
            "ended      no connection to the server came about\n",
            "failure    connect-refused: phase connect, party server, cause refused\n",
            "to change  ",
            "read       docs/failures.md#connect-refused\n",
            "connect ",
            " ms  ####",
        ],
    );
    assert!(!report.contains("secret"), "the query is not kept:\n{report}");
}

#[test]
fn a_server_that_breaks_off() {
    let origin = Origin::start(|conn| {
        match conn.request()?.target() {
            "/before" => conn.reset(),
            "/close" => {}
            _ => {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")?;
                conn.reset();
            }
        }
        None
    });
    let weir = weir(&[&origin.address().to_string()], "upstream.app.retry.attempts_max = 1");
    let (response, id) = get(&weir, "/before");
    assert_eq!(response.reason(), Some("response-reset"));
    let parts = [
        "attempt 1  ",
        "on a new connection",
        "the request was sent",
        "not tried again, all attempts that the config allows were used",
        "ended      the server reset the connection (RST)",
        "failure    response-reset",
    ];
    assert_reported(&why(&weir, &id), &parts);
    let (response, id) = get(&weir, "/close");
    assert_eq!(response.reason(), Some("response-closed"));
    assert_reported(
        &why(&weir, &id),
        &["ended      the server closed the connection first (FIN)", "failure    response-closed"],
    );
    // There is no page: its response had begun.
    let mut client = Client::connect(weir.web());
    client.send_get("/within");
    client.take_to_end();
    let number = failed(&weir, "relay-server-reset");
    assert_reported(
        &why(&weir, &number),
        &["GET /within", "answer     200 by the server", "ended      the server reset", "phase relay"],
    );
}

#[test]
fn a_server_that_takes_too_long() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.wait_for_end();
        None
    });
    let more = "upstream.app.timeouts.response = \"200ms\"\nupstream.app.retry.attempts_max = 1";
    let weir = weir(&[&origin.address().to_string()], more);
    let (response, id) = get(&weir, "/");
    assert_eq!((response.status, response.reason()), (504, Some("response-timeout")));
    let parts = [
        "attempt 1",
        "answer     504 by Weir",
        "ended      Weir ended it: a time limit had passed",
        "failure    response-timeout",
    ];
    assert_reported(&why(&weir, &id), &parts);
}

#[test]
fn servers_that_are_full() {
    let gate = Gate::new();
    let origin = gated(&gate, "/held", "fine");
    for (queue, reason) in [("length_max = 0", "all-servers-full"), ("length_max = 5", "queue-timeout")] {
        let weir =
            Weir::with_one_slot(&origin, "", &format!("queue = {{ {queue} }}\ntimeouts.queue = \"100ms\""));
        let mut held = Client::connect(weir.web());
        held.send_get("/held");
        eventually("the slot is taken", || weir.metrics().sum("weir_server_attempts_total", &[]) >= 1.0);
        let (response, id) = get(&weir, "/late");
        assert_eq!((response.status, response.reason()), (503, Some(reason)));
        let report = why(&weir, &id);
        assert_reported(
            &report,
            &["servers    none took it:", "with 1 in flight: all slots are in use", "failure"],
        );
        assert!(report.contains(reason), "{report}");
        assert!(!report.contains("attempt 1"), "{report}");
    }
    gate.open();
}

#[test]
fn a_client_that_leaves() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.wait_for_end();
        None
    });
    let weir = weir(&[&origin.address().to_string()], "");
    let mut client = Client::connect(weir.web());
    client.send_get("/wait");
    origin.wait_for_requests(1);
    client.reset();
    eventually("it is kept", || !failures(&weir).is_empty());
    let kept = &failures(&weir)[0];
    assert_eq!((&kept["failure"]["party"], &kept["path"]), (&"client".into(), &"/wait".into()), "{kept}");
    let report = why(&weir, kept["number"].as_str().expect("a number"));
    assert_reported(
        &report,
        &["attempt 1", "answer     none", "ended      the client reset the connection (RST)"],
    );
}

#[test]
fn a_head_that_breaks_a_rule() {
    let origin = Origin::serving("never");
    let weir = weir(&[&origin.address().to_string()], "");
    let mut client = Client::connect(weir.web());
    client.send("GET /bad?secret=1 HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n");
    let response = client.response();
    assert_eq!(response.status, 400);
    let text = response.text();
    let number = {
        eventually("it is kept", || !failures(&weir).is_empty());
        failures(&weir)[0]["id"].as_str().expect("an id").to_owned()
    };
    assert!(text.contains(&number), "the page has the id {number}:\n{text}");
    let report = why(&weir, &number);
    assert_reported(
        &report,
        &[
            "no request could be read; it began with \"GET /bad\"",
            "answer     400 by Weir itself",
            "phase request, party client",
        ],
    );
    assert!(!report.contains("secret"), "{report}");
}

#[test]
fn a_request_that_no_route_takes() {
    let weir = Weir::start(
        "admin.address = \"127.0.0.1:0\"\nlistener.web.address = \"127.0.0.1:0\"\nupstream.app.servers = [\"127.0.0.1:1\"]\n\
         listener.web.route = [{ path = \"/app\", upstream = \"app\" }]\n",
    );
    let (_, id) = get(&weir, "/other");
    let report = why(&weir, &id);
    assert_reported(&report, &["GET /other", "answer     404 by Weir", "failure    no-route"]);
    assert!(!report.contains("upstream "), "{report}");
}

#[test]
fn a_handshake_that_fails() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(ok("never"))
    });
    let folder = temporary_folder();
    CertificateAuthority::new().issue(folder.path(), "a", &["a.test"], ECDSA);
    let weir = Weir::start_in(
        folder,
        &format!(
            "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nadmin.address = \"127.0.0.1:0\"\n\
             listener.web.tls.certificates = [{{ certificate = \"a.pem\", key = \"a.key\" }}]\nupstream.app.servers = [\"{}\"]\n",
            origin.address()
        ),
    );
    let mut noise = Client::connect(weir.web());
    noise.send([0xff; 64]);
    noise.take_to_end();
    let number = failed(&weir, "tls-handshake-failed");
    assert_reported(
        &why(&weir, &number),
        &[
            "request    no request could be read\n",
            "failure    tls-handshake-failed: phase tls, party client",
        ],
    );
}

#[cfg(feature = "http3")]
#[test]
fn what_fails_over_http3_says_so() {
    use crate::harness::config_with;
    use crate::harness::http3::Http3Client;
    use crate::harness::tls::WEB_TLS;

    let authority = CertificateAuthority::new();
    let text = config_with(&[format!("\"{CLOSED_PORT}\"")], &format!("{WEB_TLS}{HTTP3}"));
    let weir = Weir::start_in(authority.folder_for_web(), &text);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/page").status, 502);
    let number = failed(&weir, "connect-refused");
    let parts =
        ["request    GET /page for a.test\n", "on listener web over QUIC (HTTP/3)\n", "connect-refused"];
    assert_reported(&why(&weir, &number), &parts);
    // Of a connection that has broken a rule, and of one without a handshake.
    assert_eq!(client.open_without_type(2000, drop), H3_EXCESSIVE_LOAD);
    let kept = failures(&weir);
    assert_eq!(kept[0]["kind"], "no-request", "{kept:?}");
    let report = why(&weir, kept[0]["number"].as_str().expect("it has a number"));
    assert_reported(&report, &["no request on this connection", "on listener web over QUIC (HTTP/3)\n"]);
    assert!(Http3Client::try_connect_as(weir.web(), authority.client(), "other.test").is_err());
    let report = why(&weir, &failed(&weir, "tls-unrecognized-name"));
    assert_reported(&report, &["on listener web over QUIC (HTTP/3)\n", "phase tls, party client"]);
}

#[test]
fn a_connection_that_is_not_served() {
    let origin = Origin::serving("fine");
    let weir = weir(&[&origin.address().to_string()], "listener.web.connections_per_client_max = 1");
    let mut first = Client::connect(weir.web());
    assert_eq!(first.fetch("/").status, 200);
    Client::connect(weir.web()).take_to_end();
    let number = failed(&weir, "client-connection-limit");
    assert_reported(
        &why(&weir, &number),
        &["no request on this connection", "127.0.0.1:", "answer     none", "connections_per_client_max"],
    );
}

#[test]
fn a_head_that_is_not_good_began_when_it_came_and_not_with_the_exchange_before() {
    let origin = Origin::serving("fine");
    let weir = weir(&[&origin.address().to_string()], "");
    assert_eq!(Client::get(weir.web(), "/").status, 200);
    let began = |line: &serde_json::Value| line["time"].as_str().expect("a time").to_owned();
    let mut first = String::new();
    eventually("the first exchange is kept", || {
        first = weir.admin_json("/api/exchanges")["exchanges"].get(0).map(began).unwrap_or_default();
        !first.is_empty()
    });
    let mut broken = Client::connect(weir.web());
    broken.send("GET / HTTP/1.1\r\nHost : a.test\r\n\r\n");
    assert_eq!(broken.response().status, 400);
    let mut half = Client::connect(weir.web());
    half.send("GET / HTTP/1.1\r\nHost:");
    half.finish();
    eventually("both are kept", || failures(&weir).len() == 2);
    let times: Vec<String> = failures(&weir).iter().map(began).collect();
    assert!(times.iter().all(|time| *time > first), "{times:?} after {first}");
}
