//! The configurations of a target that is given one after the other, and when each was in effect.
//!
//! The last server is behind a path of its own, and no configuration has anything to do with it. Of the others each one leaves
//! out another and has the last one left out again. With each the shares of the servers change as well, the way to choose one, a time
//! limit, and whether a second path has servers of its own.

use std::net::SocketAddr;
use std::time::Duration;

use crate::origin::journal::JournalEntry;
use crate::target::{PathBranch, ReloadableParts};
use crate::topology::upstream::{BalancePolicy, UpstreamSetup};

/// The beginning of the path that no configuration touches.
pub(super) const STILL: &str = "/still";

/// The beginning of the path that has servers of its own in every other configuration.
pub(super) const NOW_AND_THEN: &str = "/now-and-then";

/// The configuration that a target gets for its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// The servers of every request without a path of its own.
    pub servers: Vec<SocketAddr>,
    /// How it uses them.
    pub upstream: UpstreamSetup,
    /// The parts that reloads change besides.
    pub extra: ReloadableParts,
}

impl Configuration {
    /// These servers, and nothing special.
    pub fn of(servers: &[SocketAddr], upstream: &UpstreamSetup) -> Self {
        Self { servers: servers.to_vec(), upstream: *upstream, extra: ReloadableParts::default() }
    }

    /// Configuration `number` of a series; 0 is that of the start, with all `servers`. `admin`: where the target is to say how it
    /// is.
    pub(super) fn numbered(
        number: u32,
        servers: &[SocketAddr],
        upstream: &UpstreamSetup,
        admin: Option<SocketAddr>,
    ) -> Self {
        let (last, changing) = servers.split_last().expect("an upstream has servers");
        let gone = gone(number, changing.len());
        let here = |(index, addr): (usize, &SocketAddr)| (Some(index) != gone).then_some(*addr);
        let servers: Vec<SocketAddr> = changing.iter().enumerate().filter_map(here).collect();
        let weights = (0..servers.len() as u32).map(|index| 2 + (number + index) % 3).collect();
        let branch = |path, name| PathBranch { path, name, servers: vec![*last] };
        let mut branches = vec![branch(STILL, "still")];
        let is_odd = number % 2 == 1;
        if is_odd {
            branches.push(branch(NOW_AND_THEN, "now-and-then"));
        }
        let balance = Some(balance(number));
        let least = upstream.response_timeout.unwrap_or(LIMIT);
        let response_timeout = Some(if is_odd { least + least / 3 } else { least });
        Self {
            servers,
            upstream: UpstreamSetup { balance, response_timeout, ..*upstream },
            extra: ReloadableParts { weights, branches, admin },
        }
    }
}

/// The time limit where the scenario has none: so long that nothing ends by it.
const LIMIT: Duration = Duration::from_secs(300);

/// How configuration `number` chooses a server.
fn balance(number: u32) -> BalancePolicy {
    if number % 2 == 1 { BalancePolicy::LeastRequests } else { BalancePolicy::RoundRobin }
}

/// Which of `servers` configuration `number` leaves out; none at the start.
fn gone(number: u32, servers: usize) -> Option<usize> {
    number.checked_sub(1).map(|earlier| earlier as usize % servers)
}

/// When configurations were in effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Effects {
    /// The longest time until one was in effect, ns; of those that were.
    pub(super) longest: u64,
    /// The numbers of configurations that were not in effect before the next one was given.
    pub(super) late: Vec<usize>,
}

/// A configuration is in effect when the last request has gone to the server that it leaves out, and the server that came back
/// with it has got one, if it is its turn: with `least-requests` a server that still has its tunnels has its share of the work
/// already. `given`: when each was; the last one had as long as `every` says. The first one brings none back. `journals`: those
/// of the servers that change.
pub(super) fn effects(given: &[u64], every: Duration, journals: &[Vec<JournalEntry>]) -> Effects {
    let requests: Vec<Vec<u64>> = journals.iter().map(|journal| of_clients(journal)).collect();
    let mut effects = Effects::default();
    for (index, at) in given.iter().enumerate() {
        let until = given.get(index + 1).copied().unwrap_or(at + every.as_nanos() as u64);
        let within =
            |server: usize| requests[server].iter().copied().filter(|got| (*at..until).contains(got));
        let number = index as u32 + 1;
        let back = gone(number - 1, journals.len()).filter(|_| balance(number) == BalancePolicy::RoundRobin);
        let first = back.map_or(Some(*at), |back| within(back).min());
        let last = gone(number, journals.len()).and_then(|gone| within(gone).max());
        let taken = first.map(|first| first.max(last.unwrap_or(0)) - at);
        // A server that gets requests until the end was never left out.
        match taken.filter(|taken| *taken < (until - at) / 10 * 9) {
            Some(taken) => effects.longest = effects.longest.max(taken),
            None => effects.late.push(index + 1),
        }
    }
    effects
}

/// When the requests of clients came; other requests carry no client number.
fn of_clients(journal: &[JournalEntry]) -> Vec<u64> {
    journal.iter().filter(|visit| visit.client().is_some()).map(|visit| visit.got).collect()
}

#[cfg(test)]
mod tests {
    use super::{Configuration, Effects, JournalEntry, STILL, effects};
    use crate::topology::upstream::UpstreamSetup;
    use std::net::SocketAddr;
    use std::time::Duration;

    #[test]
    fn with_each_configuration_a_server_goes_and_the_last_one_comes_back() {
        let servers: Vec<SocketAddr> = (1..=4).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let numbered = |number| Configuration::numbered(number, &servers, &UpstreamSetup::default(), None);
        let ports = |number| numbered(number).servers.iter().map(SocketAddr::port).collect::<Vec<_>>();
        assert_eq!([ports(1), ports(2), ports(3), ports(4)], [[2, 3], [1, 3], [1, 2], [2, 3]]);
        assert_eq!(ports(0), [1, 2, 3]);
        for number in 0..12 {
            let (one, next) = (numbered(number), numbered(number + 1));
            assert_eq!(one.extra.weights.len(), one.servers.len());
            assert_ne!(one.extra.weights, next.extra.weights, "{number}");
            assert_ne!(one.upstream, next.upstream, "{number}");
            assert_ne!(one.extra.branches, next.extra.branches, "{number}");
            // The part that must not change is the same in all of them.
            assert_eq!(one.extra.branches[0], next.extra.branches[0]);
            assert_eq!((one.extra.branches[0].path, one.extra.branches[0].servers[0]), (STILL, servers[3]));
        }
    }

    fn visits(times: &[u64]) -> Vec<JournalEntry> {
        let target = "/delay/0/client/1".to_owned();
        times
            .iter()
            .map(|got| JournalEntry { got: *got, began: None, done: None, target: target.clone() })
            .collect()
    }

    #[test]
    fn a_configuration_is_in_effect_when_one_server_gets_requests_again_and_the_other_no_more() {
        let (given, every) = ([1000, 2000, 3000], Duration::from_nanos(1000));
        // The first server is out from 1000 to 2000, the second from 2000 to 3000, the third from 3000 on.
        let right = [visits(&[900, 2050, 2060]), visits(&[1500, 3070]), visits(&[2500, 3020])];
        let seen = |journals: &[Vec<JournalEntry>]| {
            let Effects { longest, late } = effects(&given, every, journals);
            (longest, late)
        };
        assert_eq!(seen(&right), (50, vec![]));
        // The server with the fewest requests is next, so the second one waits; the third has its last request.
        let busy = [visits(&[900, 2050]), visits(&[1500, 3900]), visits(&[2500, 3080])];
        assert_eq!(seen(&busy), (80, vec![]));
        // The server that is to go gets another one after the other is back already.
        let late = [visits(&[900, 2050]), visits(&[1500, 2300, 3070]), visits(&[2500])];
        assert_eq!(seen(&late), (300, vec![]));
        let stuck = [visits(&[900, 3001]), visits(&[1500, 3070]), visits(&[2500, 3020])];
        assert_eq!(seen(&stuck), (20, vec![2]));
        let [first, second, _] = right;
        assert_eq!(seen(&[first, second, visits(&[2500, 3020, 3990])]).1, [3]);
        // A target that takes none of them over keeps all servers.
        let all: Vec<u64> = (90..400).map(|number| number * 10).collect();
        assert_eq!(seen(&[visits(&all), visits(&all), visits(&all)]).1, [1, 2, 3]);
    }
}
