//! What is remembered of a host and of an account, also over a restart and by all nodes: what has failed and when, so that no limit of an
//! authority is exceeded.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::schedule::{
    IssuanceFailure, ORDERS_TIME, VALIDATIONS_MAX, VALIDATIONS_TIME, next_allowed, on_demand_orders_max,
    retry_at,
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
    /// Those among them for hosts on demand.
    on_demand: Vec<u64>,
}

impl OrderLog {
    /// Takes note of an order, of which there may be `orders_max`.
    ///
    /// # Errors
    /// When there have been too many: when the next one is allowed.
    pub(super) fn begin(
        &mut self,
        now: SystemTime,
        orders_max: usize,
        is_on_demand: bool,
    ) -> Result<(), SystemTime> {
        let (mut all, mut on_demand) = (times(&self.orders), times(&self.on_demand));
        let of_all = next_allowed(&mut all, now, orders_max, ORDERS_TIME);
        let of_share = next_allowed(&mut on_demand, now, on_demand_orders_max(orders_max), ORDERS_TIME);
        let allowed = of_all.max(of_share.filter(|_| is_on_demand));
        if allowed.is_none() {
            all.push(now);
            on_demand.extend(is_on_demand.then_some(now));
        }
        self.orders = all.into_iter().map(to_seconds).collect();
        self.on_demand = on_demand.into_iter().map(to_seconds).collect();
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
        for order in 0..250 {
            assert_eq!(log.begin(at(1000 + order), 250, false), Ok(()));
        }
        assert_eq!(log.begin(at(2000), 250, false), Err(at(1000) + ORDERS_TIME));
        assert_eq!(log.begin(at(1000) + ORDERS_TIME, 250, false), Ok(()));
    }

    #[test]
    fn hosts_on_demand_leave_a_part_of_the_orders_to_the_config() {
        let mut log = OrderLog::default();
        for order in 0..150 {
            assert_eq!(log.begin(at(1000 + order), 250, true), Ok(()));
        }
        assert_eq!(log.begin(at(2000), 250, true), Err(at(1000) + ORDERS_TIME));
        for order in 0..100 {
            assert_eq!(log.begin(at(2000 + order), 250, false), Ok(()), "{order}");
        }
        assert_eq!(log.begin(at(3000), 250, false), Err(at(1000) + ORDERS_TIME));
        // What hosts of the config have used, those on demand cannot.
        let mut log = OrderLog::default();
        for order in 0..250 {
            assert_eq!(log.begin(at(1000 + order), 250, false), Ok(()));
        }
        assert_eq!(log.begin(at(2000), 250, true), Err(at(1000) + ORDERS_TIME));
    }

    #[test]
    fn records_of_other_versions_can_be_read() {
        let read: HostRecord = serde_json::from_str(r#"{"failed": 3, "novelty": true}"#).unwrap();
        assert_eq!(read, HostRecord { failed: 3, ..HostRecord::default() });
    }
}
