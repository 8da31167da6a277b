//! What a change of the servers of one upstream costs, beside many other upstreams: time until every worker uses it, and CPU time of the
//! process.
//!
//! `cargo run --release -p weir-control --example server_changes [CHANGES]`

use std::time::Duration;

use weir_config::{Config, Server, ServerAddress};
use weir_control::{Proxy, ServerChanges};
use weir_proxy::net::clock;

/// Numbers of upstreams.
const UPSTREAMS: [usize; 4] = [10, 100, 1_000, 10_000];

fn main() {
    let changes = std::env::args().nth(1).map_or(500, |count| count.parse().expect("a number of changes"));
    println!("upstreams  median_us  p99_us  most_us  cpu_us_per_change");
    for upstreams in UPSTREAMS {
        measure(upstreams, changes);
    }
}

fn measure(upstreams: usize, changes: usize) {
    let mut text = String::from(
        "process.workers = 2\nlistener.web = { address = \"127.0.0.1:0\", upstream = \"u0\" }\n",
    );
    for number in 0..upstreams {
        let [high, low] = (number as u16).to_be_bytes();
        text +=
            &format!("upstream.u{number}.servers = [\"10.1.{high}.{low}:80\", \"10.2.{high}.{low}:80\"]\n");
    }
    let config = Config::parse(&text, "weir.toml").expect("a good config");
    let mut proxy = Proxy::start(&config).expect("the proxy starts");
    let mut times = Vec::new();
    let cpu_before = cpu_time();
    for turn in 0..changes {
        let servers = (0..2 + turn % 3).map(|server| {
            let address = format!("10.3.{server}.{}:80", turn % 200).parse().expect("an address");
            Server::new(ServerAddress::Ip(address))
        });
        let upstream = format!("u{}", turn * 7 % upstreams).into();
        let change = vec![ServerChanges { upstream, servers: servers.collect() }];
        let began = clock::now();
        let changed = proxy.set_servers(change).expect("nothing fails without TLS");
        times.push(clock::now() - began);
        assert_eq!(changed, 1);
    }
    let cpu = cpu_time() - cpu_before;
    times.sort();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_micros();
    println!(
        "{upstreams:9}  {:9}  {:6}  {:7}  {:17}",
        at(50),
        at(99),
        at(100),
        cpu.as_micros() / changes as u128
    );
}

/// The CPU time that the process has used.
fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten().filter_map(|task| {
        let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(threads.sum())
}
