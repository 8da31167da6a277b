//! Reload after reload under traffic of every sort: not one request fails, not one tunnel is lost.

use crate::harness::scripts::named;
use crate::harness::websocket::{assert_byte_comes_back, open_tunnel};
use crate::harness::{BackgroundTraffic, Client, Gate, Origin, Weir, eventually};

const RELOADS: u32 = 50;

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
fn fifty_reloads_fail_no_request() {
    let gate = Gate::new();
    let origins = [named("a", &gate), named("b", &gate), named("c", &gate)];
    let origins = origins.each_ref();
    let weir = Weir::start(&text(1, origins));
    let mut tunnels: Vec<Client> = (0..20).map(|_| open_tunnel(weir.web())).collect();
    let traffic = BackgroundTraffic::start(weir.web());
    for number in 2..2 + RELOADS {
        weir.reload(&text(number, origins));
        traffic.goes_on();
    }
    traffic.end();
    tunnels.iter_mut().for_each(assert_byte_comes_back);
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_config_generation", &[]), f64::from(1 + RELOADS));
    assert_eq!(metrics.all("weir_listener_failures_total", &[]).iter().sum::<f64>(), 0.0, "{metrics:?}");
    eventually("old configs are freed", || weir.metrics().sum("weir_config_snapshots", &[]) == 1.0);
}
