//! Failed attempts that go to another server: with their body, for which methods, within which budget, and how they are
//! counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::watchdog::now;
use crate::harness::{CLOSED_PORT, Client, Gate, Origin, Response, Weir, eventually, origin::ok};

/// Two servers of which the one that is asked first breaks every connection after `break_after` bytes of body, without an
/// answer; the other echoes what it got.
struct Pair {
    origins: [Origin; 2],
}

impl Pair {
    fn breaking_after(break_after: usize) -> Pair {
        let first = Arc::new(AtomicUsize::new(usize::MAX));
        let server = |number: usize| {
            let first = Arc::clone(&first);
            Origin::start(move |conn| {
                let head = conn.head()?;
                let asked_first =
                    first.compare_exchange(usize::MAX, number, Ordering::SeqCst, Ordering::SeqCst).is_ok();
                if asked_first || first.load(Ordering::SeqCst) == number {
                    conn.take(break_after)?;
                    conn.reset();
                    return None;
                }
                let request = conn.request_body(head)?;
                conn.send(ok(&request.text()))
            })
        };
        Pair { origins: [server(0), server(1)] }
    }

    fn weir(&self, retry: &str) -> Weir {
        let [first, second] = self.origins.each_ref().map(Origin::address);
        Weir::start(&format!(
            "admin.address = \"127.0.0.1:0\"\nlistener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
             [upstream.app]\nservers = [\"{first}\", \"{second}\"]\nretry = {{ {retry} }}\n"
        ))
    }
}

fn send(weir: &Weir, method: &str, body: &str) -> Response {
    let head = format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut client = Client::connect(weir.web());
    client.send(head + body);
    client.response_to(method)
}

fn retries(weir: &Weir, cause: &str) -> f64 {
    weir.metrics().sum("weir_upstream_retries_total", &[&format!("cause=\"{cause}\"")])
}

fn refused(weir: &Weir, reason: &str) -> f64 {
    weir.metrics().sum("weir_upstream_retries_refused_total", &[&format!("reason=\"{reason}\"")])
}

#[test]
fn the_whole_body_goes_to_the_second_server() {
    for (len, break_after) in [(1, 0), (1_000, 1_000), (60_000, 10), (60_000, 60_000)] {
        let pair = Pair::breaking_after(break_after);
        let weir = pair.weir("");
        let body: String = (0..len).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        let response = send(&weir, "PUT", &body);
        assert_eq!(
            (response.status, response.text() == body),
            (200, true),
            "{len} bytes, broken after {break_after}"
        );
        assert_eq!(retries(&weir, "connection-error"), 1.0);
    }
}

#[test]
fn a_chunked_body_is_sent_again_with_its_trailers() {
    let pair = Pair::breaking_after(0);
    let weir = pair.weir("");
    let mut client = Client::connect(weir.web());
    client.send(
        "PUT / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4\r\ndefg\r\n0\r\nX-End: 1\r\n\r\n",
    );
    let response = client.response_to("PUT");
    assert_eq!((response.status, response.text()), (200, "abcdefg".to_owned()));
}

#[test]
fn a_client_that_is_still_sending_goes_on_behind_what_was_kept() {
    let pair = Pair::breaking_after(5);
    let weir = pair.weir("");
    let mut client = Client::connect(weir.web());
    client.send("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n01234");
    for origin in &pair.origins {
        origin.wait_for_connections(1);
    }
    client.send("56789");
    let response = client.response_to("PUT");
    assert_eq!((response.status, response.text()), (200, "0123456789".to_owned()));
}

#[test]
fn a_body_beyond_the_bound_is_not_sent_again() {
    let pair = Pair::breaking_after(2_000);
    let weir = pair.weir("body_size = \"1KiB\"");
    let response = send(&weir, "PUT", &"x".repeat(2_000));
    assert_eq!(response.status, 502);
    assert_eq!(refused(&weir, "body-not-replayable"), 1.0);
    assert_eq!(retries(&weir, "connection-error"), 0.0);
}

#[test]
fn a_body_beyond_the_bound_is_no_matter_when_no_server_was_reached() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         [upstream.app]\nbalance = \"round-robin\"\nservers = [\"{CLOSED_PORT}\", \"{}\"]\nretry.body_size = \"0B\"\n",
        origin.address()
    ));
    for _ in 0..4 {
        assert_eq!(send(&weir, "POST", &"x".repeat(100_000)).status, 200);
    }
    assert!(retries(&weir, "connect") >= 1.0);
}

#[test]
fn what_may_be_done_twice_is_for_the_config_to_say() {
    for (retry, method, status) in [
        ("", "POST", 502),
        ("methods = [\"GET\", \"POST\"]", "POST", 200),
        ("methods = [\"GET\", \"POST\"]", "PUT", 502),
        ("methods = [\"LOCK\"]", "LOCK", 200),
        ("", "LOCK", 502),
    ] {
        let pair = Pair::breaking_after(3);
        let weir = pair.weir(retry);
        assert_eq!(send(&weir, method, "abc").status, status, "{method} with {retry}");
        let expected = if status == 502 { 1.0 } else { 0.0 };
        assert_eq!(refused(&weir, "not-idempotent"), expected);
    }
}

/// A status of `retry.on_status` is relayed when no other server is left: the client gets it unchanged.
#[test]
fn a_status_that_cannot_go_again_reaches_the_client() {
    let answer =
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nX-Own: yes\r\nContent-Length: 4\r\n\r\nbusy";
    for (method, servers, asked, reason) in [
        ("POST", 1, 1, "not-idempotent"),
        ("POST", 2, 1, "not-idempotent"),
        ("GET", 1, 1, "no-other-server"),
        ("GET", 2, 2, "attempts-exhausted"),
        ("GET", 3, 2, "attempts-exhausted"),
    ] {
        let origins: Vec<Origin> = (0..servers).map(|_| Origin::answering(answer)).collect();
        let weir = on_503(&origins, "");
        let response = send(&weir, method, "abc");
        let case = format!("{method} with {servers} servers: {response:?}");
        assert_eq!((response.status, response.text()), (503, "busy".to_owned()), "{case}");
        assert_eq!(
            (response.field("retry-after"), response.field("x-own"), response.reason()),
            (Some("7"), Some("yes"), None),
            "{case}"
        );
        assert_eq!(origins.iter().map(|origin| origin.requests().len()).sum::<usize>(), asked, "{case}");
        assert_eq!(refused(&weir, reason), 1.0, "{case}");
        assert_eq!(retries(&weir, "status"), (asked - 1) as f64, "{case}");
    }
}

#[test]
fn a_status_beyond_the_budget_reaches_the_client() {
    let origins = [(); 2].map(|()| Origin::answering("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"));
    let weir = on_503(&origins, ", budget = \"0%\", budget_per_second = 0");
    let response = send(&weir, "GET", "");
    assert_eq!((response.status, response.text()), (503, "busy".to_owned()), "{response:?}");
    assert_eq!((refused(&weir, "budget-exhausted"), retries(&weir, "status")), (1.0, 0.0));
}

#[test]
fn a_status_goes_to_a_server_that_does_better() {
    let origins =
        [Origin::answering("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"), Origin::serving("fine")];
    let weir = on_503(&origins, "");
    let mut client = Client::connect(weir.web());
    for _ in 0..4 {
        let response = client.fetch("/");
        assert_eq!((response.status, response.text()), (200, "fine".to_owned()));
    }
    assert!(retries(&weir, "status") >= 1.0);
}

fn on_503(origins: &[Origin], more: &str) -> Weir {
    let servers: Vec<String> = origins.iter().map(|origin| format!("\"{}\"", origin.address())).collect();
    Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         [upstream.app]\nservers = [{}]\nejection = \"off\"\nretry = {{ on_status = [503]{more} }}\n",
        servers.join(", ")
    ))
}

/// With `same_server`, a lone server gets the request again, after pauses that double.
#[test]
fn a_lone_server_is_asked_again_after_pauses() {
    let attempts = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            match request.target() == "/recovers" && attempts.fetch_add(1, Ordering::SeqCst) == 2 {
                true => conn.send(ok("well"))?,
                false => conn.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy")?,
            }
        }
    });
    let weir =
        on_503(std::slice::from_ref(&origin), ", attempts_max = 3, same_server = true, backoff = \"50ms\"");
    let began = now();
    let response = Client::get(weir.web(), "/recovers");
    assert_eq!((response.status, response.text()), (200, "well".to_owned()));
    assert!(now() - began >= Duration::from_millis(50 + 100), "{:?}", now() - began);
    assert_eq!(retries(&weir, "status"), 2.0);
    let response = Client::get(weir.web(), "/never");
    assert_eq!((response.status, response.text()), (503, "busy".to_owned()));
    assert_eq!(refused(&weir, "attempts-exhausted"), 1.0);
    assert_eq!(origin.requests().len(), 6);
}

/// The time for retries begins with the first attempt: a request that has waited in the queue for longer than that is not too late.
#[test]
fn a_wait_in_the_queue_takes_no_time_from_the_retries() {
    const ELAPSED_MAX: Duration = Duration::from_secs(2);
    let gate = Gate::new();
    let held = gate.clone();
    let broken = AtomicBool::new(false);
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            if request.target() == "/held" {
                held.wait("the other one has waited");
            } else if !broken.swap(true, Ordering::SeqCst) {
                conn.send("HTTP/1.1 20")?;
                conn.reset();
                return None;
            }
            conn.send(ok("fine"))?;
        }
    });
    let settings = format!("retry.elapsed_max = \"{}s\"", ELAPSED_MAX.as_secs());
    let weir = Weir::with_one_slot(&origin, "", &settings);
    let mut clients = [Client::connect(weir.web()), Client::connect(weir.web())];
    clients[0].send_get("/held");
    origin.wait_for_requests(1);
    clients[1].send_get("/breaks");
    let queued = || weir.metrics().sum("weir_upstream_queue_length", &[]);
    eventually("the second waits", || queued() == 1.0);
    let since = now();
    eventually("it has waited for long", || since.elapsed() > ELAPSED_MAX);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(retries(&weir, "connection-error"), 1.0);
}

/// One of three servers takes requests and breaks: with a fifth of the traffic as budget, nearly all of them go again.
#[test]
fn the_budget_grows_with_the_traffic() {
    let broken = Origin::start(|conn| {
        conn.request()?;
        conn.reset();
        None
    });
    let well: Vec<Origin> = (0..5).map(|_| Origin::serving("fine")).collect();
    let servers: Vec<String> =
        std::iter::once(&broken).chain(&well).map(|origin| format!("\"{}\"", origin.address())).collect();
    let weir = Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         [upstream.app]\nbalance = \"round-robin\"\nservers = [{}]\n\
         retry = {{ budget = \"20%\", budget_per_second = 0 }}\n",
        servers.join(", ")
    ));
    let mut statuses = Vec::new();
    let mut client = Client::connect(weir.web());
    for _ in 0..1_200 {
        let response = client.fetch("/");
        statuses.push(response.status);
        if response.closes() {
            client = Client::connect(weir.web());
        }
    }
    let failed = statuses.iter().filter(|status| **status != 200).count();
    assert!(failed <= 40, "{failed} failed; the first ones find nothing in the budget");
    assert!(refused(&weir, "budget-exhausted") >= 1.0, "but no more than it is worth");
}

/// After a rollout, a source may still name servers that are gone. A POST that meets one after the other of them has reached no server, so that it
/// goes on, and each is met about once.
#[test]
fn servers_that_refuse_are_passed_over_without_using_up_attempts() {
    let origin = Origin::serving("here");
    let port = CLOSED_PORT.rsplit(':').next().expect("it has a port");
    let gone: String = (1..=20).map(|host| format!("\"127.0.1.{host}:{port}\", ")).collect();
    let weir = Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         [upstream.app]\nservers = [{gone}\"{}\"]\nretry = {{ attempts_max = 2 }}\n",
        origin.address()
    ));
    for _ in 0..10 {
        let response = send(&weir, "POST", "once");
        assert_eq!((response.status, &*response.text()), (200, "here"), "{response:?}");
    }
    assert!(retries(&weir, "connect") >= 10.0);
    assert_eq!(refused(&weir, "attempts-exhausted"), 0.0);
}
