//! Requests per time for each key, with a burst: a token bucket per key in a table of fixed size.

use super::buckets::{BucketTable, TokenBucket, known};
use super::sharing::{KeyUse, SharedDebt, UntoldUse};

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The longest time that a bucket takes to fill, or that a key stays blocked.
const DAY_NS: u64 = 86_400 * SECOND_NS;

/// How many requests per time, and how many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenRate {
    /// Time that one request costs.
    cost_ns: u64,
    /// Time that a full bucket is worth.
    depth_ns: u64,
    /// The longest wait of a request for its turn; `None`: requests of a burst do not wait.
    delay_ns: Option<u64>,
    /// How long a key gets nothing once its bucket was empty; 0: until there is a token again.
    block_ns: u64,
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

impl TokenRate {
    /// `requests` per `period`, and up to `burst` at once after a pause.
    ///
    /// # Errors
    /// When a number is out of range.
    pub fn new(requests: u32, period: std::time::Duration, burst: u32) -> Result<TokenRate, RateError> {
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
        Ok(TokenRate { cost_ns, depth_ns, delay_ns: None, block_ns: 0 })
    }

    /// The same with requests of a burst that wait for their turn, `delay` at most.
    #[must_use]
    pub fn with_delay(self, delay: std::time::Duration) -> TokenRate {
        TokenRate { delay_ns: Some(clamped(delay)), ..self }
    }

    /// The same with keys that get nothing for `block` once their bucket was empty; at most a day.
    #[must_use]
    pub fn with_block(self, block: std::time::Duration) -> TokenRate {
        TokenRate { block_ns: clamped(block), ..self }
    }

    /// How long an empty bucket takes to fill, in nanoseconds.
    pub const fn refill_ns(self) -> u64 {
        self.depth_ns
    }

    /// The longest debt of a key among nodes that share the limit: more than a burst, so that what they admitted beyond it is paid back.
    pub const fn shared_debt_max_ns(self) -> u64 {
        const BURSTS: u64 = 16;
        self.depth_ns.saturating_mul(BURSTS)
    }

    /// The longest time for which a key gets nothing, once it is blocked.
    pub fn blocked_max_ns(self) -> u64 {
        self.block_ns + self.tolerance_ns()
    }

    /// How full a bucket may be in debt before a request is refused, in time.
    fn tolerance_ns(self) -> u64 {
        let burst_ns = self.depth_ns - self.cost_ns;
        self.delay_ns.map_or(burst_ns, |delay_ns| burst_ns.min(delay_ns))
    }
}

fn clamped(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(DAY_NS).min(DAY_NS)
}

/// What is left in a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BucketLevel {
    /// Requests that would pass now.
    pub remaining: u64,
    /// Nanoseconds until the bucket is full; when nothing remains, until there is a token again.
    pub reset_ns: u64,
}

/// What a key has used and not got back yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyDebt {
    /// The hash of the key.
    pub key: u64,
    /// Nanoseconds until its bucket is full.
    pub full_in_ns: u64,
    /// Whether it gets nothing before.
    pub is_blocked: bool,
}

/// The buckets of all keys.
#[derive(Debug)]
pub struct RateLimit {
    rate: TokenRate,
    table: BucketTable,
    /// What other nodes are to be told; `None`: the limit is of this node alone.
    untold: Option<UntoldUse>,
}

/// The lowest bit of the time at which a bucket is full marks a blocked key: a nanosecond is less than any rate resolves.
const BLOCKED: u64 = 1;

impl RateLimit {
    /// Buckets for about `keys_max` keys at once, taken at once: [`RateLimit::BYTES_PER_KEY`] for each.
    pub fn new(rate: TokenRate, keys_max: usize) -> RateLimit {
        RateLimit { rate, table: BucketTable::new(keys_max), untold: None }
    }

    /// The same with nodes that share the limit: what is used is kept for them, up to `keys_max` keys.
    #[must_use]
    pub fn shared(self, keys_max: usize) -> RateLimit {
        RateLimit { untold: Some(UntoldUse::new(keys_max)), ..self }
    }

    /// The memory of a table for each key that it is made for.
    pub const BYTES_PER_KEY: usize = BucketTable::BYTES_PER_KEY;

    /// Takes one token from the bucket of `key`, which is a hash, at `now_ns`: how many nanoseconds the request has to wait for its turn.
    ///
    /// # Errors
    /// When there is none: how many nanoseconds until there is one again (for `Retry-After`). Nothing was taken.
    #[inline]
    pub fn try_take(&self, key: u64, now_ns: u64) -> Result<u64, u64> {
        let mut set = self.table.lock(key);
        let bucket = self.table.find(&mut set, key, now_ns);
        let debt_ns = bucket.full_at_ns.saturating_sub(now_ns);
        let over_ns = debt_ns.saturating_sub(self.rate.tolerance_ns());
        if over_ns > 0 {
            return Err(self.block(key, bucket, now_ns).unwrap_or(over_ns));
        }
        bucket.full_at_ns = (bucket.full_at_ns.max(now_ns) + self.rate.cost_ns) & !BLOCKED;
        self.tell(key, 1);
        Ok(self.rate.delay_ns.map_or(0, |_| debt_ns))
    }

    /// Gives back a token that was taken, of a request that was refused for another reason.
    pub fn give_back(&self, key: u64) {
        let mut set = self.table.lock(key);
        if let Some(bucket) = known(&mut set, key)
            && bucket.full_at_ns & BLOCKED == 0
        {
            bucket.full_at_ns = bucket.full_at_ns.saturating_sub(self.rate.cost_ns) & !BLOCKED;
            self.tell(key, -1);
        }
    }

    /// Whether there is a token in the bucket of `key`, without taking one.
    ///
    /// # Errors
    /// When there is none: how many nanoseconds until there is one again.
    pub fn check(&self, key: u64, now_ns: u64) -> Result<(), u64> {
        let mut set = self.table.lock(key);
        let bucket = known(&mut set, key);
        let debt_ns = bucket.map_or(0, |bucket| bucket.full_at_ns.saturating_sub(now_ns));
        match debt_ns.saturating_sub(self.rate.tolerance_ns()) {
            0 => Ok(()),
            over_ns => Err(over_ns),
        }
    }

    /// What is left in the bucket of `key`.
    pub fn level(&self, key: u64, now_ns: u64) -> BucketLevel {
        let mut set = self.table.lock(key);
        let bucket = known(&mut set, key);
        let debt_ns = bucket.map_or(0, |bucket| bucket.full_at_ns.saturating_sub(now_ns));
        match self.rate.tolerance_ns().checked_sub(debt_ns) {
            Some(room_ns) => BucketLevel { remaining: room_ns / self.rate.cost_ns + 1, reset_ns: debt_ns },
            None => BucketLevel { remaining: 0, reset_ns: debt_ns - self.rate.tolerance_ns() },
        }
    }

    /// Takes a token for something that has happened already; from an empty bucket, nothing. When that was the last one, the key is blocked.
    pub fn spend(&self, key: u64, now_ns: u64) {
        let mut set = self.table.lock(key);
        let bucket = self.table.find(&mut set, key, now_ns);
        if bucket.full_at_ns & BLOCKED != 0 && bucket.full_at_ns > now_ns {
            return;
        }
        self.tell(key, 1);
        let full_at_ns = bucket.full_at_ns.max(now_ns) + self.rate.cost_ns;
        // What another thread, whose time is a little later, has taken stays taken.
        let empty_ns = (now_ns + self.rate.depth_ns).max(bucket.full_at_ns);
        bucket.full_at_ns = full_at_ns.min(empty_ns) & !BLOCKED;
        if bucket.full_at_ns.saturating_sub(now_ns) > self.rate.tolerance_ns() {
            self.block(key, bucket, now_ns);
        }
    }

    /// The debts of all keys, for another table that goes on from here.
    pub fn debts(&self, now_ns: u64) -> Vec<KeyDebt> {
        let debt = |(key, full_at_ns): (u64, u64)| KeyDebt {
            key,
            full_in_ns: full_at_ns - now_ns,
            is_blocked: full_at_ns & BLOCKED != 0,
        };
        self.table.in_use(now_ns).into_iter().map(debt).collect()
    }

    /// Gives a key this debt, unless it has a larger one.
    pub fn owe(&self, debt: KeyDebt, now_ns: u64) {
        let longest_ns = self.rate.depth_ns.saturating_add(self.rate.block_ns);
        let mut set = self.table.lock(debt.key);
        let bucket = self.table.find(&mut set, debt.key, now_ns);
        let full_at_ns = now_ns.saturating_add(debt.full_in_ns.min(longest_ns));
        let full_at_ns = if debt.is_blocked { full_at_ns | BLOCKED } else { full_at_ns & !BLOCKED };
        bucket.full_at_ns = bucket.full_at_ns.max(full_at_ns);
    }

    /// How many keys have a bucket that is not full.
    pub fn keys(&self, now_ns: u64) -> usize {
        self.table.keys(now_ns)
    }

    /// How many buckets there are.
    pub fn buckets(&self) -> usize {
        self.table.buckets()
    }

    /// How many buckets were replaced before they were full, since keys came that the table had no room for.
    pub fn evictions(&self) -> u64 {
        self.table.evictions()
    }

    /// What was used since the last time, for the other nodes; from now on it counts as told.
    pub fn take_untold(&self, now_ns: u64) -> Vec<KeyUse> {
        let Some(untold) = &self.untold else { return Vec::new() };
        let tell = |(key, of_key): (u64, super::sharing::Untold)| KeyUse {
            key,
            taken_ns: of_key.tokens.saturating_mul(self.rate.cost_ns.cast_signed()),
            owed_ns: 0,
            blocked_ns: if of_key.is_blocked { self.blocked_ns(key, now_ns) } else { 0 },
        };
        untold.take_all().into_iter().map(tell).filter(|it| it.taken_ns != 0 || it.blocked_ns > 0).collect()
    }

    /// Begins to keep what is used for other nodes; gives what keys owe now, which they are to be told first.
    pub fn begin_sharing(&self, now_ns: u64) -> Vec<KeyUse> {
        let Some(untold) = &self.untold else { return Vec::new() };
        untold.keep();
        let tell = |(key, _): (u64, u64)| {
            let mut set = self.table.lock(key);
            let full_at_ns = known(&mut set, key)?.full_at_ns;
            untold.forget(key);
            let owed_ns = full_at_ns.saturating_sub(now_ns);
            let is_blocked = full_at_ns & BLOCKED != 0;
            let (owed_ns, blocked_ns) = if is_blocked { (0, owed_ns) } else { (owed_ns, 0) };
            Some(KeyUse { key, taken_ns: 0, owed_ns, blocked_ns })
        };
        self.table.in_use(now_ns).into_iter().filter_map(tell).collect()
    }

    /// Keeps nothing for other nodes any more: there is no way to them.
    pub fn stop_sharing(&self) {
        if let Some(untold) = &self.untold {
            untold.stop();
        }
    }

    /// Forgets all keys, since from now on they have other hashes.
    pub fn forget_all(&self) {
        self.stop_sharing();
        self.table.clear();
    }

    /// Uses that other nodes do not learn of, since too many keys were used between two exchanges.
    pub fn untold_dropped(&self) -> u64 {
        self.untold.as_ref().map_or(0, UntoldUse::dropped)
    }

    /// Raises the debt of a key to what all nodes have used, as of `asked_ns`, and what was taken here since they were told.
    pub fn learn(&self, debt: SharedDebt, asked_ns: u64, now_ns: u64) {
        let Some(untold) = &self.untold else { return };
        let longest_ns = match debt.is_blocked {
            true => self.rate.blocked_max_ns(),
            false => self.rate.shared_debt_max_ns(),
        };
        let full_at_ns = asked_ns.saturating_add(debt.full_in_ns.min(longest_ns));
        if full_at_ns <= now_ns {
            return;
        }
        let mut set = self.table.lock(debt.key);
        let bucket = self.table.find(&mut set, debt.key, now_ns);
        let is_blocked = bucket.full_at_ns & BLOCKED != 0 && bucket.full_at_ns > now_ns;
        if debt.is_blocked {
            bucket.full_at_ns = bucket.full_at_ns.max(full_at_ns) | BLOCKED;
        } else if !is_blocked {
            let since = u64::try_from(untold.of(debt.key).tokens).unwrap_or(0);
            let full_at_ns = full_at_ns.saturating_add(since.saturating_mul(self.rate.cost_ns));
            bucket.full_at_ns = bucket.full_at_ns.max(full_at_ns) & !BLOCKED;
        }
    }

    /// Notes for other nodes that tokens were taken; the set of the key is locked.
    fn tell(&self, key: u64, tokens: i64) {
        if let Some(untold) = &self.untold {
            untold.change(key, |it| it.tokens = it.tokens.saturating_add(tokens));
        }
    }

    /// For how long a key is blocked.
    fn blocked_ns(&self, key: u64, now_ns: u64) -> u64 {
        let mut set = self.table.lock(key);
        let blocked = known(&mut set, key).filter(|bucket| bucket.full_at_ns & BLOCKED != 0);
        blocked.map_or(0, |bucket| bucket.full_at_ns.saturating_sub(now_ns))
    }

    /// Blocks a key whose bucket is empty, unless it is blocked; for how long.
    fn block(&self, key: u64, bucket: &mut TokenBucket, now_ns: u64) -> Option<u64> {
        if self.rate.block_ns == 0 || bucket.full_at_ns & BLOCKED != 0 {
            return None;
        }
        bucket.full_at_ns = (now_ns + self.rate.block_ns + self.rate.tolerance_ns()) | BLOCKED;
        if let Some(untold) = &self.untold {
            untold.change(key, |it| it.is_blocked = true);
        }
        Some(self.rate.block_ns)
    }
}
