//! Map-based hash: places in turn, by weight; keys of a server that is down go elsewhere, and no others.

use super::*;

fn policy() -> Policy {
    Policy::MapBasedHash { key: HashKey::Path }
}

/// Where each of `keys` keys goes when nothing else is in flight.
fn homes(upstream: &mut TestBalancer, keys: u64) -> Vec<usize> {
    let home = |key| match upstream.choose_for(Some(key)) {
        BalancerChoice::Server(server) => {
            upstream.balancer.release(server);
            server.index()
        }
        choice => panic!("{choice:?}"),
    };
    (0..keys).map(home).collect()
}

#[test]
fn the_place_of_a_key_is_the_remainder_of_its_hash() {
    let mut upstream = TestBalancer::new(&policy(), &[1, 3, 2]);
    assert_eq!(homes(&mut upstream, 8), [0, 1, 1, 1, 2, 2, 0, 1]);
    let mut fewer = TestBalancer::new(&policy(), &[1, 3]);
    assert_eq!(homes(&mut fewer, 8), [0, 1, 1, 1, 0, 1, 1, 1], "nearly all keys have moved");
}

#[test]
fn the_keys_of_a_server_that_is_down_alone_move() {
    let mut upstream = TestBalancer::new(&policy(), &[1; 5]);
    let before = homes(&mut upstream, 500);
    upstream.state(2).set_health(Health::Down);
    let during = homes(&mut upstream, 500);
    let mut gained = [0; 5];
    for (old, new) in before.iter().zip(&during) {
        assert!(old == new || *old == 2, "a key moved without need");
        gained[*new] += usize::from(old != new);
    }
    assert!(gained[2] == 0 && gained.iter().filter(|gained| **gained > 5).count() == 4, "{gained:?}");
    upstream.state(2).set_health(Health::Up);
    assert_eq!(homes(&mut upstream, 500), before);
}

#[test]
fn a_key_waits_for_its_server_or_does_not() {
    let upstream = TestBalancer::new(&policy(), &[1, 1]);
    upstream.state(1).set_max_requests(1);
    assert!(upstream.state(1).try_acquire());
    let pick = Pick { hash: Some(1), excluded: Excluded::NONE, random: 0, now_ms: 0 };
    let queued = upstream.balancer.choose_with(WhenFull::Queue, &pick);
    assert_eq!(queued, BalancerChoice::BoundFull(ServerId(1)));
    assert_eq!(upstream.balancer.choose_with(WhenFull::Spill, &pick), BalancerChoice::Server(ServerId(0)));
    let candidates: Vec<_> = upstream.balancer.candidates(&pick).iter().map(|one| one.server.0).collect();
    assert_eq!(candidates, [0, 1], "a full one comes last");
}

/// As `ip_hash` of nginx, whose formula it is.
#[test]
fn networks_next_to_each_other_go_to_servers_in_turn() {
    let key = HashKey::ClientNetwork(AddressPrefixes::new(24, 128).unwrap());
    let hashes = (1..=30_u8).map(|third| key.hash_of_address([127, 0, third, 2].into()).unwrap());
    for servers in [2, 3] {
        let mut counts = vec![0; servers];
        hashes.clone().for_each(|hash| counts[hash as usize % servers] += 1);
        assert_eq!(counts, vec![30 / servers; servers]);
    }
    let mapped = key.hash_of_address("::ffff:127.0.1.9".parse().unwrap());
    assert_eq!(mapped, hashes.clone().next(), "the last byte does not count");
}
