//! No request is overtaken: requests that wait leave in the order in which they came, within their priority and over all workers.
//!
//! Requests come in steps: one of each priority on each worker, sent when Weir has counted all of the step before as waiting. So of
//! two in different steps it is certain which came first, and the only slot lets the server see which is served first. Slots become
//! free while others come, on both workers.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};

use crate::harness::{Client, Gate, Metrics, Origin, Weir, eventually, origin::ok, watchdog::WATCHDOG};

/// Where requests of each priority go.
const CLASSES: [&str; 3] = ["high", "normal", "low"];

/// Steps of a round of the queue, which begins and ends empty.
const STEPS: usize = 60;

/// Steps before the first waiting request is served.
const FILL: usize = STEPS / 3;

/// Requests of a step.
const EACH: usize = 2 * CLASSES.len();

/// Clients of each worker, with one request in a round.
const CLIENTS: usize = STEPS * CLASSES.len();

/// A server with one slot that answers one request for each permit.
struct Server {
    origin: Origin,
    permits: Sender<()>,
    /// The targets of requests, as they come.
    came: Receiver<String>,
}

impl Server {
    fn start() -> Server {
        let (permits, permitted) = mpsc::channel();
        let (tell, came) = mpsc::channel();
        let shared = Mutex::new((permitted, tell));
        let origin = Origin::start(move |conn| {
            loop {
                let target = conn.head()?.word(1).to_owned();
                let shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                shared.1.send(target).ok()?;
                shared.0.recv().ok()?;
                conn.send(ok("fine"))?;
            }
        });
        Server { origin, permits, came }
    }

    fn permit(&self, requests: usize) {
        (0..requests).for_each(|_| self.permits.send(()).expect("the server runs"));
    }

    /// The target of the next request.
    fn next(&self) -> String {
        self.came.recv_timeout(WATCHDOG).expect("a request comes")
    }
}

fn open_connections(metrics: &Metrics, worker: usize) -> f64 {
    metrics.sum("weir_worker_connections_open", &[&format!("worker=\"{worker}\"")])
}

/// Clients of worker 0 and of worker 1, at least [`CLIENTS`] of each.
fn connect(weir: &Weir) -> [Vec<Client>; 2] {
    let mut by_worker = [Vec::new(), Vec::new()];
    let mut before = [0.0; 2];
    while by_worker.iter().any(|clients| clients.len() < CLIENTS) {
        let client = Client::connect(weir.web());
        let mut now = before;
        eventually("the new connection is counted", || {
            let metrics = weir.metrics();
            now = [0, 1].map(|worker| open_connections(&metrics, worker));
            now.iter().sum::<f64>() > before.iter().sum()
        });
        by_worker[usize::from(now[1] > before[1])].push(client);
        before = now;
    }
    by_worker
}

/// Lets all clients wait once, from step `first` on. Gives the targets in the order in which the server got them.
fn round(server: &Server, weir: &Weir, clients: &mut [Vec<Client>; 2], first: usize) -> Vec<String> {
    let waited = || Metrics::scrape_sum(weir.address("admin"), "weir_upstream_queued_total") as usize;
    let mut ahead = Client::connect(weir.web());
    ahead.send_get("/ahead");
    assert_eq!(server.next(), "/ahead");
    // It may have waited itself: the last response of the round before is with its client before its slot is free.
    let waited_before = waited();
    for step in 0..STEPS {
        if step >= FILL {
            // As many leave the queue while these come.
            server.permit(EACH);
        }
        let number = first + step;
        for (class, name) in CLASSES.iter().enumerate() {
            for clients in clients.iter_mut() {
                clients[step * CLASSES.len() + class].send_get(&format!("/{name}/{number}"));
            }
        }
        let come = waited_before + (step + 1) * EACH;
        eventually("all of them have come to wait", || {
            let now = waited();
            assert!(now <= come, "{now} have waited, {come} have come");
            now == come
        });
    }
    server.permit(1 + FILL * EACH);
    assert_eq!(ahead.response().status, 200);
    for client in clients.iter_mut().flat_map(|clients| &mut clients[..CLIENTS]) {
        assert_eq!(client.response().status, 200);
    }
    (0..STEPS * EACH).map(|_| server.next()).collect()
}

/// How often the order of a class goes backwards.
fn inversions(targets: &[String]) -> BTreeMap<&str, usize> {
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    let mut inversions = BTreeMap::from(CLASSES.map(|class| (class, 0)));
    for target in targets {
        let (class, number) = target.trim_start_matches('/').split_once('/').expect("it was sent like that");
        let number = number.parse().expect("it was sent like that");
        let before = last.insert(class, number);
        *inversions.entry(class).or_default() += usize::from(before.is_some_and(|before| before > number));
    }
    inversions
}

/// A kept connection that turns out to be dead costs the request neither its slot nor its place.
#[test]
fn a_dead_connection_loses_no_place_in_the_queue() {
    let first = Gate::new();
    let gate = first.clone();
    let origin = Origin::start(move |conn| {
        if conn.request()?.target() == "/0" {
            gate.wait("the others wait");
        }
        conn.send(ok("fine"))?;
        // Closed without a response, when the next request is there.
        conn.head().map(drop)
    });
    let settings = "timeouts.queue = \"1m\"\nqueue.length_max = 3";
    let weir = Weir::with_one_slot(&origin, "process.workers = 2", settings);
    let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(weir.web())).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send_get(&format!("/{number}"));
        let waited = || Metrics::scrape_sum(weir.address("admin"), "weir_upstream_queued_total") as usize;
        eventually("it has come to wait", || waited() == number);
        origin.wait_for_requests(1);
    }
    first.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    assert_eq!(origin.targets(), ["/0", "/1", "/2", "/3"]);
    assert_eq!(origin.connections(), 4);
}

/// Sends at least so many.
fn no_request_is_overtaken(requests: usize) {
    let server = Server::start();
    let weir = Weir::with_one_slot(&server.origin, "process.workers = 2", "timeouts.queue = \"1m\"");
    let mut clients = connect(&weir);
    let mut came = Vec::new();
    while came.len() < requests {
        let first = came.len() / EACH;
        came.extend(round(&server, &weir, &mut clients, first));
    }
    assert_eq!(inversions(&came), BTreeMap::from(CLASSES.map(|class| (class, 0))));
}

#[test]
fn thousands_over_two_workers() {
    no_request_is_overtaken(5_000);
}

#[test]
#[ignore = "takes a minute or two: cargo test -p weir --test e2e queue_order -- --ignored"]
fn a_hundred_thousand_over_two_workers() {
    no_request_is_overtaken(100_000);
}
