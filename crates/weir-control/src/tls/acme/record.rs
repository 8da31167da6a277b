//! What is remembered of a host and of an account, also over a restart and by all nodes: what has failed and when, so that no limit of an
//! authority is exceeded.

use serde::{Deserialize, Serialize};
use weir_http::WallTime;

use super::schedule::{
    ACCOUNTS_MAX, ACCOUNTS_TIME, IssuanceFailure, ORDERS_TIME, VALIDATIONS_MAX, VALIDATIONS_TIME,
    least_interval, next_allowed, on_demand_orders_max, retry_at, within_pause,
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
    /// When the last attempt began, in seconds since 1970.
    begun_at: u64,
    /// Whether that has not come to its end yet: stored before the authority is asked, so that no crash begins attempts without a pause.
    pub(super) is_open: bool,
}

impl HostRecord {
    /// Takes note of an attempt that begins.
    pub(super) fn note_begin(&mut self, now: WallTime) {
        (self.begun_at, self.is_open) = (now.seconds(), true);
    }

    /// The record without moments that only a clock that was wrong can have named.
    pub(super) fn believed(mut self, now: WallTime) -> Self {
        self.begun_at = self.begun_at.min(now.seconds());
        self.next_attempt = within_pause(self.due(), now).seconds();
        self
    }

    /// Makes the next attempt due at once, within the limit of failed validations.
    pub(super) fn try_again(&mut self, now: WallTime) {
        let mut moments = times(&self.validations_failed);
        let allowed = next_allowed(&mut moments, now, VALIDATIONS_MAX, VALIDATIONS_TIME);
        self.next_attempt = allowed.map_or(0, WallTime::seconds);
    }

    /// When the next order is allowed of a host whose certificate is valid between these moments.
    pub(super) fn next_order(&self, life: Option<[WallTime; 2]>) -> WallTime {
        WallTime::from_seconds(self.begun_at) + least_interval(life)
    }

    /// Takes note of an attempt that has failed; returns when the next one is due.
    pub(super) fn note_failure(
        &mut self,
        now: WallTime,
        why: IssuanceFailure,
        error: String,
        luck: f64,
    ) -> WallTime {
        self.failed = self.failed.saturating_add(1);
        self.is_open = false;
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
        self.validations_failed = moments.into_iter().map(WallTime::seconds).collect();
        self.next_attempt = next.seconds();
        next
    }

    /// Takes note of a certificate.
    pub(super) fn note_success(&mut self, ca: &str) {
        *self = Self { ca: Some(ca.to_owned()), begun_at: self.begun_at, ..Self::default() };
    }

    /// When the next attempt is due, after one that has failed.
    pub(super) fn due(&self) -> WallTime {
        WallTime::from_seconds(self.next_attempt)
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
        now: WallTime,
        orders_max: usize,
        is_on_demand: bool,
    ) -> Result<(), WallTime> {
        let (mut all, mut on_demand) = (times(&self.orders), times(&self.on_demand));
        let of_all = next_allowed(&mut all, now, orders_max, ORDERS_TIME);
        let of_share = next_allowed(&mut on_demand, now, on_demand_orders_max(orders_max), ORDERS_TIME);
        let allowed = of_all.max(of_share.filter(|_| is_on_demand));
        if allowed.is_none() {
            all.push(now);
            on_demand.extend(is_on_demand.then_some(now));
        }
        self.orders = all.into_iter().map(WallTime::seconds).collect();
        self.on_demand = on_demand.into_iter().map(WallTime::seconds).collect();
        allowed.map_or(Ok(()), Err)
    }
}

/// The accounts at an authority, of which it may say again and again that it does not know them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AccountLog {
    /// When they were made lately.
    made: Vec<u64>,
}

impl AccountLog {
    /// Takes note of an account that was made.
    pub(super) fn note(&mut self, now: WallTime) {
        let _allowed = self.next_allowed(now);
        self.made.push(now.seconds());
    }

    /// When another one may be made, if not now.
    pub(super) fn next_allowed(&mut self, now: WallTime) -> Option<WallTime> {
        let mut made = times(&self.made);
        let allowed = next_allowed(&mut made, now, ACCOUNTS_MAX, ACCOUNTS_TIME);
        self.made = made.into_iter().map(WallTime::seconds).collect();
        allowed
    }
}

fn times(seconds: &[u64]) -> Vec<WallTime> {
    seconds.iter().map(|at| WallTime::from_seconds(*at)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> WallTime {
        WallTime::from_seconds(seconds)
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
            let time = window[VALIDATIONS_MAX] - window[0];
            assert!(time >= VALIDATIONS_TIME - Duration::from_secs(1), "{time:?}");
        }
        assert_eq!(record.due(), now);
        record.note_success("https://ca");
        let expected = HostRecord { ca: Some("https://ca".to_owned()), begun_at: 0, ..HostRecord::default() };
        assert_eq!(record, expected);
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
    fn an_attempt_without_an_end_is_seen_as_one() {
        let mut record = HostRecord::default();
        record.note_begin(at(1_000));
        assert!(record.is_open);
        record.note_failure(at(1_001), IssuanceFailure::Refused, "no".to_owned(), 0.5);
        assert!(!record.is_open);
        record.note_begin(at(2_000));
        record.note_success("https://ca");
        assert!(!record.is_open);
        assert_eq!(record.next_order(None), at(2_010), "a success is an order, too");
        let life = Some([at(2_000), at(2_000 + 90 * 86_400)]);
        assert_eq!(record.next_order(life), at(2_000 + 3_600));
    }

    #[test]
    fn a_start_is_within_the_limits() {
        let mut record = HostRecord::default();
        let mut now = at(1_000_000);
        for _ in 0..VALIDATIONS_MAX {
            record.try_again(now);
            assert!(record.due() <= now);
            record.note_failure(now, IssuanceFailure::Refused, "no".to_owned(), 0.5);
            now = now + Duration::from_secs(1);
        }
        record.try_again(now);
        assert_eq!(record.due(), at(1_000_000) + VALIDATIONS_TIME, "the fifth one waits for its hour");
    }

    #[test]
    fn numbers_of_another_clock_hold_up_nothing() {
        let now = at(1_000_000);
        for number in [0, 1, 999_999, 1_000_000, 1_000_001, 1 << 53, i64::MAX as u64, u64::MAX] {
            let text = format!(
                r#"{{"failed": 4294967295, "refused": 4294967295, "unreached": 4294967295, "next_attempt": {number},
                "validations_failed": [{number}, {number}, {number}, {number}], "begun_at": {number}, "is_open": true}}"#
            );
            let mut record = serde_json::from_str::<HostRecord>(&text).unwrap().believed(now);
            let day = Duration::from_secs(86_400 + 3_600);
            assert!(record.due() <= now + day, "{number}");
            assert!(
                record.next_order(None) <= now + day
                    && record.next_order(Some([at(0), at(number)])) <= now + day
            );
            record.note_failure(now, IssuanceFailure::Unreached, "no".to_owned(), 0.999);
            assert!(record.due() <= now + day);
            record.try_again(now);
            assert!(record.due() <= now + day);
            let log = format!(r#"{{"orders": [{number}, {number}], "on_demand": [{number}]}}"#);
            let mut log: OrderLog = serde_json::from_str(&log).unwrap();
            assert!(log.begin(now, 2, true).is_ok_and(|()| true) || number.abs_diff(1_000_000) < 2);
        }
    }

    #[test]
    fn records_of_other_versions_can_be_read() {
        let read: HostRecord = serde_json::from_str(r#"{"failed": 3, "novelty": true}"#).unwrap();
        assert_eq!(read, HostRecord { failed: 3, ..HostRecord::default() });
    }
}
