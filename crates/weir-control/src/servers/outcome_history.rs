//! The history of a server in a line of the log: what happened to its last probes or requests, and when.

use std::fmt::Write as _;

use weir_traffic::health::OutcomeHistory;

use weir_proxy::net::failure::Fault;

/// The outcomes, the oldest first, each with its age: `passed 2.0s ago, response-timeout 0.5s ago, connect-refused now`.
pub(crate) fn describe(history: &OutcomeHistory<Fault>) -> String {
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
    use weir_traffic::health::{HealthState, PastOutcome, Thresholds};

    use super::*;

    #[test]
    fn a_history_lists_outcomes_with_their_times() {
        let mut verdict = HealthState::new(Thresholds { rise: 2, fall: 3 });
        assert_eq!(describe(verdict.history()), "");
        let status = Fault::unexpected_status(500);
        let refused = Fault::from(Failure::server(Phase::Connect, Cause::Refused));
        for (at_ms, failure) in [(1000, None), (3100, Some(status)), (3650, Some(refused))] {
            verdict.record(PastOutcome { at_ms, failure });
        }
        assert_eq!(
            describe(verdict.history()),
            "passed 2.6s ago, response-unexpected-status 500 0.5s ago, connect-refused now"
        );
    }
}
