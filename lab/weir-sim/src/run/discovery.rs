//! What each balancer knows of the servers: which of them, and since when.
//!
//! The source of servers changes its mind at once; each balancer hears of it after a delay of its own, and then has what the source
//! said at that change, as with a registry that sends whole lists. The change goes through the same functions as in the proxy: a
//! balancer and a table that succeed those before.

use weir_stats::random::{Purpose, RandomStream};

use super::{SimEvent, Simulation};
use crate::model::{Model, ServerAction, SourceModel};

/// The servers of one balancer.
#[derive(Debug)]
pub(super) struct KnownServers {
    /// Their numbers among all, by their places at the balancer; `None`: all, in order.
    numbers: Option<Box<[u32]>>,
    count: usize,
}

impl KnownServers {
    /// The servers that the source tells to a balancer.
    pub(super) fn new(balancer: u32, servers: usize, source: &SourceModel, seed: u64) -> Self {
        match source.subset.map(|subset| subset as usize) {
            Some(subset) if subset < servers => {
                let numbers = subset_of(balancer, subset, servers, seed);
                Self { count: numbers.len(), numbers: Some(numbers) }
            }
            _ => Self { numbers: None, count: servers },
        }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Of each, whether it is among those that have `left` of all.
    pub(super) fn leaving(&self, left: &[bool]) -> Box<[bool]> {
        (0..self.count).map(|place| left[self.number(place) as usize]).collect()
    }

    /// The number among all servers of the one at `place`.
    pub(super) fn number(&self, place: usize) -> u32 {
        self.numbers.as_ref().map_or(place as u32, |numbers| numbers[place])
    }
}

/// The deterministic subset of the SRE book (chapter 20): balancers are taken in rounds, each round shuffles all servers by its own
/// number and deals them out, so that every server has as many balancers as any other.
fn subset_of(balancer: u32, subset: usize, servers: usize, seed: u64) -> Box<[u32]> {
    let parts = servers / subset;
    let (round, part) = (balancer as usize / parts, balancer as usize % parts);
    let mut random = RandomStream::new(seed, Purpose::Subset, [round as u64, 0]);
    let mut numbers: Vec<u32> = (0..servers as u32).collect();
    for last in (1..servers).rev() {
        numbers.swap(last, random.below(last as u64 + 1) as usize);
    }
    numbers[part * subset..(part + 1) * subset].into()
}

/// The version of the source that all balancers know at the start: what it says at 0 s.
pub(super) fn first_version(model: &Model) -> u32 {
    model
        .source_changes()
        .take_while(|(_, event)| event.at == 0)
        .map(|(version, _)| version)
        .last()
        .unwrap_or(0)
}

/// For each server, whether the source does not name it at this version.
pub(super) fn left_at(model: &Model, version: u32) -> Vec<bool> {
    let mut left = vec![false; model.servers_count()];
    for (_, event) in model.source_changes().take_while(|(number, _)| *number <= version) {
        for server in event.first..=event.last {
            left[server as usize] = event.action == ServerAction::Leave;
        }
    }
    left
}

impl Simulation<'_> {
    /// The source says something else: each balancer hears of it in its time.
    pub(super) fn source_changes(&mut self, version: u32) {
        for balancer in 0..self.model.balancers {
            let coordinates = [u64::from(balancer), u64::from(version)];
            let mut random = RandomStream::new(self.seed, Purpose::Discovery, coordinates);
            let at = self.agenda.now() + self.upstream.source.delay.draw(&mut random);
            self.agenda.enter(at, SimEvent::Hear { balancer, version });
        }
    }

    /// A balancer hears what the source said at `version`, unless it knows newer.
    pub(super) fn hear(&mut self, balancer: u32, version: u32) {
        if self.heard[balancer as usize] >= version {
            return;
        }
        self.heard[balancer as usize] = version;
        if self.balancers[balancer as usize].is_none() {
            return;
        }
        if self.left.0 != version {
            self.left = (version, left_at(self.model, version));
        }
        let now_ms = self.now_ms();
        let left = std::mem::take(&mut self.left);
        let upstream = self.upstream;
        let joined = self.balancer(balancer).change_servers(upstream, &left.1, now_ms);
        self.left = left;
        for server in joined {
            self.start_slowly(balancer, server);
        }
        self.review(balancer);
        self.serve_queue(balancer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_even() {
        let mut counts = vec![0; 100];
        for balancer in 0..60 {
            let subset = subset_of(balancer, 10, 100, 1);
            assert_eq!(subset.len(), 10);
            subset.iter().for_each(|server| counts[*server as usize] += 1);
        }
        assert!(counts.iter().all(|count| *count == 6), "{counts:?}");
        assert_ne!(subset_of(0, 10, 100, 1), subset_of(10, 10, 100, 1), "each round deals anew");
    }
}
