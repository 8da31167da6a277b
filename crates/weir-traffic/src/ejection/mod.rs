//! What live traffic says of a server: when it gets no more requests because of those that failed, and when again.
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
//! A [`ConsecutiveFailures`](crate::server::ConsecutiveFailures) stands in the state of each server and is all that a request without trouble looks at. [`OutlierTable`] are
//! the book of an upstream, which whoever runs it keeps behind a lock that is taken only where something is wrong. Health
//! checks are another matter: neither undoes what the other has found.

mod table;
mod record;
mod max_fails;
mod outlier;
mod rules;

pub use outlier::OutlierWindow;
pub use record::{OutlierChange, OutlierEvent, ReturnReason};
pub use rules::{EjectionReason, EjectionRules, LatencyRule, MaxFailsRules, OutlierRules};
pub use table::{OutlierMember, OutlierTable};

#[cfg(test)]
mod tests;
