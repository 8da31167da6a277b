//! The clock of the program; nothing else in it asks for the time.

use std::time::Instant;

#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
