//! What is remembered of a host and of an account, also over a restart and by all nodes: what has failed and when, so that no limit of an
//! authority is exceeded.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::schedule::{
    IssuanceFailure, ORDERS_MAX, ORDERS_TIME, VALIDATIONS_MAX, VALIDATIONS_TIME, next_allowed, retry_at,
};

/// Of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct HostRecord {
    /// The authority of the certificate, or that was asked last.
    pub(super) ca: Option<String>,
    /// Attempts that have failed since the last one that has not.
    pub(super) failed: u32,
    /// Those among them that the authority has refused: each further one waits longer, and proves the host in another way.
    pub(super) refused: u32,
    /// Those since the authority was last reached.
    unreached: u32,
    /// Why the last one has failed.
    pub(super) last_error: Option<String>,
    /// When the next one is due, in seconds since 1970.
    pub(super) next_attempt: u64,
    /// When validations have failed.
    validations_failed: Vec<u64>,
}

impl HostRecord {
    /// Takes note of an attempt that has failed; returns when the next one is due.
    pub(super) fn note_failure(
        &mut self,
        now: SystemTime,
        why: IssuanceFailure,
        error: String,
        luck: f64,
    ) -> SystemTime {
        self.failed = self.failed.saturating_add(1);
        self.last_error = Some(error);
        let mut moments = times(&self.validations_failed);
        let in_row = if why == IssuanceFailure::Unreached {
            self.unreached = self.unreached.saturating_add(1);
            self.unreached
        } else {
            self.unreached = 0;
            self.refused = self.refused.saturating_add(1);
            self.refused
        };
        if why == IssuanceFailure::Refused {
            moments.push(now);
        }
        let allowed = next_allowed(&mut moments, now, VALIDATIONS_MAX, VALIDATIONS_TIME);
        let next = retry_at(now, in_row, why, luck).max(allowed.unwrap_or(now));
        self.validations_failed = moments.into_iter().map(to_seconds).collect();
        self.next_attempt = to_seconds(next);
        next
    }

    /// Takes note of a certificate.
    pub(super) fn note_success(&mut self, ca: &str) {
        *self = Self { ca: Some(ca.to_owned()), ..Self::default() };
    }

    /// When the next attempt is due, after one that has failed.
    pub(super) fn due(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.next_attempt)
    }
}

/// Of an account at an authority.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct OrderLog {
    /// When orders were begun.
    orders: Vec<u64>,
}

impl OrderLog {
    /// Takes note of an order.
    ///
    /// # Errors
    /// When there have been too many: when the next one is allowed.
    pub(super) fn begin(&mut self, now: SystemTime) -> Result<(), SystemTime> {
        let mut moments = times(&self.orders);
        let allowed = next_allowed(&mut moments, now, ORDERS_MAX, ORDERS_TIME);
        if allowed.is_none() {
            moments.push(now);
        }
        self.orders = moments.into_iter().map(to_seconds).collect();
        allowed.map_or(Ok(()), Err)
    }
}

fn times(seconds: &[u64]) -> Vec<SystemTime> {
    seconds.iter().map(|at| UNIX_EPOCH + Duration::from_secs(*at)).collect()
}

fn to_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_fifth_validation_of_an_hour_waits() {
        let mut record = HostRecord::default();
        let mut now = at(1_000_000);
        let mut begun = vec![now];
        for _ in 0..20 {
            now = record.note_failure(now, IssuanceFailure::Refused, "no".to_owned(), 0.5);
            begun.push(now);
        }
        for window in begun.windows(VALIDATIONS_MAX + 1) {
            let time = window[VALIDATIONS_MAX].duration_since(window[0]).unwrap();
            assert!(time >= VALIDATIONS_TIME - Duration::from_secs(1), "{time:?}");
        }
        assert_eq!(record.due(), now);
        record.note_success("https://ca");
        assert_eq!(record, HostRecord { ca: Some("https://ca".to_owned()), ..HostRecord::default() });
    }

    #[test]
    fn an_authority_that_is_away_is_asked_soon_and_counts_against_nothing() {
        let mut record = HostRecord::default();
        let next = record.note_failure(at(100), IssuanceFailure::Unreached, "away".to_owned(), 0.5);
        assert_eq!(next, at(102));
        assert_eq!(record.validations_failed, Vec::<u64>::new());
        // And what it says when it is back is answered as the first of its kind.
        let next = record.note_failure(at(200), IssuanceFailure::Refused, "no".to_owned(), 0.5);
        assert_eq!((next, record.failed, record.refused), (at(260), 2, 1));
    }

    #[test]
    fn orders_have_a_limit() {
        let mut log = OrderLog::default();
        for order in 0..ORDERS_MAX as u64 {
            assert_eq!(log.begin(at(1000 + order)), Ok(()));
        }
        assert_eq!(log.begin(at(2000)), Err(at(1000) + ORDERS_TIME));
        assert_eq!(log.begin(at(1000) + ORDERS_TIME), Ok(()));
    }

    #[test]
    fn records_of_other_versions_can_be_read() {
        let read: HostRecord = serde_json::from_str(r#"{"failed": 3, "novelty": true}"#).unwrap();
        assert_eq!(read, HostRecord { failed: 3, ..HostRecord::default() });
    }
}
