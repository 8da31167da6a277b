//! From SRV records to the shares of servers: 10 000 picks of each balancer, with the servers that the records name.

use std::collections::VecDeque;
use std::sync::Arc;

use hickory_resolver::proto::rr::{RData, RecordType};
use weir_config::ServerSource;
use weir_discovery::ServerSet;
use weir_traffic::balance::{Balancer, BalancerChoice, BalancerMember, Excluded, Pick, Policy};
use weir_traffic::{Health, ServerState, ServerTier};

use super::dns::{DnsServer, a, srv};

const NAME: &str = "_http._tcp.app.example.";

const PICKS: usize = 10_000;

/// Requests that run at the same time, so that policies that look at load have some.
const IN_FLIGHT: usize = 200;

/// Of all picks.
const DEVIATION_MAX: f64 = 0.03;

fn balancer(policy: &Policy, set: &ServerSet, seed: u64) -> Balancer {
    let members = set.servers.iter().map(|server| {
        let state = Arc::new(ServerState::new(u32::from(server.weight), 0));
        let tier = if server.backup { ServerTier::Backup } else { ServerTier::Primary };
        BalancerMember::new(&server.shown_name(), state).in_tier(tier)
    });
    Balancer::new(policy, members.collect(), seed)
}

/// The share of each server in so many picks.
fn shares(balancer: &Balancer, servers: usize, seed: u64) -> Vec<f64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut counts, mut running) = (vec![0_u32; servers], VecDeque::new());
    for at in 0..PICKS {
        let pick =
            Pick { hash: None, excluded: Excluded::NONE, random: random.u64(..), now_ms: at as u64 / 10 };
        let BalancerChoice::Server(server) = balancer.choose(&pick) else { panic!("there is a server") };
        counts[server.index()] += 1;
        running.push_back(server);
        if running.len() > IN_FLIGHT {
            balancer.release(running.pop_front().unwrap());
        }
    }
    running.into_iter().for_each(|server| balancer.release(server));
    counts.into_iter().map(|count| f64::from(count) / PICKS as f64).collect()
}

fn assert_shares(what: &str, found: &[f64], wanted: &[f64]) {
    let is_close = |(found, wanted): (&f64, &f64)| {
        // None is none, not a few.
        if *wanted == 0.0 { *found == 0.0 } else { (found - wanted).abs() <= DEVIATION_MAX }
    };
    assert!(found.iter().zip(wanted).all(is_close), "{what}: {found:?}, not {wanted:?}");
}

/// The servers that these records name: priority, weight, and the last part of the address.
async fn servers_of(records: &[(u16, u16, u8)]) -> ServerSet {
    let dns = DnsServer::start().await;
    let data = |(priority, weight, last): &(u16, u16, u8)| {
        srv(*priority, *weight, 8000, &format!("s{last}.example."))
    };
    for (_, _, last) in records {
        dns.set(&format!("s{last}.example."), RecordType::A, vec![a([10, 0, 0, *last])]);
    }
    let data: Vec<RData> = records.iter().map(data).collect();
    dns.set(NAME, RecordType::SRV, data);
    let mut followed = dns.followed(ServerSource::Srv("_http._tcp.app.example".into()));
    let set = followed.until("with all records", |set| set.servers.len() == records.len()).await;
    followed.stop().await;
    set
}

#[tokio::test]
async fn shares_follow_the_weights_and_backups_wait() {
    type Records<'a> = &'a [(u16, u16, u8)];
    // The servers in the order of their addresses; the shares of the lowest priority, then of the next when all of those are down.
    let cases: [(Records<'_>, &[f64], &[f64]); 4] = [
        (
            &[(10, 60, 1), (10, 30, 2), (10, 10, 3), (20, 3, 4), (20, 1, 5)],
            &[0.6, 0.3, 0.1, 0.0, 0.0],
            &[0.0, 0.0, 0.0, 0.75, 0.25],
        ),
        // Beyond 256, weights are scaled.
        (
            &[(1, 60_000, 1), (1, 30_000, 2), (1, 10_000, 3), (2, 1, 4)],
            &[0.6, 0.3, 0.1, 0.0],
            &[0.0, 0.0, 0.0, 1.0],
        ),
        // All of weight 0 are equal.
        (&[(0, 0, 1), (0, 0, 2), (5, 0, 3), (5, 0, 4)], &[0.5, 0.5, 0.0, 0.0], &[0.0, 0.0, 0.5, 0.5]),
        // Weight 0 beside others gets the smallest share there is.
        (&[(0, 100, 1), (0, 100, 2), (0, 0, 3), (9, 1, 4)], &[0.5, 0.5, 0.005, 0.0], &[0.0, 0.0, 0.0, 1.0]),
    ];
    for (records, first, second) in cases {
        let set = servers_of(records).await;
        for policy in
            [Policy::RoundRobin, Policy::LeastRequests, Policy::PowerOfTwo, Policy::Random, Policy::PeakEwma]
        {
            let what = format!("{} over {records:?}", policy.name());
            let balancer = balancer(&policy, &set, 7);
            let states = balancer.states();
            assert_shares(&what, &shares(&balancer, states.len(), 11), first);
            // One primary is enough: backups still wait.
            let primaries: Vec<usize> = (0..states.len()).filter(|at| !set.servers[*at].backup).collect();
            primaries.iter().skip(1).for_each(|at| states[*at].set_health(Health::Down));
            let alone = shares(&balancer, states.len(), 12);
            assert!((alone[primaries[0]] - 1.0).abs() < f64::EPSILON, "{what}: {alone:?}");
            states[primaries[0]].set_health(Health::Down);
            assert_shares(&what, &shares(&balancer, states.len(), 13), second);
            // They come back.
            primaries.iter().for_each(|at| states[*at].set_health(Health::Up));
            assert_shares(&what, &shares(&balancer, states.len(), 14), first);
        }
    }
}
