//! Whether a server answers, from probes made beside the traffic: when to probe, and what the outcomes say.
//!
//! A [`ProbeSchedule`] names the time of each probe, a [`HealthState`] turns outcomes into up or down. Whoever makes the
//! probes gives time and random numbers to both and passes a changed verdict on to `ServerState::set_health`.
//! What live traffic says of a server is judged in [`crate::ejection`].

mod state;
mod history;
mod schedule;
mod pacer;
mod slow_start;

pub use history::{HISTORY_MAX, OutcomeHistory, PastOutcome};
pub use pacer::ProbePacer;
pub use schedule::{ProbeSchedule, ProbeTiming};
pub use slow_start::SlowStart;
pub use state::{HealthChange, HealthState, Thresholds};

#[cfg(test)]
mod tests;
