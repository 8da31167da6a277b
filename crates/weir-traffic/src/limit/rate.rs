//! Requests per second of one client, with a burst: a token bucket per client in a table of fixed size.
//!
//! A bucket is one number, the time at which it will be full again (the generic cell rate algorithm, ITU-T
//! I.371). When more clients come than the table holds, the fullest bucket is replaced: a client that has
//! hardly used its own loses next to nothing, and no client is rejected because of others.

use std::sync::{Mutex, PoisonError};

use super::ClientKey;
use crate::hash::mix;

/// Sets that share one lock.
const SHARDS: usize = 64;

/// Buckets a client can be in.
const WAYS: usize = 8;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// How many requests per second, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenRate {
    /// Time that one request costs.
    cost_ns: u64,
    /// Time that a full bucket is worth.
    depth_ns: u64,
}

/// Why numbers do not make a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// The rate is 0 or more than a billion a second.
    #[error("a rate is between 1 and 1 000 000 000")]
    Rate,
    /// The burst is 0 or would take more than a day to fill.
    #[error("a burst is at least 1 and refills within a day")]
    Burst,
    /// The period is 0 or longer than a day.
    #[error("the period of a rate is longer than zero and at most a day")]
    Period,
}

/// The buckets of all clients.
#[derive(Debug)]
pub struct RateLimit {
    rate: TokenRate,
    shards: Box<[Mutex<Box<[Set]>>]>,
    sets_per_shard: u64,
    seed: u64,
}

type Set = [TokenBucket; WAYS];

/// A client's bucket; `full_at_ns` not after now is as good as none.
#[derive(Debug, Clone, Copy, Default)]
struct TokenBucket {
    key: u64,
    full_at_ns: u64,
}

impl TokenRate {
    /// `requests` per `period`, and up to `burst` at once after a pause.
    ///
    /// # Errors
    /// When a number is out of range.
    pub fn new(requests: u32, period: std::time::Duration, burst: u32) -> Result<TokenRate, RateError> {
        const DAY_NS: u64 = 86_400 * SECOND_NS;
        let period_ns = u64::try_from(period.as_nanos()).map_err(|_| RateError::Period)?;
        if period_ns == 0 || period_ns > DAY_NS {
            return Err(RateError::Period);
        }
        let cost_ns =
            period_ns.checked_div(u64::from(requests)).filter(|&cost| cost > 0).ok_or(RateError::Rate)?;
        let depth_ns = cost_ns
            .checked_mul(u64::from(burst))
            .filter(|depth| (1..=DAY_NS).contains(depth))
            .ok_or(RateError::Burst)?;
        Ok(TokenRate { cost_ns, depth_ns })
    }
}

impl RateLimit {
    /// Buckets for about `clients_max` clients at once, 16 bytes each, taken at once. `seed` is 64 random
    /// bits.
    pub fn new(rate: TokenRate, clients_max: usize, seed: u64) -> RateLimit {
        let sets_per_shard = clients_max.div_ceil(SHARDS * WAYS).max(1);
        let empty = || vec![Set::default(); sets_per_shard].into_boxed_slice();
        RateLimit {
            rate,
            shards: (0..SHARDS).map(|_| Mutex::new(empty())).collect(),
            sets_per_shard: sets_per_shard as u64,
            seed,
        }
    }

    /// Takes one request from the bucket of `client` at `now_ns`.
    ///
    /// # Errors
    /// When it is empty: how many nanoseconds until it holds one again (for `Retry-After`). Nothing was
    /// taken.
    pub fn try_take(&self, client: ClientKey, now_ns: u64) -> Result<(), u64> {
        let key = mix(client.0 ^ self.seed);
        let shard = &self.shards[(key >> 58) as usize];
        let mut sets = shard.lock().unwrap_or_else(PoisonError::into_inner);
        let set = ((u128::from(key << 6) * u128::from(self.sets_per_shard)) >> 64) as usize;
        let bucket = find(&mut sets[set], key);
        let full_at_ns = bucket.full_at_ns.max(now_ns) + self.rate.cost_ns;
        let over_ns = (full_at_ns - now_ns).saturating_sub(self.rate.depth_ns);
        if over_ns > 0 {
            return Err(over_ns);
        }
        bucket.full_at_ns = full_at_ns;
        Ok(())
    }
}

/// The client's bucket, or the fullest one emptied of its former owner's debt.
fn find(set: &mut Set, key: u64) -> &mut TokenBucket {
    let own = set.iter().position(|bucket| bucket.key == key);
    let at = own.unwrap_or_else(|| {
        let fullest = (0..WAYS).min_by_key(|&way| set[way].full_at_ns).expect("a set is not empty");
        set[fullest] = TokenBucket { key, full_at_ns: 0 };
        fullest
    });
    &mut set[at]
}
