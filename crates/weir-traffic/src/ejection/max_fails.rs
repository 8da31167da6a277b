//! nginx's count of the failures of one server, by its rules to the letter.
//!
//! From `ngx_http_upstream_round_robin.c`: `fails` counts failures; `accessed` is when the last one was; `checked` is that too, or
//! when the first request began that came more than `fail_timeout` after it. Every success ends the count if such a
//! request has begun; no other does. So failures count together as long as none of them is followed by `fail_timeout` of
//! peace and a success. nginx counts in seconds, this in milliseconds.

use super::rules::{MaxFailsRules, millis};

/// The count; all zero before the first failure.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FailCount {
    fails: u32,
    accessed_ms: u64,
    checked_ms: u64,
}

impl FailCount {
    /// A request begins on the server.
    pub(super) fn begin(&mut self, rules: MaxFailsRules, now_ms: u64) {
        if now_ms.saturating_sub(self.checked_ms) > millis(rules.fail_timeout) {
            self.checked_ms = now_ms;
        }
    }

    /// A request failed; returns the count.
    pub(super) fn fail(&mut self, now_ms: u64) -> u32 {
        self.fails = self.fails.saturating_add(1);
        self.accessed_ms = now_ms;
        self.checked_ms = now_ms;
        self.fails
    }

    /// A request succeeded; whether that ends the count.
    pub(super) fn succeed(&mut self) -> bool {
        let ends = self.accessed_ms < self.checked_ms;
        if ends {
            self.fails = 0;
        }
        ends
    }

    /// From when on a server that is unavailable may have a request.
    pub(super) fn until_ms(&self, rules: MaxFailsRules) -> u64 {
        self.checked_ms.saturating_add(millis(rules.fail_timeout)).saturating_add(1)
    }
}
