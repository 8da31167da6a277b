//! The life of an ejection step by step, and what holds of it whatever happens.

mod lifecycle;
mod max_fails;
mod properties;

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::server::{ServerId, ServerState, ServerTier};

/// Weir's own rules, with round numbers.
fn outlier_rules() -> OutlierRules {
    OutlierRules {
        consecutive_failures: Some(3),
        error_rate_percent: Some(50),
        latency: None,
        requests_min: 10,
        base_time: Duration::from_secs(10),
        max_time: Duration::from_secs(35),
        servers_max_percent: 50,
    }
}

/// A book, its clock and its servers, driven as the proxy drives them.
struct TestUpstream {
    book: OutlierTable<&'static str>,
    states: Vec<Arc<ServerState>>,
    now_ms: u64,
}

impl TestUpstream {
    fn new(rules: EjectionRules, servers: usize) -> TestUpstream {
        TestUpstream::with(Some(rules), None, servers, 0)
    }

    /// The last `backups` of the servers are backups.
    fn with(
        rules: Option<EjectionRules>,
        panic_percent: Option<u32>,
        servers: usize,
        backups: usize,
    ) -> TestUpstream {
        let states: Vec<_> = (0..servers).map(|_| Arc::new(ServerState::new(1, 0))).collect();
        let member = |(index, state): (usize, &Arc<ServerState>)| OutlierMember {
            state: Arc::clone(state),
            tier: if index >= servers - backups { ServerTier::Backup } else { ServerTier::Primary },
            exempt: false,
            leaving: false,
        };
        let members = states.iter().enumerate().map(member).collect();
        TestUpstream {
            book: OutlierTable::new(rules, panic_percent, false, members),
            states,
            now_ms: 1_000_000,
        }
    }

    /// Lets time pass, as the control thread notices it.
    fn wait(&mut self, seconds: f64) {
        let end_ms = self.now_ms + (seconds * 1000.0).round() as u64;
        while let Some(next_ms) = self.book.next_ms().filter(|next_ms| *next_ms <= end_ms) {
            self.now_ms = self.now_ms.max(next_ms);
            self.book.advance(self.now_ms);
        }
        self.now_ms = end_ms;
    }

    /// A request that takes no time, if the server may have one; whether it may.
    fn request(&mut self, server: usize, succeeds: bool) -> bool {
        let begun = self.begin(server);
        if begun {
            self.end(server, self.now_ms, succeeds);
        }
        begun
    }

    fn begin(&mut self, server: usize) -> bool {
        let state = &self.states[server];
        let begins = state.may_begin();
        if begins && state.consecutive_failures().is_watched() {
            self.book.begin(ServerId(server as u32), self.now_ms);
        }
        begins
    }

    fn end(&mut self, server: usize, began_ms: u64, succeeds: bool) {
        let (id, suspicion) = (ServerId(server as u32), self.states[server].consecutive_failures());
        if succeeds {
            if suspicion.end_failures() {
                self.book.succeed(id, began_ms, self.now_ms);
            }
        } else if suspicion.count_failure() >= 3 || suspicion.is_watched() || self.counts_each() {
            self.book.fail(id, began_ms, self.now_ms);
        }
    }

    fn counts_each(&self) -> bool {
        self.book.failures_to_report() == Some(1)
    }

    /// Requests that fail until the server is ejected, or as many as `most`.
    fn fail(&mut self, server: usize, most: usize) {
        for _ in 0..most {
            if !self.request(server, false) {
                return;
            }
        }
    }

    /// Which servers get requests: `+` its share, `?` one, `-` none.
    fn standing(&self) -> String {
        self.states
            .iter()
            .map(|state| match (state.is_eligible(), state.is_on_trial()) {
                (true, true) => '?',
                (true, false) => '+',
                (false, _) => '-',
            })
            .collect()
    }

    fn changes(&mut self) -> Vec<OutlierChange> {
        self.book.take_events().into_iter().map(|event| event.change).collect()
    }
}
