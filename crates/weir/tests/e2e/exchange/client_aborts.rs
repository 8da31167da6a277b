//! A client that closes before its response has begun: the request leaves the queue or its server, and is logged as 499; unless more
//! requests follow it, or the listener serves clients that half-close on purpose.

use std::net::Shutdown;

use crate::harness::scripts::echo_gated;
use crate::harness::{CertificateAuthority, Client, End, Gate, Origin, Weir, eventually};

const GET: &str = "GET /wanted HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// The ways in which a client aborts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// Both directions, as a browser tab or `curl -m 1`.
    Close,
    /// FIN, after `close_notify` where there is TLS.
    HalfClose,
    /// FIN without `close_notify`.
    Fin,
}

impl Leaving {
    fn leave(self, mut client: Client, is_tls: bool) -> Option<Client> {
        match self {
            Leaving::Close => return None,
            Leaving::HalfClose => client.finish(),
            Leaving::Fin if is_tls => {
                client.tls().tcp.shutdown(Shutdown::Write).expect("the connection is open");
            }
            Leaving::Fin => client.finish(),
        }
        Some(client)
    }
}

/// Weir in front of one slot, with a listener `web` and one with TLS, `tls`.
struct Site {
    authority: CertificateAuthority,
    weir: Weir,
}

impl Site {
    fn start(origin: &Origin, settings: &str) -> Site {
        let authority = CertificateAuthority::new();
        let folder = authority.folder_for_web();
        let text = format!(
            "admin.address = \"127.0.0.1:0\"\nprocess.workers = 1\n\
             listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\"{settings} }}\n\
             listener.tls = {{ address = \"127.0.0.1:0\", upstream = \"app\"{settings}, \
             tls.certificates = [{{ certificate = \"a.pem\", key = \"a.key\" }}] }}\n\
             upstream.app = {{ servers = [\"{}\"], max_requests = 1, timeouts.queue = \"1m\" }}\n",
            origin.address()
        );
        Site { authority, weir: Weir::start_in(folder, &text) }
    }

    fn connect(&self, is_tls: bool) -> Client {
        match is_tls {
            false => Client::connect(self.weir.web()),
            true => self.authority.connect(self.weir.address("tls")),
        }
    }

    fn queue_length(&self) -> f64 {
        self.weir.metrics().sum("weir_upstream_queue_length", &[])
    }

    /// Clients that have left. One that closes before it has read the tickets of its TLS sends a reset.
    fn aborts(&self) -> f64 {
        let metrics = self.weir.metrics();
        let counted = |reason: &str| -> f64 {
            metrics.all("weir_listener_failures_total", &[&format!("reason=\"{reason}\"")]).iter().sum()
        };
        counted("client-closed") + counted("client-reset")
    }
}

/// A site whose one slot is taken by the request `/held` of `held`, until the gate opens.
struct Busy {
    gate: Gate,
    origin: Origin,
    site: Site,
    held: Client,
}

impl Busy {
    fn start(settings: &str) -> Busy {
        let gate = Gate::new();
        let origin = echo_gated(&gate, "/held");
        let site = Site::start(&origin, settings);
        let mut held = site.connect(false);
        held.send_get("/held");
        origin.wait_for_requests(1);
        Busy { gate, origin, site, held }
    }
}

/// Each with how it is sent: whole, and with nothing behind it.
const REQUESTS: [&str; 4] = [
    GET,
    "GET /wanted HTTP/1.0\r\n\r\n",
    "POST /wanted HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello",
    "POST /wanted HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
];

#[test]
fn a_client_that_leaves_gives_up_its_place_in_the_queue() {
    let Busy { gate, origin, site, mut held } = Busy::start("");
    let mut aborts = 0.0;
    for is_tls in [false, true] {
        for leaving in [Leaving::Close, Leaving::HalfClose, Leaving::Fin] {
            for request in REQUESTS {
                for is_split in [false, true] {
                    let what = format!("TLS {is_tls}, {leaving:?}, split {is_split}: {request:?}");
                    let mut client = site.connect(is_tls);
                    let (head, body) = request.split_at(request.find("\r\n\r\n").expect("a head") + 4);
                    if is_split && !body.is_empty() {
                        client.send(head);
                        eventually(&format!("it waits: {what}"), || site.queue_length() == 1.0);
                        client.send(body);
                    } else {
                        client.send(request);
                        eventually(&format!("it waits: {what}"), || site.queue_length() == 1.0);
                    }
                    let left = leaving.leave(client, is_tls);
                    eventually(&format!("it has left: {what}"), || site.queue_length() == 0.0);
                    aborts += 1.0;
                    eventually(&format!("that is counted: {what}"), || site.aborts() == aborts);
                    if let Some(mut client) = left {
                        assert!(client.take_to_end().0.is_empty(), "{what}");
                    }
                }
            }
        }
    }
    gate.open();
    assert_eq!(held.response().status, 200);
    assert_eq!(origin.targets(), ["/held"], "aborted requests did not reach the server");
}

#[test]
fn the_server_connection_of_a_client_that_left_is_closed() {
    for is_tls in [false, true] {
        for leaving in [Leaving::Close, Leaving::HalfClose, Leaving::Fin] {
            for request in REQUESTS {
                let origin = Origin::start(|conn| {
                    conn.request()?;
                    conn.wait_for_end();
                    None
                });
                let site = Site::start(&origin, "");
                let mut client = site.connect(is_tls);
                client.send(request);
                origin.wait_for_requests(1);
                let _left = leaving.leave(client, is_tls);
                let end = origin.wait_for_end(0);
                assert!(matches!(end, End::Closed | End::Reset), "{end}: {is_tls} {leaving:?} {request:?}");
                eventually("that is counted", || site.aborts() == 1.0);
                assert_eq!(origin.connections(), 1, "it is not tried again");
            }
        }
    }
}

#[test]
fn a_long_upload_is_given_up_too() {
    let Busy { gate, origin, site, mut held } = Busy::start("");
    for is_tls in [false, true] {
        let mut client = site.connect(is_tls);
        client.send(format!(
            "POST /wanted HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n{}",
            "x".repeat(100_000)
        ));
        eventually("it waits", || site.queue_length() == 1.0);
        drop(client);
        eventually("it has left", || site.queue_length() == 0.0);
    }
    gate.open();
    assert_eq!(held.response().status, 200);
    assert_eq!(origin.targets(), ["/held"]);
}

#[test]
fn requests_with_others_behind_them_are_served() {
    let first = ["GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned()];
    let posts = ["Content-Length: 2\r\n\r\nhi", "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"]
        .map(|body| format!("POST /a HTTP/1.1\r\nHost: a.test\r\n{body}"));
    for is_tls in [false, true] {
        for first in first.iter().chain(&posts) {
            let Busy { gate, origin: _origin, site, mut held } = Busy::start("");
            let mut client = site.connect(is_tls);
            client.send(format!("{first}GET /b HTTP/1.1\r\nHost: a.test\r\n\r\n"));
            client.finish();
            eventually("it waits", || site.queue_length() == 1.0);
            // A later client that leaves shows that time has passed.
            let mut other = site.connect(is_tls);
            other.send(GET);
            eventually("two wait", || site.queue_length() == 2.0);
            drop(other);
            eventually("one has left", || site.queue_length() == 1.0);
            gate.open();
            assert_eq!(held.response().status, 200);
            assert!(client.response().text().starts_with("/a"), "{is_tls} {first:?}");
        }
    }
}

#[test]
fn a_listener_may_serve_clients_that_half_close() {
    let Busy { gate, origin: _origin, site, mut held } = Busy::start(", abort_on_close = false");
    let clients: Vec<Client> = REQUESTS
        .iter()
        .map(|request| {
            let mut client = site.connect(false);
            client.send(request);
            client.finish();
            client
        })
        .collect();
    eventually("all wait", || site.queue_length() == 4.0);
    gate.open();
    assert_eq!(held.response().status, 200);
    for mut client in clients {
        assert!(client.response().text().starts_with("/wanted"));
    }
    assert_eq!(site.aborts(), 0.0);
}
