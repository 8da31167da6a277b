//! Whether a server answers, from probes made beside the traffic: when to probe, and what the outcomes say.
//!
//! A [`Schedule`] names the time of each probe, a [`Verdict`] turns outcomes into up or down. Whoever makes the
//! probes gives time and random numbers to both and passes a changed verdict on to `ServerState::set_health`.
//! What live traffic says of a server is judged in [`crate::ejection`].

mod verdict;
mod history;
mod schedule;
mod pacer;
mod slow_start;

pub use history::{HISTORY_MAX, History, Outcome};
pub use pacer::Pacer;
pub use schedule::{Pace, Schedule};
pub use slow_start::SlowStart;
pub use verdict::{Change, Thresholds, Verdict};

#[cfg(test)]
mod tests;
