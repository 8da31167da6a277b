//! How long a scenario will take, roughly: `suite` prints it before it begins and while it runs.

use std::time::Duration;

use super::Scenario;

/// Starting servers and a target, and ending them.
const START: Duration = Duration::from_millis(900);

/// The same for each server process beyond the first.
const SERVER: Duration = Duration::from_millis(60);

/// Tunnels, or idle clients, that are opened one after the other in a second.
const OPENED: usize = 3000;

impl Scenario {
    /// The time that its rounds on this many targets need, without faults.
    pub fn expected(&self, targets: usize) -> Duration {
        let (count, targets) = (self.rounds.count, targets as u32);
        let processes = if self.upstream.one_process { 1 } else { self.upstream.servers };
        let each = START + SERVER * (processes - 1);
        let loads: Duration = self.lengths().into_iter().map(|length| length + each).sum();
        loads * targets * count + self.peak()
    }

    /// The length of each measurement of one target in one round.
    fn lengths(&self) -> Vec<Duration> {
        let rounds = &self.rounds;
        let usual = rounds.warm_up + rounds.window;
        if let Some(idle) = &self.idle {
            let opening = |clients: &usize| Duration::from_secs((clients / OPENED) as u64) + idle.settle;
            let mut lengths: Vec<Duration> = idle.clients.iter().map(opening).collect();
            if let (Some(last), Some(_)) = (lengths.last_mut(), idle.tunnels) {
                *last += rounds.window;
            }
            return lengths;
        }
        if let Some(unfinished) = &self.unfinished {
            let limit = self.listener.tls.and_then(|tls| tls.handshake_timeout).unwrap_or_default();
            let mut lengths = vec![2 * unfinished.settle; unfinished.clients.len()];
            lengths.extend([limit]);
            return lengths;
        }
        if let Some(reload) = &self.reload {
            return vec![rounds.warm_up + reload.length()];
        }
        if let Some(overload) = &self.overload {
            return vec![usual + overload.after];
        }
        let usual = usual + self.outage.as_ref().and_then(|outage| outage.quiet).unwrap_or_default();
        let is_twice = self.slow.is_some()
            || self.slow_clients.is_some()
            || self.slow_stream.is_some()
            || self.flood.is_some();
        let twice = if is_twice { 2 } else { 1 };
        vec![usual * twice; self.loads()]
    }

    /// How many loads a target gets in a round.
    fn loads(&self) -> usize {
        if let Some(steady) = &self.steady {
            steady.suites.len().max(1)
        } else if let Some(crowd) = &self.crowd {
            crowd.clients.len() * crowd.tools.len()
        } else if let Some(queue) = &self.queue {
            queue.clients.len()
        } else if let Some(outage) = &self.outage {
            outage.bodies.len()
        } else if let Some(ladder) = &self.ladder {
            ladder.clients.len()
        } else if let Some(flood) = &self.flood {
            flood.attacks.len()
        } else {
            1
        }
    }

    /// Finding the peak that a rate is a share of, or nothing.
    fn peak(&self) -> Duration {
        let is_share = self
            .steady
            .as_ref()
            .is_some_and(|steady| matches!(steady.rate, Some(super::RequestRate::OfPeak { .. })));
        if is_share { 3 * (START + self.rounds.warm_up + self.rounds.window) } else { Duration::ZERO }
    }
}
