//! Where time comes from: both clocks of the system, and random parts of waits. Everything else gets them passed in.

use std::time::{Instant, SystemTime};

use weir_http::WallTime;

/// The time since some moment, for waits.
#[expect(clippy::disallowed_methods, reason = "this is the clock module of the crate")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The date and time, as shown and stored.
#[expect(clippy::disallowed_methods, reason = "this is the clock module of the crate")]
pub(crate) fn date() -> WallTime {
    SystemTime::now().into()
}

/// A number from 0 up to, not including, 1.
pub(crate) fn random() -> f64 {
    fastrand::f64()
}
