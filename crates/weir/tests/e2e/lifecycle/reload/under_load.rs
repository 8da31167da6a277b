//! Reload after reload under traffic of every sort: not one request fails, not one tunnel is lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::{Tally, assert_alive, get, named, tunnel};
use crate::harness::{Client, Gate, Origin, Weir, eventually};

const RELOADS: u32 = 50;

/// Sends requests until it is told to stop; `keep` says whether on one connection.
fn load(web: SocketAddr, keep: bool, stop: &Arc<AtomicBool>, done: &Tally) -> JoinHandle<()> {
    let (stop, done) = (Arc::clone(stop), done.clone());
    thread::spawn(move || {
        let mut client = Client::connect(web);
        while !stop.load(Ordering::SeqCst) {
            if !keep {
                client = Client::connect(web);
            }
            let response = get(&mut client, "/work");
            assert_eq!(response.status, 200, "{response:?}");
            assert!(!keep || !response.closes(), "the connection goes on: {response:?}");
            done.add();
        }
    })
}

/// A config that changes servers, weights, routes and limits from one number to the next; the server `a` is always there.
fn text(number: u32, [a, b, c]: [&Origin; 3]) -> String {
    let server = |name: &str, origin: &Origin, more: u32| {
        format!(
            "{{ name = \"{name}\", address = \"{}\", weight = {}, max_requests = {} }}",
            origin.address(),
            1 + more % 3,
            100 + more
        )
    };
    let mut servers = vec![server("a", a, number % 5)];
    if number.is_multiple_of(2) {
        servers.push(server("b", b, number % 7));
    }
    if number.is_multiple_of(3) {
        servers.insert(0, server("c", c, 1));
    }
    let balance = ["least-requests", "round-robin", "random", "peak-ewma"][number as usize % 4];
    let route = match number % 2 {
        0 => String::new(),
        _ => "[[listener.web.route]]\npath = \"/work\"\nupstream = \"app\"\nrequest_headers.set = { x-odd = \"1\" }\n".to_owned(),
    };
    format!(
        "process.workers = 2\nadmin.address = \"127.0.0.1:0\"\n\
         listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nlistener.web.limits.headers = {}\n\
         upstream.app = {{ servers = [{}], balance = \"{balance}\" }}\n{route}",
        50 + number,
        servers.join(", ")
    )
}

#[test]
fn nobody_notices_fifty_reloads() {
    let gate = Gate::new();
    let origins = [named("a", &gate), named("b", &gate), named("c", &gate)];
    let origins = origins.each_ref();
    let weir = Weir::start(&text(1, origins));
    let mut tunnels: Vec<Client> = (0..20).map(|_| tunnel(&weir)).collect();
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Tally::default());
    let clients: Vec<_> = (0..4).map(|number| load(weir.web(), number % 2 == 0, &stop, &done)).collect();
    for number in 2..2 + RELOADS {
        let before = done.count();
        weir.reload(&text(number, origins));
        eventually("requests go on", || done.count() > before || clients.iter().any(JoinHandle::is_finished));
    }
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        client.join().expect("no request has failed");
    }
    tunnels.iter_mut().for_each(assert_alive);
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_config_generation", &[]), f64::from(1 + RELOADS));
    assert_eq!(metrics.all("weir_listener_failures_total", &[]).iter().sum::<f64>(), 0.0, "{metrics:?}");
    eventually("old configs are freed", || weir.metrics().sum("weir_config_snapshots", &[]) == 1.0);
}
