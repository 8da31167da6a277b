//! The order in which requests leave the queue of a busy upstream, evictions, and the responses to clients.

use std::thread;
use std::time::Duration;

use crate::harness::scripts::gated;
use crate::harness::watchdog::work;
use crate::harness::{Client, Gate, Origin, Weir, eventually, origin::ok};

/// Weir with one slot on `origin`, a route for each priority, and these keys of the queue.
fn weir(origin: &Origin, queue: &str) -> Weir {
    Weir::with_one_slot(origin, "", &format!("queue = {{ {queue} }}"))
}

/// Sends a request for `target` from the address `from`, and waits until `waiting` requests wait.
fn ask(weir: &Weir, from: &str, target: &str, waiting: usize) -> Client {
    let mut client = Client::connect_from(from, weir.web());
    client.send_get(target);
    let queued = || weir.metrics().sum("weir_upstream_queue_length", &[]);
    eventually("the request waits", || queued() == waiting as f64);
    client
}

#[test]
fn higher_priorities_leave_first() {
    let gate = Gate::new();
    let origin = gated(&gate, "/", "fine");
    let weir = weir(&origin, "");
    let mut clients = vec![ask(&weir, "127.0.0.1", "/served", 0)];
    origin.wait_for_requests(1);
    for (n, target) in ["/low/1", "/1", "/high/1", "/low/2", "/2", "/high/2"].into_iter().enumerate() {
        clients.push(ask(&weir, "127.0.0.1", target, n + 1));
    }
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    let order = ["/served", "/high/1", "/high/2", "/1", "/2", "/low/1", "/low/2"];
    assert_eq!(origin.targets(), order);
}

#[test]
fn clients_take_turns() {
    for (fair_share, order) in [
        (true, ["/served", "/a1", "/b1", "/a2", "/b2", "/a3", "/a4"]),
        (false, ["/served", "/a1", "/a2", "/a3", "/a4", "/b1", "/b2"]),
    ] {
        let gate = Gate::new();
        let origin = gated(&gate, "/", "fine");
        let weir = weir(&origin, &format!("fair_share = {fair_share}"));
        let mut clients = vec![ask(&weir, "127.0.0.1", "/served", 0)];
        origin.wait_for_requests(1);
        for (n, target) in ["/a1", "/a2", "/a3", "/a4", "/b1", "/b2"].into_iter().enumerate() {
            let from = if target.starts_with("/a") { "127.0.0.2" } else { "127.0.0.3" };
            clients.push(ask(&weir, from, target, n + 1));
        }
        gate.open();
        clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
        assert_eq!(origin.targets(), order, "fair_share = {fair_share}");
    }
}

#[test]
fn a_full_queue_makes_room_for_what_is_more_urgent() {
    let gate = Gate::new();
    let origin = gated(&gate, "/", "fine");
    let weir = weir(&origin, "length_max = 2, fair_share = true");
    let mut served = ask(&weir, "127.0.0.1", "/served", 0);
    origin.wait_for_requests(1);
    let mut low = ask(&weir, "127.0.0.2", "/low", 1);
    let mut first = ask(&weir, "127.0.0.2", "/1", 2);
    let mut second = ask(&weir, "127.0.0.2", "/2", 2);
    let displaced = low.response();
    assert_eq!((displaced.status, displaced.reason()), (503, Some("queue-evicted")));
    // No request is less urgent, but one client has two places.
    let mut other = ask(&weir, "127.0.0.3", "/3", 2);
    let displaced = second.response();
    assert_eq!((displaced.status, displaced.reason()), (503, Some("queue-evicted")));
    let refused = Client::get(weir.web(), "/low");
    assert_eq!((refused.status, refused.reason()), (503, Some("queue-full")));
    gate.open();
    for client in [&mut served, &mut first, &mut other] {
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(origin.targets(), ["/served", "/1", "/3"]);
}

/// A client with 200 waiting requests fills the queue: another one's requests are not refused, and it loses its newest, whichever worker
/// has them. Its own are refused.
#[test]
fn a_greedy_client_makes_room_for_a_light_one() {
    const GREEDY: usize = 200;
    let gate = Gate::new();
    let origin = gated(&gate, "/", "fine");
    let process = "process.workers = 2";
    let weir = Weir::with_one_slot(&origin, process, &format!("queue = {{ length_max = {GREEDY} }}"));
    let mut served = ask(&weir, "127.0.0.1", "/served", 0);
    origin.wait_for_requests(1);
    let mut greedy: Vec<Client> =
        (1..=GREEDY).map(|n| ask(&weir, "127.0.0.2", &format!("/greedy/{n}"), n)).collect();
    let mut refused = Client::connect_from("127.0.0.2", weir.web());
    refused.send_get("/greedy/more");
    let response = refused.response();
    assert_eq!((response.status, response.reason()), (503, Some("queue-full")));
    assert!(response.field("retry-after").is_some());
    let mut light: Vec<Client> = Vec::new();
    for n in 1..=3 {
        let mut client = Client::connect_from("127.0.0.3", weir.web());
        client.send_get(&format!("/light/{n}"));
        let response = greedy.pop().expect("there are more").response();
        assert_eq!((response.status, response.reason()), (503, Some("queue-evicted")), "{n}");
        assert!(response.field("retry-after").is_some());
        light.push(client);
    }
    gate.open();
    for client in [&mut served].into_iter().chain(&mut greedy).chain(&mut light) {
        assert_eq!(client.response().status, 200);
    }
    assert_eq!(origin.targets()[GREEDY - 2..], ["/light/1", "/light/2", "/light/3"]);
    let failures = |reason: &str| {
        let of_reason = format!("reason=\"{reason}\"");
        weir.metrics().all("weir_upstream_failures_total", &[&of_reason]).iter().sum::<f64>()
    };
    eventually("they are counted", || failures("queue-evicted") == 3.0 && failures("queue-full") == 1.0);
}

/// Until a request has left the queue, `Retry-After` is its time limit.
#[test]
fn a_rejected_request_gets_retry_after() {
    let gate = Gate::new();
    let origin = gated(&gate, "/", "fine");
    let weir = weir(&origin, "length_max = 0");
    let mut served = ask(&weir, "127.0.0.1", "/served", 0);
    origin.wait_for_requests(1);
    let refused = Client::get(weir.web(), "/");
    assert_eq!((refused.status, refused.reason()), (503, Some("all-servers-full")));
    assert_eq!(refused.field("retry-after"), Some("10"));
    gate.open();
    assert_eq!(served.response().status, 200);
}

/// Many clients that ask again at once, and a server that gives each its time: waits grow beyond the target for good.
#[test]
fn lasting_overload_sends_the_late_ones_away() {
    const CLIENTS: usize = 40;
    const REQUESTS: usize = 10;
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            work(Duration::from_millis(5));
            conn.send(ok("fine"))?;
        }
    });
    let weir = weir(&origin, "delay_target = \"50ms\", delay_interval = \"100ms\"");
    let web = weir.web();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Client::connect(web);
                let mut sent_away = 0;
                for _ in 0..REQUESTS {
                    let response = client.fetch("/");
                    if response.status == 503 {
                        assert_eq!(response.reason(), Some("queue-overload"));
                        let seconds: u32 =
                            response.field("retry-after").expect("it says when").parse().expect("seconds");
                        assert!((1..=120).contains(&seconds), "{seconds}");
                        sent_away += 1;
                    } else {
                        assert_eq!(response.status, 200);
                    }
                }
                sent_away
            })
        })
        .collect();
    let sent_away: usize =
        clients.into_iter().map(|client| client.join().expect("the client is content")).sum();
    assert!((1..CLIENTS * REQUESTS).contains(&sent_away), "{sent_away}");
    assert_eq!(origin.requests().len(), CLIENTS * REQUESTS - sent_away);
    let counted = weir.metrics().sum("weir_listener_failures_total", &["reason=\"queue-overload\""]);
    assert_eq!(counted as usize, sent_away);
}
