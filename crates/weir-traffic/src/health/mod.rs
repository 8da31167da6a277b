//! Whether a server answers, from probes made beside the traffic: when to probe, and the verdict on the outcomes.
//!
//! A [`ProbeSchedule`] names the time of each probe, a [`HealthState`] turns outcomes into up or down. The caller makes the
//! probes, gives time and random numbers to both and passes a changed verdict on to `ServerState::set_health`.
//! [`crate::ejection`] judges servers by live traffic.

mod state;
mod history;
mod schedule;
mod pacer;
mod slow_start;
mod agent;

pub use agent::{AGENT_ANSWER_BYTES_MAX, AgentAnswer, AgentReport, AgentStatus};
pub use history::{HISTORY_MAX, OutcomeHistory, PastOutcome};
pub use pacer::ProbePacer;
pub use schedule::{ProbeSchedule, ProbeTiming};
pub use slow_start::SlowStart;
pub use state::{HealthChange, HealthState, Thresholds};

#[cfg(test)]
mod tests;
