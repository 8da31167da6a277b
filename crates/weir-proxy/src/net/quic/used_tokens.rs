//! The tokens by which clients have proved their address with their first packet (RFC 9000 section 8.1.3): each counts once.

use std::collections::HashSet;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use quinn_proto::{TokenLog, TokenReuseError};
use weir_http::WallTime;

use crate::net::clock::{self, SystemDate};

/// How many are remembered before the older half is forgotten.
const REMEMBERED_MAX: usize = 32 * 1024;

/// Those of one process.
pub(super) struct UsedTokens(Mutex<Remembered>);

struct Remembered {
    recent: HashSet<u128>,
    older: HashSet<u128>,
    /// Uses after then are remembered: whether a token issued until then was used is not known, so it counts for nothing.
    since: WallTime,
    recent_since: WallTime,
}

impl UsedTokens {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Remembered {
            recent: HashSet::new(),
            older: HashSet::new(),
            since: WallTime::since_1970(Duration::ZERO),
            recent_since: WallTime::since_1970(Duration::ZERO),
        }))
    }
}

impl Remembered {
    fn take(&mut self, nonce: u128, issued: WallTime, now: WallTime) -> Result<(), TokenReuseError> {
        if issued <= self.since || self.older.contains(&nonce) || !self.recent.insert(nonce) {
            return Err(TokenReuseError);
        }
        if self.recent.len() >= REMEMBERED_MAX {
            self.older = mem::take(&mut self.recent);
            (self.since, self.recent_since) = (self.recent_since, now);
        }
        Ok(())
    }
}

impl TokenLog for UsedTokens {
    fn check_and_insert(
        &self,
        nonce: u128,
        issued: SystemDate,
        _lifetime: Duration,
    ) -> Result<(), TokenReuseError> {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.take(nonce, clock::date_of(issued), clock::date())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_once_and_memory_is_bounded() {
        let used = UsedTokens::new();
        let mut used = used.0.lock().unwrap();
        let at = WallTime::from_seconds;
        let per_turn = REMEMBERED_MAX as u128;
        for turn in 1..5_u64 {
            let nonces = u128::from(turn) * per_turn..u128::from(turn + 1) * per_turn;
            for nonce in nonces.clone() {
                assert!(used.take(nonce, at(turn), at(turn)).is_ok());
                assert!(used.take(nonce, at(turn), at(turn)).is_err(), "twice");
            }
            assert!(used.recent.len() + used.older.len() <= 2 * REMEMBERED_MAX);
        }
        for turn in 1..5_u64 {
            let nonce = u128::from(turn) * per_turn;
            assert!(used.take(nonce, at(turn), at(5)).is_err(), "of turn {turn}: remembered, or too old");
        }
    }
}
