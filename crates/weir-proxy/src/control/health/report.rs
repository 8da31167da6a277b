//! What the log says when a server goes down or comes back: which, why, since when, and what is left of the upstream.

use std::fmt::Write as _;

use weir_traffic::Health;
use weir_traffic::health::{Change, History, Verdict};

use super::probe::ProbeFailure;
use crate::snapshot::UpstreamPlan;

/// Writes the line about a verdict that has just changed.
pub(super) fn tell(plan: &UpstreamPlan, index: usize, change: Change, verdict: &Verdict<ProbeFailure>) {
    let (upstream, server) = (&*plan.config.name, &*plan.config.servers[index].name);
    let servers_up = plan.balancer().states().iter().filter(|state| state.health() == Health::Up).count();
    let servers = plan.config.servers.len();
    let (count, history) = (change.outcomes, history(verdict.history()));
    match change.health {
        Health::Down => {
            let failure = verdict.history().newest().and_then(|outcome| outcome.failure);
            let reason = failure.map(|failure| failure.to_string()).unwrap_or_default();
            tracing::warn!(
                upstream,
                server,
                reason,
                history,
                servers_up,
                servers,
                "the server is down: {count} of {count} probes failed"
            );
            if servers_up == 0 {
                tracing::error!(upstream, "no server of the upstream is up: requests are answered 503");
            }
        }
        Health::Up => {
            tracing::info!(
                upstream,
                server,
                history,
                servers_up,
                servers,
                "the server is up again: {count} of {count} probes passed"
            );
        }
    }
}

/// The outcomes, the oldest first, each with its age: `passed 2.0s ago, response-timeout 0.5s ago, connect-refused now`.
fn history(history: &History<ProbeFailure>) -> String {
    let now_ms = history.newest().map_or(0, |outcome| outcome.at_ms);
    let mut text = String::new();
    for outcome in history.iter() {
        let separator = if text.is_empty() { "" } else { ", " };
        let written = match &outcome.failure {
            Some(failure) => write!(text, "{separator}{failure}"),
            None => write!(text, "{separator}passed"),
        };
        written.expect("a string takes everything");
        match now_ms.saturating_sub(outcome.at_ms) {
            0 => text.push_str(" now"),
            age_ms => write!(text, " {}.{}s ago", age_ms / 1000, age_ms % 1000 / 100)
                .expect("a string takes everything"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use weir_observe::{Cause, Failure, Phase};
    use weir_traffic::health::{Outcome, Thresholds};

    use super::*;

    #[test]
    fn a_history_tells_what_happened_and_when() {
        let mut verdict = Verdict::new(Thresholds { rise: 2, fall: 3 });
        assert_eq!(history(verdict.history()), "");
        let status = ProbeFailure {
            failure: Failure::server(Phase::Response, Cause::UnexpectedStatus),
            status: Some(500),
        };
        let refused = ProbeFailure::from(Failure::server(Phase::Connect, Cause::Refused));
        for (at_ms, failure) in [(1000, None), (3100, Some(status)), (3650, Some(refused))] {
            verdict.record(Outcome { at_ms, failure });
        }
        assert_eq!(
            history(verdict.history()),
            "passed 2.6s ago, response-unexpected-status 500 0.5s ago, connect-refused now"
        );
    }
}
