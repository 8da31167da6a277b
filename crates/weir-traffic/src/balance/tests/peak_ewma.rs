//! Peak EWMA: fast servers get more, slow ones are avoided and tried again, new ones are not flooded.

use super::*;

/// Requests one after the other, each answered after the latency of its server: how often each server is chosen.
fn serve(upstream: &TestBalancer, latency_us: &[u32], requests: usize, now_ms: &mut u64) -> Vec<usize> {
    let mut counts = vec![0; latency_us.len()];
    for _ in 0..requests {
        *now_ms += 1;
        let server = choose(upstream, *now_ms);
        counts[server] += 1;
        upstream.state(server).observe_latency(latency_us[server], *now_ms);
        upstream.state(server).release();
    }
    counts
}

fn choose(upstream: &TestBalancer, now_ms: u64) -> usize {
    match upstream.balancer.choose(&Pick { hash: None, excluded: Excluded::NONE, random: 0, now_ms }) {
        BalancerChoice::Server(server) => server.index(),
        choice => panic!("{choice:?}"),
    }
}

#[test]
fn equal_servers_share_evenly_and_by_weight() {
    let mut now_ms = 0;
    let upstream = TestBalancer::new(&Policy::PeakEwma, &[1, 1, 1]);
    let counts = serve(&upstream, &[2_000; 3], 3_000, &mut now_ms);
    assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
}

#[test]
fn a_server_gets_requests_until_it_is_as_slow_as_the_others() {
    let mut now_ms = 0;
    let upstream = TestBalancer::new(&Policy::PeakEwma, &[1, 1]);
    serve(&upstream, &[1_000, 3_000], 10, &mut now_ms);
    // With three and one in flight, both would answer the next one in the same time.
    let taken: Vec<usize> = (0..8).map(|_| choose(&upstream, now_ms)).collect();
    let fast = taken.iter().filter(|&&server| server == 0).count();
    assert_eq!(fast, 6, "{taken:?}");
}

#[test]
fn a_weight_counts_as_that_many_servers() {
    let mut now_ms = 0;
    let upstream = TestBalancer::new(&Policy::PeakEwma, &[3, 1]);
    serve(&upstream, &[1_000, 1_000], 10, &mut now_ms);
    let taken: Vec<usize> = (0..8).map(|_| choose(&upstream, now_ms)).collect();
    assert_eq!(taken.iter().filter(|&&server| server == 0).count(), 6, "{taken:?}");
}

/// Slow once, for a reason that has gone: it is avoided at once, tried again in a while, and then has its share.
#[test]
fn a_server_that_was_slow_once_is_not_starved() {
    let mut now_ms = 0;
    let upstream = TestBalancer::new(&Policy::PeakEwma, &[1, 1, 1]);
    serve(&upstream, &[2_000; 3], 300, &mut now_ms);
    upstream.state(0).observe_latency(2_000_000, now_ms);
    let avoided = serve(&upstream, &[2_000; 3], 10_000, &mut now_ms);
    assert_eq!(avoided[0], 0, "ten seconds later it still is a hundred times slower");
    serve(&upstream, &[2_000; 3], 60_000, &mut now_ms);
    let after = serve(&upstream, &[2_000; 3], 3_000, &mut now_ms);
    assert!((800..1_200).contains(&after[0]), "{after:?}");
}

#[test]
fn a_server_that_has_not_answered_yet_gets_one_request_at_a_time() {
    let mut now_ms = 0;
    let upstream = TestBalancer::new(&Policy::PeakEwma, &[1, 1]);
    upstream.state(1).set_mode(Mode::Maintenance);
    serve(&upstream, &[2_000; 2], 100, &mut now_ms);
    upstream.state(1).set_mode(Mode::Serving);
    let taken: Vec<usize> = (0..20).map(|_| choose(&upstream, now_ms)).collect();
    assert_eq!(taken.iter().filter(|&&server| server == 1).count(), 1, "{taken:?}");
}
