//! The counters that a table may store, by the names that HAProxy has for them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The shortest and the longest period of a rate.
pub const RATE_PERIOD_MIN: Duration = Duration::from_millis(10);
/// The longest.
pub const RATE_PERIOD_MAX: Duration = Duration::from_secs(24 * 3600);

/// Declares the counters: variant, name, whether it is over a period, and meaning.
macro_rules! counters {
    ($($variant:ident $name:literal $is_rate:literal $meaning:literal,)+) => {
        /// A counter of an entry.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum TableCounter {
            $(#[doc = $meaning] $variant,)+
        }

        impl TableCounter {
            /// All of them, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Its name in the config.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Whether it counts over a sliding period.
            pub const fn is_rate(self) -> bool {
                match self { $(Self::$variant => $is_rate,)+ }
            }

            /// What it counts, in a sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)+ }
            }
        }
    };
}

counters! {
    ConnectionsNow "conn_cur" false "Tracked exchanges that are open now: requests and tunnels of HTTP, connections of TCP.",
    Connections "conn_cnt" false "Tracked exchanges.",
    ConnectionRate "conn_rate" true "Tracked exchanges in the period.",
    Requests "http_req_cnt" false "Requests of HTTP, refused ones included.",
    RequestRate "http_req_rate" true "Requests of HTTP in the period, refused ones included.",
    Errors "http_err_cnt" false "Requests with a status of 400 to 499, refusals of Weir included.",
    ErrorRate "http_err_rate" true "Requests with a status of 400 to 499 in the period, refusals of Weir included.",
    Failures "http_fail_cnt" false "Requests with a status of 500 to 599, but for 501 and 505.",
    FailureRate "http_fail_rate" true "Requests with a status of 500 to 599, but for 501 and 505, in the period.",
    BytesIn "bytes_in_cnt" false "Bytes from clients.",
    BytesInRate "bytes_in_rate" true "Bytes from clients in the period.",
    BytesOut "bytes_out_cnt" false "Bytes to clients.",
    BytesOutRate "bytes_out_rate" true "Bytes to clients in the period.",
    General0 "gpc0" false "General purpose counter, raised by `increment.gpc0`.",
    General0Rate "gpc0_rate" true "How much `gpc0` was raised in the period.",
    General1 "gpc1" false "General purpose counter, raised by `increment.gpc1`.",
    General1Rate "gpc1_rate" true "How much `gpc1` was raised in the period.",
}

impl TableCounter {
    /// The counter of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|counter| counter.name() == name)
    }

    /// A bit of its own.
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

const _: () = assert!(TableCounter::ALL.len() <= 32, "a set of counters has a bit for each");

/// A counter that a table stores, as the config declares it: `gpc0`, `http_req_rate(10s)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredCounter {
    /// Which one.
    pub counter: TableCounter,
    /// The period of a rate in milliseconds; 0 for all others.
    pub period_ms: u64,
}

impl StoredCounter {
    /// A counter over this period; rates have one, and no others.
    ///
    /// # Errors
    /// Why there is no such counter.
    pub fn new(counter: TableCounter, period: Option<Duration>) -> Result<Self, StoredCounterError> {
        let name = counter.name();
        match period {
            None if counter.is_rate() => Err(StoredCounterError::NoPeriod(name)),
            Some(_) if !counter.is_rate() => Err(StoredCounterError::Period(name)),
            Some(period) if !(RATE_PERIOD_MIN..=RATE_PERIOD_MAX).contains(&period) => {
                Err(StoredCounterError::PeriodRange)
            }
            period => Ok(Self {
                counter,
                period_ms: period.map_or(0, |period| u64::try_from(period.as_millis()).unwrap_or(u64::MAX)),
            }),
        }
    }
}

impl fmt::Display for StoredCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.counter.name();
        match self.period_ms {
            0 => f.write_str(name),
            ms if ms % 86_400_000 == 0 => write!(f, "{name}({}d)", ms / 86_400_000),
            ms if ms % 3_600_000 == 0 => write!(f, "{name}({}h)", ms / 3_600_000),
            ms if ms % 60_000 == 0 => write!(f, "{name}({}m)", ms / 60_000),
            ms if ms % 1_000 == 0 => write!(f, "{name}({}s)", ms / 1_000),
            ms => write!(f, "{name}({ms}ms)"),
        }
    }
}

/// Why a text names no counter that can be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredCounterError {
    /// There is no counter of this name.
    #[error("there is no counter `{0}`")]
    Unknown(Box<str>),
    /// A rate without a period.
    #[error("`{0}` counts over a period: write `{0}(10s)`")]
    NoPeriod(&'static str),
    /// Another counter with one.
    #[error("`{0}` counts over no period: write `{0}` alone")]
    Period(&'static str),
    /// A period that is none.
    #[error("the period is no duration such as `10s`, `1m` or `500ms`")]
    Duration,
    /// One that is too short or too long.
    #[error("a period is 10ms to 24h")]
    PeriodRange,
}

impl FromStr for StoredCounter {
    type Err = StoredCounterError;

    fn from_str(text: &str) -> Result<Self, StoredCounterError> {
        let (name, period) = match text.split_once('(') {
            None => (text, None),
            Some((name, rest)) => {
                let period = rest.strip_suffix(')').ok_or(StoredCounterError::Duration)?;
                (name, Some(period_from_text(period).ok_or(StoredCounterError::Duration)?))
            }
        };
        let counter =
            TableCounter::from_name(name).ok_or_else(|| StoredCounterError::Unknown(name.into()))?;
        Self::new(counter, period)
    }
}

/// A whole number with `ms`, `s`, `m`, `h` or `d`.
fn period_from_text(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.parse::<u64>().ok()?.checked_mul(unit_ms)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_written_as_in_haproxy() {
        for text in [
            "http_req_rate(10s)",
            "http_err_rate(500ms)",
            "gpc0",
            "conn_cur",
            "bytes_out_rate(1m)",
            "gpc1_rate(12h)",
            "conn_rate(1d)",
        ] {
            let stored: StoredCounter = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(stored.to_string(), text);
        }
        for (text, expected) in [
            ("http_req_rate", "`http_req_rate` counts over a period: write `http_req_rate(10s)`"),
            ("gpc0(10s)", "`gpc0` counts over no period: write `gpc0` alone"),
            ("http_reqs", "there is no counter `http_reqs`"),
            ("http_req_rate(10)", "the period is no duration such as `10s`, `1m` or `500ms`"),
            ("http_req_rate(10s", "the period is no duration such as `10s`, `1m` or `500ms`"),
            ("http_req_rate(1ms)", "a period is 10ms to 24h"),
            (
                "http_req_rate(99999999999999999999d)",
                "the period is no duration such as `10s`, `1m` or `500ms`",
            ),
        ] {
            assert_eq!(text.parse::<StoredCounter>().expect_err(text).to_string(), expected);
        }
    }
}
