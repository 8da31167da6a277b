//! How long a response is fresh, how old it is, and how long it may be used when it is stale.

use crate::directives::MessageTimes;
use crate::time::CacheTime;

/// What says how long a response is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum LifetimeSource {
    /// `CDN-Cache-Control`.
    Targeted,
    /// `s-maxage`.
    SMaxage,
    /// `max-age`.
    MaxAge,
    /// `Expires`.
    Expires,
    /// A rule of the operator.
    Rule,
    /// A part of the time since `Last-Modified` (RFC 9111 section 4.2.2).
    Heuristic,
    /// Nothing: it is stale at once.
    #[default]
    None,
    /// `X-Accel-Expires`.
    Accel,
}

impl LifetimeSource {
    /// In the order of their numbers, which files have.
    const ALL: [Self; 8] = [
        Self::Targeted,
        Self::SMaxage,
        Self::MaxAge,
        Self::Expires,
        Self::Rule,
        Self::Heuristic,
        Self::None,
        Self::Accel,
    ];

    /// The one with this number, as a file has it.
    pub(crate) fn from_index(index: u8) -> Option<Self> {
        Self::ALL.get(usize::from(index)).copied()
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Targeted => "cdn-cache-control",
            Self::SMaxage => "s-maxage",
            Self::MaxAge => "max-age",
            Self::Expires => "expires",
            Self::Rule => "rule",
            Self::Heuristic => "heuristic",
            Self::None => "none",
            Self::Accel => "x-accel-expires",
        }
    }
}

/// The times of a stored response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lifetime {
    /// When the response was received.
    pub received: CacheTime,
    /// How old it was then (RFC 9111 section 4.2.3), in milliseconds.
    pub initial_age_ms: u64,
    /// How long it is fresh, from age 0, in milliseconds.
    pub fresh_ms: u64,
    /// How long behind that it may be used while it is refreshed, in milliseconds.
    pub stale_while_revalidate_ms: u64,
    /// How long behind that it may be used in place of a failure, in milliseconds.
    pub stale_if_error_ms: u64,
    /// Never used when it is stale: `must-revalidate`, `proxy-revalidate`.
    pub must_revalidate: bool,
    /// Never used without asking the server: `no-cache`.
    pub no_cache: bool,
    /// What says how long it is fresh.
    pub source: LifetimeSource,
}

impl Lifetime {
    /// Whether a client may ask for it when it is stale: `s-maxage` forbids that, too (RFC 9111 section 5.2.2.10).
    pub(super) fn may_clients_want_stale(&self) -> bool {
        !self.must_revalidate && self.source != LifetimeSource::SMaxage
    }

    /// The age at `now`, in milliseconds.
    pub fn age_ms(&self, now: CacheTime) -> u64 {
        self.initial_age_ms.saturating_add(now.since(self.received))
    }

    /// The value of `Age` at `now`: seconds.
    pub fn age(&self, now: CacheTime) -> u64 {
        self.age_ms(now) / 1_000
    }

    /// Until when it is fresh.
    pub fn expires(&self) -> CacheTime {
        self.received.after(self.fresh_ms.saturating_sub(self.initial_age_ms))
    }

    /// Whether it is fresh at `now`.
    pub fn is_fresh(&self, now: CacheTime) -> bool {
        self.age_ms(now) < self.fresh_ms
    }

    /// How many seconds it is fresh from `now`, negative when it is stale.
    pub fn ttl(&self, now: CacheTime) -> i64 {
        let (fresh, age) = (self.fresh_ms, self.age_ms(now));
        let seconds = |millis: u64| i64::try_from(millis / 1_000).unwrap_or(i64::MAX);
        if age <= fresh { seconds(fresh - age) } else { -seconds((age - fresh).saturating_add(999)) }
    }

    /// For how long it has been stale at `now`, in milliseconds.
    pub fn stale_ms(&self, now: CacheTime) -> u64 {
        self.age_ms(now).saturating_sub(self.fresh_ms)
    }

    /// Whether it may be used at `now` in place of a failure of the server (RFC 5861 section 4), as the response and the operator have it.
    pub fn is_used_on_error(&self, now: CacheTime) -> bool {
        !self.must_revalidate && !self.no_cache && self.stale_ms(now) < self.stale_if_error_ms
    }

    /// Marks it stale at `now`: it is used again when the server confirms it.
    #[must_use]
    pub fn expired(self, now: CacheTime) -> Self {
        Self { fresh_ms: self.fresh_ms.min(self.age_ms(now)), ..self }
    }

    /// When it is of no use any more: it can neither be used stale nor, after `keep_ms` more, be confirmed.
    pub fn useless_from(&self, keep_ms: u64) -> CacheTime {
        let stale = self.stale_while_revalidate_ms.max(self.stale_if_error_ms).max(keep_ms);
        let fresh = self.fresh_ms.saturating_add(stale).saturating_sub(self.initial_age_ms);
        self.received.after(fresh)
    }
}

/// How old a response is when it is received (RFC 9111 section 4.2.3), in milliseconds.
pub(super) fn initial_age_ms(times: &MessageTimes, requested: CacheTime, received: CacheTime) -> u64 {
    let apparent = times.date.map_or(0, |date| received.seconds().saturating_sub(date)).saturating_mul(1_000);
    let corrected = times.age.saturating_mul(1_000).saturating_add(received.since(requested));
    // Dates have whole seconds, so that one second of apparent age may be none.
    if apparent <= 1_000 { corrected } else { apparent.max(corrected) }
}
