//! At the limit of connections, idle clients make room for new ones and, where others have waited, clients with half a request head do; on the admin listener, `/ready` always has a place.

use crate::harness::origin::ok;
use crate::harness::{Client, End, Gate, Origin, Weir, config_with, eventually};

/// A client whose request has been answered, on a connection that stays open.
fn served(weir: &Weir) -> Client {
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/").status, 200);
    client
}

#[test]
fn more_idle_clients_than_there_is_room_for_keep_no_new_client_out() {
    for limit in ["process.connections_max = 500", "listener.web.connections_max = 500"] {
        let origin = Origin::serving("fine");
        let weir = Weir::start(&config_with(&[origin.entry()], limit));
        let clients: Vec<Client> = (0..600).map(|_| served(&weir)).collect();
        let metrics = weir.metrics();
        assert_eq!(metrics.sum("weir_listener_requests_total", &[]), 600.0, "{limit}");
        let closed = metrics.sum("weir_worker_idle_connections_closed_total", &[]);
        // Workers that are asked at the same moment may make room for one more each.
        assert!((100.0..=300.0).contains(&closed), "{limit}: {closed}");
        weir.line(&["WARN", "idle client connections were closed to make room"]);
        drop(clients);
    }
}

#[test]
fn the_longest_idle_connection_is_evicted_first() {
    let origin = Origin::serving("fine");
    let weir =
        Weir::start(&config_with(&[origin.entry()], "process.workers = 1\nprocess.connections_max = 5"));
    let mut clients: Vec<Client> = (0..5).map(|_| served(&weir)).collect();
    // The first sends another request, so the second has been idle longest.
    clients[0].send_get("/again");
    assert_eq!(clients[0].response().status, 200);
    let mut sixth = served(&weir);
    assert_eq!(clients[1].take_to_end(), (Vec::new(), End::Closed));
    clients.remove(1);
    for client in clients.iter_mut().chain([&mut sixth]) {
        assert_eq!(client.fetch("/still").status, 200);
    }
}

#[test]
fn slow_heads_make_room_only_where_new_connections_have_waited_and_requests_never_do() {
    let gate = Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |conn| {
        let request = conn.request()?;
        if request.target() == "/held" {
            held.wait("the new connection has been served");
        }
        conn.send(ok("fine"))
    });
    let weir =
        Weir::start(&config_with(&[origin.entry()], "process.workers = 1\nprocess.connections_max = 3"));
    let mut held_up = Client::connect(weir.web());
    held_up.send_get("/held");
    let mut body = Client::connect(weir.web());
    body.send("POST /body HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nha");
    eventually("a request is at the server", || origin.targets().contains(&"/held".to_owned()));
    let mut slow = Client::connect(weir.web());
    slow.send("GET /slow HTTP/1.1\r\nHost: a.test\r\n");
    let mut fourth = Client::connect(weir.web());
    fourth.send_get("/fourth");
    assert_eq!(fourth.response().status, 200, "the slow head has made room for it");
    let ended = slow.response();
    assert_eq!((ended.status, ended.reason()), (408, Some("slow-head-at-limit")));
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_worker_slow_heads_ended_total", &[]), 1.0);
    assert_eq!(metrics.sum("weir_listener_failures_total", &["reason=\"slow-head-at-limit\""]), 1.0);
    weir.line(&["WARN", "ended=1", "clients without a whole request head were ended"]);
    body.send("lf");
    assert_eq!(body.response().status, 200, "its request was whole");
    gate.open();
    assert_eq!(held_up.response().status, 200, "and so was this one");
}

#[test]
fn slow_heads_that_come_again_and_again_keep_no_new_client_out() {
    for limit in ["process.connections_max = 24", "listener.web.connections_max = 24"] {
        let origin = Origin::serving("fine");
        let settings = format!("process.workers = 2\n{limit}\n");
        let weir = Weir::start(&config_with(&[origin.entry()], &settings));
        let slow = |number: usize| {
            let mut client = Client::connect(weir.web());
            // The half of the heads comes behind a whole request.
            let earlier =
                if number.is_multiple_of(2) { "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n" } else { "" };
            client.send(format!("{earlier}GET /slow HTTP/1.1\r\nHost: a.test\r\n"));
            client
        };
        let mut crowd: Vec<Client> = (0..40).map(slow).collect();
        for _ in 0..3 {
            assert_eq!(Client::get(weir.web(), "/new").status, 200, "{limit}");
            crowd.extend((0..20).map(slow));
        }
        let metrics = weir.metrics();
        let ended = metrics.sum("weir_worker_slow_heads_ended_total", &[]);
        assert!(ended >= 5.0, "{limit}: {ended}");
        assert!(!origin.targets().contains(&"/slow".to_owned()));
    }
}

#[test]
fn other_connections_cannot_fill_the_place_of_ready() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&config_with(&[origin.entry()], ""));
    let admin = weir.address("admin");
    // All seats, of four hosts, and the places behind them.
    let silent: Vec<Client> =
        (0..100).map(|number| Client::connect_from(&format!("127.0.0.{}", 2 + number % 5), admin)).collect();
    for _ in 0..30 {
        let mut prober = Client::connect_from("127.0.0.9", admin);
        prober.send("GET /ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        assert_eq!(prober.response().status, 200);
    }
    let mut other = Client::connect_from("127.0.0.9", admin);
    other.send("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert_eq!(other.response().status, 503);
    drop(silent);
}
