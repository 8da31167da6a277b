//! `docs/failures.md`, written from the table of reasons so that it cannot go stale.

use std::fmt::Write;

use super::Reason;

/// The page that lists every reason code.
pub fn failures_markdown() -> String {
    let mut page = String::new();
    for reason in Reason::all().filter(|reason| reason.is_possible()) {
        writeln!(page, "{}", reason.code()).expect("a string takes everything");
    }
    page
}
