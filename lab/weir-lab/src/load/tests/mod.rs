//! The driver against the origin, and against servers that answer as a script says.

mod http3;
mod slow;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{Timespec, epoll};

use super::exchange::{RequestShape, SignedRequest, prepare, sign};
use super::{
    Connections, ExchangeOrder, FailedExchange, LoadFault, LoadOutcome, LoadPattern, LoadPlan, LoadProgress,
    driver, websocket,
};
use crate::clock;
use crate::load::held_connections::{HeldConnections, HeldExchange};
use crate::origin::OriginServer;
use crate::wire::fields;

fn plan(target: SocketAddr, body_len: usize, connections: Connections) -> LoadPlan {
    let close = connections == Connections::PerExchange;
    LoadPlan {
        target,
        secure: None,
        exchanges: prepare(&RequestShape {
            host: &target.to_string(),
            path: "/",
            body_len,
            answer_len: 612,
            close,
            cookie: None,
        }),
        choice: ExchangeOrder::ByClient,
        clients: 7,
        connections,
        arrival: LoadPattern::Closed,
        warm_up: Duration::from_millis(20),
        window: Duration::from_millis(150),
        timeout: Duration::from_secs(20),
        faults_max: 20,
        trace: false,
        pace: None,
        name: None,
    }
}

fn drive(plan: &LoadPlan) -> LoadOutcome {
    driver::run(plan, &LoadProgress::default()).unwrap()
}

fn origin() -> OriginServer {
    OriginServer::start("127.0.0.1:0".parse().unwrap(), 1).unwrap()
}

/// A server that reads one request head and answers `script`, then does so again or closes.
fn scripted(script: &'static [u8], closes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = move |mut stream: TcpStream| {
        let (mut seen, mut part) = (Vec::new(), [0; 4096]);
        loop {
            while fields::head_len(&seen).is_none() {
                match stream.read(&mut part) {
                    Ok(len) if len > 0 => seen.extend_from_slice(&part[..len]),
                    _ => return,
                }
            }
            seen.clear();
            if stream.write_all(script).is_err() || closes {
                return;
            }
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream));
        }
    });
    addr
}

#[test]
fn kept_connections_carry_many_exchanges() {
    let origin = origin();
    for body_len in [0, 1024, 300_000] {
        let before = origin.counters().accepted();
        let outcome = drive(&plan(origin.addr(), body_len, Connections::Kept));
        assert!(outcome.faults.is_empty(), "{}", outcome.faults);
        assert!(outcome.exchanges > 0, "{} exchanges of {body_len} bytes", outcome.exchanges);
        assert_eq!(outcome.latency.len(), outcome.exchanges);
        assert_eq!((outcome.opened, origin.counters().accepted() - before), (7, 7));
    }
}

#[test]
fn a_connection_per_exchange_is_closed_by_the_target() {
    let origin = origin();
    let outcome = drive(&plan(origin.addr(), 0, Connections::PerExchange));
    assert!(outcome.faults.is_empty(), "{}", outcome.faults);
    assert!(outcome.exchanges > 0);
    assert!(outcome.opened >= outcome.exchanges);
    assert_eq!(origin.counters().accepted(), origin.counters().requests());
}

#[test]
fn a_constant_rate_is_held_and_counted_from_the_intended_start() {
    let origin = origin();
    let mut plan = plan(origin.addr(), 0, Connections::Kept);
    plan.arrival = LoadPattern::Rate(1000.0);
    let outcome = drive(&plan);
    assert!(outcome.faults.is_empty(), "{}", outcome.faults);
    assert_eq!((outcome.exchanges, outcome.unsent), (150, 0));
    assert_eq!(outcome.lateness.len(), 150);
}

#[test]
fn a_stall_counts_against_every_request_that_was_due_in_it() {
    // Two clients, 30 ms per answer: at most 67 a second are served of the 400 that are due.
    let origin = origin();
    let mut plan = plan(origin.addr(), 0, Connections::Kept);
    plan.exchanges = prepare(&RequestShape {
        host: &origin.addr().to_string(),
        path: "/delay/30",
        body_len: 0,
        answer_len: 612,
        close: false,
        cookie: None,
    });
    (plan.clients, plan.arrival) = (2, LoadPattern::Rate(400.0));
    (plan.warm_up, plan.window) = (Duration::ZERO, Duration::from_millis(50));
    let outcome = drive(&plan);
    assert!(outcome.faults.is_empty(), "{}", outcome.faults);
    assert_eq!(outcome.exchanges, 20);
    // The last of 20 requests is answered after ten rounds of 30 ms and was due at 47.5 ms.
    assert!(outcome.latency.max() > 250_000_000, "{} ns", outcome.latency.max());
}

#[test]
fn a_rate_changes_when_it_is_to() {
    let until = Duration::from_millis(100);
    let arrival = LoadPattern::Change { first: 1000.0, until, then: 100.0 };
    let due: Vec<u64> = (0..103).map(|number| arrival.due_ns(number).unwrap() / 1_000_000).collect();
    assert_eq!((due[0], due[50], due[99], due[100], due[101], due[102]), (0, 50, 99, 100, 110, 120));
    assert_eq!(LoadPattern::Rate(100.0).due_ns(3), Some(30_000_000));
    assert_eq!(LoadPattern::Closed.due_ns(0), None);
    let origin = origin();
    let mut plan = plan(origin.addr(), 0, Connections::Kept);
    (plan.arrival, plan.warm_up) = (arrival, Duration::ZERO);
    // 100 in the first 100 ms, 5 in the 50 ms after these.
    assert_eq!(drive(&plan).exchanges, 105);
}

#[test]
fn every_exchange_is_kept_in_a_trace_that_says_which_it_was() {
    let origin = origin();
    let mut plan = plan(origin.addr(), 0, Connections::Kept);
    let signed = SignedRequest { host: origin.addr(), service: Duration::from_millis(2), body_len: 0 };
    plan.exchanges = (0..5).map(|number| sign(&signed, number)).collect();
    // The last one of five is refused.
    plan.exchanges[4].request = b"GET /status/503 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    (plan.choice, plan.arrival, plan.trace) = (ExchangeOrder::InTurn, LoadPattern::Rate(1000.0), true);
    plan.faults_max = u64::MAX;
    let outcome = drive(&plan);
    assert_eq!(outcome.trace.len(), 170);
    let mut in_order = outcome.trace.clone();
    in_order.sort_by_key(|event| event.due);
    for (number, event) in in_order.iter().enumerate() {
        assert_eq!((event.exchange, event.is_answered), (number % 5, number % 5 < 4), "{event:?}");
        assert!(event.due <= event.began && event.began <= event.ended, "{event:?}");
        assert!(!event.is_answered || event.latency_ns() >= 2_000_000, "{event:?}");
    }
    assert_eq!(outcome.faults.total, 34);
    assert!(outcome.started_ns <= clock::uptime_ns());
}

/// A server that gives `cookies[n]` out with its answer number `n`; what it read of Cookie fields comes through the channel.
fn giver(cookies: &'static [Option<&'static str>]) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (sender, seen) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for cookie in cookies {
            let mut request = Vec::new();
            while fields::head_len(&request).is_none() {
                let mut part = [0; 4096];
                let len = stream.read(&mut part).unwrap();
                request.extend_from_slice(&part[..len]);
            }
            let text = String::from_utf8(request).unwrap();
            let sent: Vec<&str> = text.lines().filter(|line| line.starts_with("Cookie")).collect();
            sender.send(sent.join(" and ")).unwrap();
            let given = cookie.map_or_else(String::new, |cookie| format!("Set-Cookie: {cookie}\r\n"));
            write!(stream, "HTTP/1.1 200 OK\r\n{given}Content-Length: 0\r\n\r\n").unwrap();
        }
    });
    (addr, seen)
}

#[test]
fn a_client_keeps_the_cookie_that_it_was_given_last() {
    let (addr, seen) = giver(&[None, Some("SRV=one; path=/"), None, Some("SRV=two"), None]);
    let mut plan = plan(addr, 0, Connections::Kept);
    let cookie = Some("session=5");
    plan.exchanges = prepare(&RequestShape {
        host: &addr.to_string(),
        path: "/",
        body_len: 0,
        answer_len: 0,
        close: false,
        cookie,
    });
    (plan.clients, plan.faults_max) = (1, 1);
    let outcome = drive(&plan);
    assert_eq!(outcome.cookies, 2);
    let (own, one) = ("Cookie: session=5", "Cookie: session=5; SRV=one");
    assert_eq!(seen.iter().collect::<Vec<_>>(), [own, own, one, one, "Cookie: session=5; SRV=two"]);
}

#[test]
fn every_client_has_a_jar_of_its_own() {
    // Each connection is given its number and expects it from then on.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, mut stream) in listener.incoming().flatten().enumerate() {
            std::thread::spawn(move || {
                let (mut seen, mut part, mut first) = (Vec::new(), [0; 4096], true);
                while let Ok(len @ 1..) = stream.read(&mut part) {
                    seen.extend_from_slice(&part[..len]);
                    if fields::head_len(&seen).is_none() {
                        continue;
                    }
                    let text = String::from_utf8_lossy(&seen).into_owned();
                    let is_own = text.contains(&format!("Cookie: SRV=s{number}\r\n"));
                    let status = if first || is_own { "200 OK" } else { "400 Bad Request" };
                    let head = format!("HTTP/1.1 {status}\r\nSet-Cookie: SRV=s{number}\r\nContent-Length: 0");
                    if write!(stream, "{head}\r\n\r\n").is_err() {
                        return;
                    }
                    seen.clear();
                    first = false;
                }
            });
        }
    });
    let mut plan = plan(addr, 0, Connections::Kept);
    plan.exchanges = prepare(&RequestShape {
        host: &addr.to_string(),
        path: "/",
        body_len: 0,
        answer_len: 0,
        close: false,
        cookie: None,
    });
    let outcome = drive(&plan);
    assert!(outcome.faults.is_empty(), "{}", outcome.faults);
    assert!(outcome.opened == 7 && outcome.exchanges > 0 && outcome.cookies >= outcome.exchanges);
}

#[test]
fn signed_requests_name_their_client_and_are_answered() {
    let origin = origin();
    for body_len in [0, 1024] {
        let mut plan = plan(origin.addr(), 0, Connections::Kept);
        let signed = SignedRequest { host: origin.addr(), service: Duration::from_millis(1), body_len };
        plan.exchanges = (0..7).map(|client| sign(&signed, client)).collect();
        let text = String::from_utf8_lossy(&plan.exchanges[6].request).into_owned();
        assert!(text.contains("/delay/1/client/6 ") && text.contains("\r\nX-Client: client-6\r\n"), "{text}");
        let outcome = drive(&plan);
        assert!(outcome.faults.is_empty() && outcome.exchanges > 0, "{}", outcome.faults);
    }
}

#[test]
fn every_wrong_answer_is_a_fault_of_its_kind() {
    for (script, closes, kind) in [
        (&b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"[..], false, "status"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, "body length"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n!!!\r\n0\r\n\r\n",
            false,
            "body content",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 612\r\n\r\n", true, "closed early"),
        (b"", true, "closed early"),
        (b"nonsense\r\n\r\n", false, "malformed answer"),
    ] {
        let outcome = drive(&plan(scripted(script, closes), 0, Connections::Kept));
        assert_eq!(outcome.exchanges, 0, "{kind}");
        assert_eq!(outcome.faults.kinds.keys().collect::<Vec<_>>(), [kind], "{}", outcome.faults);
    }
}

#[test]
fn no_answer_at_all_is_a_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut plan = plan(listener.local_addr().unwrap(), 0, Connections::Kept);
    plan.timeout = Duration::from_millis(60);
    let outcome = drive(&plan);
    assert_eq!(outcome.faults.kinds.keys().collect::<Vec<_>>(), ["timeout"], "{}", outcome.faults);
}

#[test]
fn nothing_listening_is_a_fault_and_ends_the_run() {
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let outcome = drive(&plan(nowhere, 0, Connections::Kept));
    assert_eq!(outcome.faults.kinds.keys().collect::<Vec<_>>(), ["connect"], "{}", outcome.faults);
    assert!(outcome.stopped && outcome.faults.total >= 20);
}

#[test]
fn a_target_that_does_not_close_as_requested_is_detected() {
    const PAGE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let addr = scripted(PAGE, false);
    let mut plan = plan(addr, 0, Connections::PerExchange);
    plan.exchanges = prepare(&RequestShape {
        host: &addr.to_string(),
        path: "/",
        body_len: 0,
        answer_len: 0,
        close: true,
        cookie: None,
    });
    plan.timeout = Duration::from_millis(300);
    let outcome = drive(&plan);
    assert!(outcome.faults.kinds.contains_key("not closed"), "{}", outcome.faults);
}

#[test]
fn an_announced_close_is_followed_and_no_fault() {
    const PAGE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let addr = scripted(PAGE, true);
    let mut plan = plan(addr, 0, Connections::Kept);
    plan.exchanges = prepare(&RequestShape {
        host: &addr.to_string(),
        path: "/",
        body_len: 0,
        answer_len: 0,
        close: false,
        cookie: None,
    });
    let outcome = drive(&plan);
    assert!(outcome.faults.is_empty(), "{}", outcome.faults);
    assert!(outcome.exchanges > 0 && outcome.closed_by_target >= outcome.exchanges);
}

#[test]
fn a_run_can_be_stopped_from_outside() {
    let origin = origin();
    let mut plan = plan(origin.addr(), 0, Connections::Kept);
    plan.window = Duration::from_secs(600);
    let progress = LoadProgress::default();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| driver::run(&plan, &progress).unwrap());
        while progress.exchanges.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        progress.stop.store(true, Ordering::Relaxed);
        assert!(running.join().unwrap().stopped);
    });
}

#[test]
fn held_connections_stay_usable_and_closed_ones_are_noticed() {
    let mut origin = Some(origin());
    let addr = origin.as_ref().map(OriginServer::addr).unwrap();
    let exchanges = prepare(&RequestShape {
        host: &addr.to_string(),
        path: "/",
        body_len: 0,
        answer_len: 612,
        close: false,
        cookie: None,
    });
    let mut held = HeldConnections::new(addr, HeldExchange::Http1(&exchanges[0]));
    held.grow_to(40).unwrap();
    held.grow_to(50).unwrap();
    assert_eq!(held.open(), 50);
    held.use_again(3).unwrap();
    assert_eq!(origin.as_ref().map(|origin| origin.counters().open()), Some(50));
    drop(origin.take());
    assert_eq!(held.open(), 0);
    assert!(held.use_again(10).is_err() && held.grow_to(51).is_err());
}

#[test]
fn tunnels_are_opened_once_and_carry_many_messages() {
    let origin = origin();
    for len in [1, 125, 126, 5_000, 60_000] {
        let before = origin.counters().accepted();
        let exchanges = websocket::prepare(origin.addr(), len);
        let outcome = drive(&LoadPlan { exchanges, ..plan(origin.addr(), 0, Connections::Kept) });
        assert!(outcome.faults.is_empty(), "{len} bytes: {}", outcome.faults);
        assert!(outcome.exchanges > 7, "{} messages of {len} bytes", outcome.exchanges);
        assert_eq!((outcome.opened, origin.counters().accepted() - before), (7, 7));
    }
}

#[test]
fn an_opening_that_is_refused_and_a_message_that_comes_back_changed_are_faults() {
    for (script, kind) in [
        (&b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"[..], "status"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n\x82\x01x",
            "surplus bytes",
        ),
    ] {
        let addr = scripted(script, false);
        let outcome =
            drive(&LoadPlan { exchanges: websocket::prepare(addr, 5), ..plan(addr, 0, Connections::Kept) });
        assert_eq!(outcome.exchanges, 0);
        assert_eq!(outcome.faults.kinds.keys().collect::<Vec<_>>(), [kind]);
    }
}

#[test]
fn a_heartbeat_uses_every_tunnel_once_an_interval() {
    let origin = origin();
    let exchanges = websocket::prepare(origin.addr(), 32);
    let mut held = HeldConnections::new(origin.addr(), HeldExchange::Http1(&exchanges[0]));
    held.grow_to(30).unwrap();
    let began = clock::now();
    let (interval, length) = (Duration::from_millis(60), Duration::from_millis(150));
    // At 0, 2, 4 ... 148 ms: two and a half turns.
    assert_eq!(held.beat(interval, length, || false), Ok(75));
    assert!(clock::now() - began >= length);
    assert_eq!(held.beat(interval, length, || true), Ok(0));
    assert_eq!((held.open(), origin.counters().open()), (30, 30));
    drop(origin);
    assert!(held.beat(interval, length, || false).is_err());
}

/// A constant rate is made of waits much shorter than the milliseconds that `epoll_wait(2)` counts in.
#[test]
fn waits_can_be_shorter_than_a_millisecond() {
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let limit = Timespec::try_from(Duration::from_micros(100)).unwrap();
    let wait = || {
        let began = clock::now();
        epoll::wait(&queue, &mut [MaybeUninit::uninit()], Some(&limit)).unwrap();
        clock::now() - began
    };
    let shortest = (0..50).map(|_| wait()).min().unwrap();
    assert!(shortest < Duration::from_millis(1), "{shortest:?}");
}

/// Answers every request with 503 and a reason; gives the ids that came with them.
fn refusing() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let ids = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ids);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (mut head, mut part) = (Vec::new(), [0; 4096]);
            while fields::head_len(&head).is_none() {
                match stream.read(&mut part) {
                    Ok(len) if len > 0 => head.extend_from_slice(&part[..len]),
                    _ => break,
                }
            }
            let text = String::from_utf8_lossy(&head).into_owned();
            let id = text.lines().find_map(|line| line.strip_prefix("X-Request-Id: "));
            seen.lock().unwrap().extend(id.map(str::to_owned));
            let _gone =
                stream.write_all(b"HTTP/1.1 503 X\r\nWeir-Reason: no-server\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (addr, ids)
}

#[test]
fn each_failure_is_reported_at_once_with_the_id_that_the_target_got() {
    let (addr, ids) = refusing();
    for (name, body_len) in [("get", 0), ("post", 100)] {
        let (failed, received) = channel();
        let plan = LoadPlan { name: Some(name.to_owned()), ..plan(addr, body_len, Connections::Kept) };
        driver::run(&plan, &LoadProgress { failed: Some(failed), ..LoadProgress::default() }).unwrap();
        let received: Vec<FailedExchange> = received.iter().collect();
        assert!(received.len() >= 20, "{received:?}");
        let ids = ids.lock().unwrap();
        let distinct: BTreeSet<&String> = received.iter().map(|failed| &failed.id).collect();
        assert_eq!(distinct.len(), received.len(), "each has its own");
        for FailedExchange { fault, id } in &received {
            assert!(id.starts_with(&format!("{name}-")) && ids.contains(id), "{id}");
            assert!(matches!(fault, LoadFault::Status(503, head) if head.contains("Weir-Reason: no-server")));
        }
    }
}
