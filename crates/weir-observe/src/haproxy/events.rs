//! `show errors` and `show sess`, as far as they are known without looking at single requests.

use super::rows::whole;
use crate::access_log::UnixMicros;
use crate::overview::Overview;

/// `show errors`: failures since the start by reason, at the listeners where they happened. What the requests looked like is not kept here.
pub fn errors(overview: &Overview) -> String {
    let at = UnixMicros(overview.process.at_ms.saturating_mul(1000)).haproxy();
    let failures = || {
        let of = |listener: &'_ crate::overview::ListenerOverview| listener.failures.clone();
        overview
            .listeners
            .iter()
            .flat_map(move |listener| of(listener).into_iter().map(move |failure| (listener, failure)))
    };
    let total: u64 = failures().map(|(_, failure)| failure.count).sum();
    let mut text = format!("Total events captured on [{}] : {total}\n", String::from_utf8_lossy(&at));
    for (listener, failure) in failures() {
        text.push_str(&format!(
            "  frontend {}: {} x {}, by the {}, in phase {}\n",
            listener.name,
            failure.count,
            failure.reason,
            failure.party,
            failure.phases.join(" or "),
        ));
    }
    text
}

/// `show sess`: how many there are. Workers keep their sessions to themselves, so they are counted and not listed.
pub fn sessions(overview: &Overview) -> String {
    let listeners = overview.listeners.iter().map(|listener| {
        let (open, tunnels) = (listener.figures.sessions_open, listener.figures.tunnels_open);
        format!(
            "# fe={} sessions={} peak={} tunnels={}\n",
            listener.name,
            whole(open.now),
            whole(open.peak),
            whole(tunnels.now)
        )
    });
    listeners.collect()
}
