//! Outlier ejection by live traffic: when a server gets no more requests because some failed, and when it gets them again.
//!
//! ```text
//!            enough failures                  time is up               a request begins
//!   Good ──────────────────────▶ Ejected ─────────────────▶ OnTrial ─────────────────────▶ Trying
//!    ▲                              ▲                          ▲                           │ │ │
//!    │                              └────────── it fails ──────┼───────────────────────────┘ │ │
//!    │                                                         └──── nothing comes of it ────┘ │
//!    └────────────────────────────────── it succeeds ──────────────────────────────────────────┘
//! ```
//!
//! The state of each server has a [`ConsecutiveFailures`](crate::server::ConsecutiveFailures), which is all that a request without trouble reads. [`OutlierTable`] is
//! the table of an upstream, which the caller keeps behind a lock that is taken only where something is wrong. Health
//! checks are independent: neither undoes what the other has found.

mod table;
mod record;
mod max_fails;
mod outlier;
mod rules;

pub use outlier::OutlierWindow;
pub use record::{EjectedServer, OutlierChange, OutlierEvent, ReturnReason};
pub use rules::{EjectionReason, EjectionRules, LatencyRule, MaxFailsRules, OutlierRules};
pub use table::{OutlierMember, OutlierTable};

#[cfg(test)]
mod tests;
