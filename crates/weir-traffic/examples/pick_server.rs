//! Picks a server for one request over and over, so that the cost of a pick can be counted.
//!
//! `valgrind --tool=callgrind pick_server consistent-hash 1000 100`, then the same with 300 picks: the difference of the two
//! counts, divided by 200, is what one pick among 1000 servers costs in instructions. `pick_server time` measures all
//! policies at all sizes by the clock: nanoseconds, of which only ratios mean something.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_traffic::balance::{
    Balancer, BalancerChoice, BalancerMember, Excluded, HashKey, LoadFactor, Pick, Policy, WhenFull,
};
use weir_traffic::{ServerId, ServerState};

const POLICIES: [&str; 4] = ["round-robin", "least-requests", "consistent-hash", "consistent-hash-hot"];

const SERVERS: [usize; 4] = [10, 100, 1_000, 10_000];

/// How long each case is measured by the clock.
const LENGTH: Duration = Duration::from_millis(300);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().skip(1).filter_map(|number| number.parse().ok()).collect();
    match (arguments.first().map(String::as_str), numbers.as_slice()) {
        (Some("time"), []) => time(),
        (Some(policy), &[servers, times]) if POLICIES.contains(&policy) => {
            picks(&balancer(policy, servers as usize), times);
        }
        _ => eprintln!("usage: pick_server {} SERVERS TIMES\n       pick_server time", POLICIES.join("|")),
    }
}

/// Servers of weights 1 to 3 with as many requests; of a hot group, three of four have all of them, so that three of four keys
/// find their own server above its share.
fn balancer(name: &str, servers: usize) -> Balancer {
    let policy = match name {
        "round-robin" => Policy::RoundRobin,
        "least-requests" => Policy::LeastRequests,
        _ => Policy::ConsistentHash { key: HashKey::Path, load_factor: LoadFactor::default() },
    };
    let is_hot = name.ends_with("-hot");
    let member = |number: usize| {
        let state = ServerState::new(if is_hot { 1 } else { 1 + number as u32 % 3 }, 0);
        let requests = if is_hot { 3 * usize::from(!number.is_multiple_of(4)) } else { 1 + number % 3 };
        assert!((0..requests).all(|_| state.try_acquire()));
        BalancerMember::new(&format!("10.0.{}.{}:80", number / 256, number % 256), Arc::new(state))
    };
    Balancer::new(&policy, (0..servers).map(member).collect(), 7)
}

/// Picks and releases `times` times, each time for another key.
#[inline(never)]
fn picks(balancer: &Balancer, times: u64) {
    for number in 0..times {
        let hash = Some(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let pick = Pick { hash, excluded: Excluded::NONE, random: number, now_ms: 0 };
        match balancer.choose_with(WhenFull::Spill, black_box(&pick)) {
            BalancerChoice::Server(server) => balancer.release(black_box::<ServerId>(server)),
            other => panic!("{other:?} although all servers have room"),
        }
    }
}

fn time() {
    for policy in POLICIES {
        for servers in SERVERS {
            let balancer = balancer(policy, servers);
            let times = (1_000_000 / servers as u64).max(100);
            // The fastest of many: what else runs on the machine only makes it slower.
            let began = now();
            let mut fastest = Duration::MAX;
            while began.elapsed() < LENGTH {
                let began = now();
                picks(&balancer, times);
                fastest = fastest.min(began.elapsed());
            }
            println!("{policy} {servers} {:.0} ns", fastest.as_nanos() as f64 / times as f64);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "measuring is what it is for")]
fn now() -> Instant {
    Instant::now()
}
