//! Log lines when a server is ejected, tried and back: which, why, for how long, and how many servers are left.

use weir_traffic::ejection::{EjectionReason, OutlierChange, OutlierEvent, ReturnReason};
use weir_traffic::{Health, ServerId};

use crate::servers::outcome_history;
use weir_proxy::state::snapshot::UpstreamPlan;

/// Writes the line about something that was decided.
pub(super) fn tell(plan: &UpstreamPlan, event: &OutlierEvent) {
    let name = |server: ServerId| &*plan.config.servers[server.index()].name;
    let (upstream, servers, servers_usable) = (&*plan.config.name, plan.config.servers.len(), usable(plan));
    match event.change {
        OutlierChange::Ejected { server, grounds, for_ms, times } => {
            let history = outcome_history::describe(plan.outlier_detector.lock().history(server));
            let (seconds, why) = (seconds(for_ms), why(grounds));
            plan.live[server.index()].last_change.record(format!("ejected for {seconds}: {why}"));
            let (reason, server) = (grounds.name(), name(server));
            tracing::warn!(
                upstream,
                server,
                reason,
                history,
                times,
                servers_usable,
                servers,
                "the server is ejected for {seconds}: {why}"
            );
        }
        OutlierChange::OnTrial { server } => {
            tracing::info!(upstream, server = name(server), "the server may have one request to try");
        }
        OutlierChange::Returned { server, how } => {
            let why = match how {
                ReturnReason::TrialPassed => "the request that it was tried with succeeded",
                ReturnReason::LastOne => "no other is left",
                ReturnReason::RulesChanged => "the rules of ejection have changed",
            };
            plan.live[server.index()].last_change.record(why);
            tracing::info!(
                upstream,
                server = name(server),
                servers_usable,
                servers,
                "the server is back: {why}"
            );
        }
        OutlierChange::Panic { began: true } => {
            tracing::error!(
                upstream,
                servers_usable,
                servers,
                "too few servers are usable: all get requests, whatever health checks and ejection say of them"
            );
        }
        OutlierChange::Panic { began: false } => {
            tracing::info!(upstream, servers_usable, servers, "enough servers are usable again");
        }
    }
}

/// How many servers are up and not ejected.
fn usable(plan: &UpstreamPlan) -> usize {
    let states = plan.balancer().states().iter();
    states.filter(|state| state.health() == Health::Up && !state.is_ejected()).count()
}

fn why(grounds: EjectionReason) -> String {
    match grounds {
        EjectionReason::ConsecutiveFailures(failures) => format!("{failures} requests failed in a row"),
        EjectionReason::ErrorRate { percent, others_percent } => {
            format!("{percent}% of its requests failed, {others_percent}% of those of the others")
        }
        EjectionReason::Latency { micros, others_micros } => {
            let millis = |micros: u64| format!("{}.{}ms", micros / 1000, micros % 1000 / 100);
            format!(
                "half of its answers took longer than {}, those of the others {}",
                millis(micros),
                millis(others_micros)
            )
        }
        EjectionReason::Trial => "the request that it was tried with failed".to_owned(),
        EjectionReason::MaxFails(fails) => format!("{fails} requests failed"),
    }
}

/// `12.3s`.
fn seconds(millis: u64) -> String {
    format!("{}.{}s", millis / 1000, millis % 1000 / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_reported_in_words() {
        for (grounds, words) in [
            (EjectionReason::ConsecutiveFailures(5), "5 requests failed in a row"),
            (
                EjectionReason::ErrorRate { percent: 60, others_percent: 1 },
                "60% of its requests failed, 1% of those of the others",
            ),
            (
                EjectionReason::Latency { micros: 1_234_567, others_micros: 9_000 },
                "half of its answers took longer than 1234.5ms, those of the others 9.0ms",
            ),
            (EjectionReason::MaxFails(1), "1 requests failed"),
        ] {
            assert_eq!(why(grounds), words);
        }
        assert_eq!(seconds(10_001), "10.0s");
    }
}
