//! At the limit of connections, idle clients make room for new ones; on the admin listener, `/ready` always has a place.

use crate::harness::watchdog::pause;
use crate::harness::{Client, End, Origin, Weir, config_with, eventually};

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
fn what_is_under_way_makes_no_room() {
    let origin = Origin::serving("fine");
    let weir =
        Weir::start(&config_with(&[origin.entry()], "process.workers = 1\nprocess.connections_max = 2"));
    let mut halves = [Client::connect(weir.web()), Client::connect(weir.web())];
    for half in &mut halves {
        half.send("GET /half HTTP/1.1\r\nHost: a.test\r\n");
    }
    let mut third = Client::connect(weir.web());
    third.send_get("/third");
    for _ in 0..50 {
        pause();
    }
    assert!(!origin.targets().contains(&"/third".to_owned()), "no client is displaced for it");
    for half in &mut halves {
        half.send("\r\n");
        assert_eq!(half.response().status, 200);
    }
    eventually("one of them is idle now and goes", || origin.targets().contains(&"/third".to_owned()));
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
