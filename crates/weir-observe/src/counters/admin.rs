//! Counters of requests to the admin listener: those that were answered, and why the others were rejected.
//!
//! A closed set of reasons, as they become labels. None of them concerns an exchange: those have failures.

use crate::counters::counter::Counter;

/// Why the admin listener refused a request or a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AdminRefusal {
    /// No credentials came, or wrong ones.
    Credentials,
    /// `Host` has another name: a page elsewhere may have had its own name resolved to this address.
    Host,
    /// The page of another site is behind it, or one that does not know the token of this process.
    CrossSite,
    /// It asks for a change, and the config allows none.
    ChangesOff,
    /// Its head or its body is too large.
    TooLarge,
    /// It was not complete in time, or its answer was not read.
    TooSlow,
    /// It is not well-formed HTTP.
    Malformed,
    /// More connections than may be open.
    TooMany,
}

impl AdminRefusal {
    /// How many reasons there are.
    pub const COUNT: usize = 8;

    /// Every reason; `refusal as usize` is its index.
    pub const ALL: [AdminRefusal; AdminRefusal::COUNT] = [
        AdminRefusal::Credentials,
        AdminRefusal::Host,
        AdminRefusal::CrossSite,
        AdminRefusal::ChangesOff,
        AdminRefusal::TooLarge,
        AdminRefusal::TooSlow,
        AdminRefusal::Malformed,
        AdminRefusal::TooMany,
    ];

    /// The stable lower-case name: metric label, word in the log.
    pub const fn name(self) -> &'static str {
        match self {
            AdminRefusal::Credentials => "credentials",
            AdminRefusal::Host => "host",
            AdminRefusal::CrossSite => "cross-site",
            AdminRefusal::ChangesOff => "changes-off",
            AdminRefusal::TooLarge => "too-large",
            AdminRefusal::TooSlow => "timeout",
            AdminRefusal::Malformed => "malformed",
            AdminRefusal::TooMany => "connection-limit",
        }
    }
}

/// The counters; one writer, the thread that serves the admin listener.
#[derive(Debug, Default)]
pub struct AdminShard {
    requests: Counter,
    refusals: [Counter; AdminRefusal::COUNT],
}

impl AdminShard {
    /// Counts a request that was answered as asked.
    pub fn record_answer(&self) {
        self.requests.increment();
    }

    /// Counts a request or a connection that was refused.
    pub fn record_refusal(&self, refusal: AdminRefusal) {
        self.refusals[refusal as usize].increment();
    }

    /// The counts at this moment.
    pub fn stats(&self) -> AdminStats {
        AdminStats {
            requests: self.requests.value(),
            refusals: std::array::from_fn(|refusal| self.refusals[refusal].value()),
        }
    }
}

/// The counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AdminStats {
    /// Requests that were answered as asked.
    pub requests: u64,
    /// Requests and connections that were refused, in the order of [`AdminRefusal::ALL`].
    pub refusals: [u64; AdminRefusal::COUNT],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_reason() {
        let shard = AdminShard::default();
        shard.record_answer();
        for (index, refusal) in AdminRefusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, index);
            (0..=index).for_each(|_| shard.record_refusal(refusal));
        }
        let expected = AdminStats { requests: 1, refusals: [1, 2, 3, 4, 5, 6, 7, 8] };
        assert_eq!(shard.stats(), expected);
    }
}
