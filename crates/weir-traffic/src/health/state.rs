//! Up or down: the verdict on one server, changed by several probes in a row that say otherwise.
//!
//! ```text
//!                        fails               `fall` in a row
//!   Up ────────────────────────────▶ Up, changing ────────────▶ Down
//!   ▲ ▲ ◀─────────────── passes ────────────┘                    │ ▲
//!   │ └─ `rise` in a row ─── Down, changing ◀────── passes ──────┘ │
//!   │                               └────────────── fails ─────────┘
//!  start: up, and the first probe alone decides
//! ```

use super::history::{OutcomeHistory, PastOutcome};
use crate::server::Health;

/// How many probes in a row it takes; 0 counts as 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Passed ones, until a server that is down is up.
    pub rise: u32,
    /// Failed ones, until a server that is up is down.
    pub fall: u32,
}

/// A verdict that an outcome has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthChange {
    /// The new verdict.
    pub health: Health,
    /// How many outcomes in a row led to it, the last one included.
    pub outcomes: u32,
}

/// The verdict on one server from its probes so far.
#[derive(Debug, Clone)]
pub struct HealthState<C> {
    thresholds: Thresholds,
    health: Health,
    /// Outcomes in a row that speak against `health`.
    against: u32,
    history: OutcomeHistory<C>,
}

impl<C> HealthState<C> {
    /// A server that is up before its first probe: the start of Weir is no outage, and the first probe detects a server that is
    /// dead from the start.
    pub fn new(thresholds: Thresholds) -> HealthState<C> {
        HealthState { thresholds, health: Health::Up, against: 0, history: OutcomeHistory::default() }
    }

    /// A server whose verdict is known from elsewhere: from the process before this one.
    pub fn beginning(thresholds: Thresholds, health: Health) -> HealthState<C> {
        HealthState { health, ..HealthState::new(thresholds) }
    }

    /// Continues from a known verdict: of a server that was judged by another check, or by other thresholds.
    pub fn resume(thresholds: Thresholds, before: &HealthState<C>) -> HealthState<C>
    where
        C: Clone,
    {
        HealthState { thresholds, health: before.health, against: 0, history: before.history.clone() }
    }

    /// The verdict now.
    pub fn health(&self) -> Health {
        self.health
    }

    /// Whether the last outcome contradicts the verdict: the next probes should come soon.
    pub fn is_changing(&self) -> bool {
        self.against > 0
    }

    /// The last outcomes.
    pub fn history(&self) -> &OutcomeHistory<C> {
        &self.history
    }

    /// Takes note of an outcome; tells when it changes the verdict.
    pub fn record(&mut self, outcome: PastOutcome<C>) -> Option<HealthChange> {
        let says = if outcome.failure.is_none() { Health::Up } else { Health::Down };
        let threshold = match says {
            Health::Up => self.thresholds.rise,
            Health::Down if self.history.newest().is_none() => 1,
            Health::Down => self.thresholds.fall,
        };
        self.history.push(outcome);
        if says == self.health {
            self.against = 0;
            return None;
        }
        self.against += 1;
        if self.against < threshold {
            return None;
        }
        self.health = says;
        Some(HealthChange { health: says, outcomes: std::mem::take(&mut self.against) })
    }
}
