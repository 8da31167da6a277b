//! What Weir itself refuses, in its own log: connections beyond a limit, requests that found a queue full or no server.
//!
//! Read from the counters, so that the data path does nothing for it. A reason of a listener or an upstream is told when it begins, then once a
//! minute with the number since; each request is in the access log.

use std::collections::HashMap;
use std::time::Duration;

use weir_observe::{FailureCounters, Reason};
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::snapshot::{CurrentSnapshot, Snapshot};

/// How often the counters are read.
const READ_INTERVAL: Duration = Duration::from_secs(2);

/// Least time between two lines about one reason of one part.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Reasons that are told by listener: limits on what it accepts.
const OF_LISTENERS: [&str; 11] = [
    "connection-limit",
    "accept-memory-limit",
    "listener-connection-limit",
    "client-connection-limit",
    "client-connection-rate",
    "tls-handshake-rate",
    "request-connection-limit",
    "request-client-limit",
    "buffer-limit",
    "memory-limit",
    "descriptor-limit",
];

/// Reasons that are told by upstream: no place for a request.
const OF_UPSTREAMS: [&str; 16] = [
    "no-server",
    "server-not-allowed",
    "address-not-allowed",
    "resolver-failed",
    "resolve-timed-out",
    "too-many-names",
    "affinity-unavailable",
    "all-servers-full",
    "queue-full",
    "queue-evicted",
    "queue-overload",
    "queue-timeout",
    "connect-ports-exhausted",
    "connect-descriptor-limit",
    "connect-kernel-memory",
    "connect-no-free-stream",
];

/// Writes lines until the task is dropped.
pub(crate) async fn report(current: CurrentSnapshot) {
    let mut reads = tokio::time::interval(READ_INTERVAL);
    reads.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut refusals = RefusalTable::default();
    loop {
        reads.tick().await;
        refusals.read(&current.load(), clock::now()).iter().for_each(RefusalLine::log);
    }
}

/// What a line is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RefusingPart {
    Listener(Box<str>),
    Upstream(Box<str>),
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
struct RefusalLine {
    part: RefusingPart,
    reason: Reason,
    /// How often since the last line.
    count: u64,
}

impl RefusalLine {
    fn log(&self) {
        let (reason, refused) = (self.reason.code(), self.count);
        let (happened, change) = (self.reason.happened(), self.reason.change());
        match &self.part {
            RefusingPart::Listener(listener) => {
                tracing::warn!(listener = &**listener, reason, refused, "{happened} {change}");
            }
            RefusingPart::Upstream(upstream) => {
                tracing::warn!(upstream = &**upstream, reason, refused, "{happened} {change}");
            }
        }
    }
}

/// The reasons that have occurred, by part.
#[derive(Debug, Default)]
struct RefusalTable(HashMap<(RefusingPart, Reason), Occurrences>);

#[derive(Debug, Default)]
struct Occurrences {
    /// How often, up to the last line.
    told: u64,
    at: Option<Instant>,
    /// Whether the last reading has seen it.
    is_there: bool,
}

impl RefusalTable {
    fn read(&mut self, snapshot: &Snapshot, now: Instant) -> Vec<RefusalLine> {
        let mut due = Vec::new();
        for plan in &snapshot.listeners {
            let part = || RefusingPart::Listener(plan.config.name.clone());
            let shards = plan.state.shards.iter();
            self.follow(part, &OF_LISTENERS, || shards.clone().map(|shard| &shard.failures), now, &mut due);
        }
        for plan in snapshot.upstreams.iter().filter(|plan| plan.shards.is_used()) {
            let part = || RefusingPart::Upstream(plan.config.name.clone());
            let counters = || plan.shards.used().map(|shard| &shard.failures);
            self.follow(part, &OF_UPSTREAMS, counters, now, &mut due);
        }
        // Parts that are gone are forgotten.
        self.0.retain(|_, occurrences| std::mem::take(&mut occurrences.is_there));
        due
    }

    fn follow<'a, I: Iterator<Item = &'a FailureCounters>>(
        &mut self,
        part: impl Fn() -> RefusingPart,
        codes: &[&str],
        counters: impl Fn() -> I,
        now: Instant,
        due: &mut Vec<RefusalLine>,
    ) {
        if counters().all(|counters| counters.total() == 0) {
            return;
        }
        for reason in codes.iter().filter_map(|code| Reason::from_code(code)) {
            let count: u64 = counters().map(|counters| counters.count(reason)).sum();
            if count > 0
                && let Some(count) = self.0.entry((part(), reason)).or_default().note(count, now)
            {
                due.push(RefusalLine { part: part(), reason, count });
            }
        }
    }
}

impl Occurrences {
    /// Takes note of how often it has been up to now; how often since the last line, if one is due.
    fn note(&mut self, count: u64, now: Instant) -> Option<u64> {
        self.is_there = true;
        // A part of the same name may have begun anew.
        self.told = self.told.min(count);
        let since = count - self.told;
        let is_due = self.at.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
        if since == 0 || !is_due {
            return None;
        }
        (self.told, self.at) = (count, Some(now));
        Some(since)
    }
}

#[cfg(test)]
mod tests {
    use weir_observe::Party;

    use super::*;

    #[test]
    fn every_reason_exists_and_is_of_weir_itself() {
        for code in OF_LISTENERS.iter().chain(&OF_UPSTREAMS) {
            let reason = Reason::from_code(code).unwrap_or_else(|| panic!("there is no reason {code}"));
            assert_eq!(reason.party(), Party::Weir, "{code}");
        }
    }

    #[test]
    fn a_reason_is_told_when_it_begins_and_then_once_a_minute() {
        let (mut occurrences, start) = (Occurrences::default(), clock::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(occurrences.note(3, start), Some(3));
        assert_eq!(occurrences.note(9, after(2)), None);
        assert_eq!(occurrences.note(11, after(60)), Some(8));
        assert_eq!(occurrences.note(11, after(180)), None, "nothing has been refused since");
        assert_eq!(occurrences.note(12, after(182)), Some(1));
        assert_eq!(
            occurrences.note(2, after(300)),
            None,
            "the part began anew: its first ones may have been told"
        );
        assert_eq!(occurrences.note(4, after(301)), Some(2));
    }
}
