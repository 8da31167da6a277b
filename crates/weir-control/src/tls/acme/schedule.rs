//! When certificates are renewed, and when what has failed is tried again. Pure: the time is given.

use std::time::Duration;

use weir_http::WallTime;

/// The share of its life time after which a certificate is renewed where the authority suggests nothing.
const RENEWED_AFTER: f64 = 2.0 / 3.0;

/// The share of its life time by which that is earlier at most, so that certificates of one day are not renewed in one minute.
const SPREAD: f64 = 1.0 / 30.0;

/// The first pause after a validation that has failed; it doubles with each further one.
const VALIDATION_FIRST: Duration = Duration::from_secs(60);
const VALIDATION_MAX: Duration = Duration::from_secs(6 * 3600);

/// The same where the authority could not be reached, or has had a fault of its own: nothing counts against a limit then.
const UNREACHED_FIRST: Duration = Duration::from_secs(2);
const UNREACHED_MAX: Duration = Duration::from_secs(600);

/// Failed validations of a host within an hour, after which none is begun. Let's Encrypt allows 5.
pub(super) const VALIDATIONS_MAX: usize = 4;
pub(super) const VALIDATIONS_TIME: Duration = Duration::from_secs(3600);

/// The time in which `orders_max` of an account are begun at most. Let's Encrypt allows 300 in that time.
pub(super) const ORDERS_TIME: Duration = Duration::from_secs(3 * 3600);

/// How many accounts may have been made at an authority within an hour when it says that it does not know the last one. Let's Encrypt allows 10 in
/// three hours for an address.
pub(super) const ACCOUNTS_MAX: usize = 3;
pub(super) const ACCOUNTS_TIME: Duration = Duration::from_secs(3600);

/// The share of `orders_max` that hosts on demand may use, in fifths.
const ON_DEMAND_FIFTHS: usize = 3;

/// How many orders of hosts on demand are begun where `orders_max` are in all: clients who invent names leave the rest to the config.
pub(super) const fn on_demand_orders_max(orders_max: usize) -> usize {
    orders_max * ON_DEMAND_FIFTHS / 5
}

/// The longest time that an authority may ask to be left alone: an attempt a day is no burden to any.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// The longest pause of all, by a little more than the part that varies: a record that names a later moment is of a clock that was wrong.
const PAUSE_MAX: Duration = Duration::from_secs(86_400 + 3_600);

/// The time between two orders of a host, whatever the reason: a fourth of the life time of its certificate, within these.
const LEAST_INTERVAL_MIN: Duration = Duration::from_secs(10);
const LEAST_INTERVAL_MAX: Duration = Duration::from_secs(3600);
const LEAST_INTERVAL_PART: u32 = 4;

/// How often the authority is asked about the renewal of a certificate, whatever it says itself (RFC 9773 section 4.3.2).
const RENEWAL_INFO_MIN: Duration = Duration::from_secs(60);
const RENEWAL_INFO_MAX: Duration = Duration::from_secs(24 * 3600);

/// The share of its life time that a certificate is kept in any case, even if the authority suggests to renew it at once.
const KEPT_AT_LEAST: u32 = 20;

/// The share that is left when it is renewed at the latest: a first attempt may fail.
const LEFT_AT_LEAST: u32 = 10;

/// The part of its life time that a certificate has left when the log begins to warn, once a day.
const WARNED_PART: u32 = 6;

/// The part of its life time by which a renewal is overdue, even if nothing has failed.
const OVERDUE_PART: u32 = 50;

/// What has failed, as far as the next attempt depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IssuanceFailure {
    /// The authority was not reached, or has had a fault.
    Unreached,
    /// The authority has refused the order or could not validate the host.
    Refused,
    /// The authority wants to be left alone, until then if it says so.
    Limited(Option<WallTime>),
}

/// When a certificate is renewed that is valid between these moments; `luck` is between 0 and 1.
pub(super) fn renewal_at(not_before: WallTime, not_after: WallTime, luck: f64) -> WallTime {
    let life = not_after - not_before;
    not_before + life.mul_f64(RENEWED_AFTER - SPREAD * luck)
}

/// A moment in the window that the authority suggests, each as likely as any other (RFC 9773 section 4.2); never before a twentieth of the
/// life time has passed, and never when less than a tenth of it is left.
pub(super) fn suggested_at(
    window: [WallTime; 2],
    [not_before, not_after]: [WallTime; 2],
    luck: f64,
) -> WallTime {
    let [start, end] = window;
    let chosen = start + (end - start).mul_f64(luck);
    let life = not_after - not_before;
    chosen.max(not_before + life / KEPT_AT_LEAST).min(not_before + life - life / LEFT_AT_LEAST)
}

/// Why the log warns of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpiryAlarm {
    /// It has expired.
    Expired,
    /// It expires soon, and was to be renewed by now.
    Late,
}

/// Whether the log has to warn of a certificate that is valid between these moments and was to be renewed at `renewal`, since when as many attempts have
/// `failed`. One that is renewed late since its authority wants it so is no reason for a warning.
pub(super) fn expiry_alarm(
    [not_before, not_after]: [WallTime; 2],
    renewal: WallTime,
    failed: u32,
    now: WallTime,
) -> Option<ExpiryAlarm> {
    let life = not_after - not_before;
    let left = not_after - now;
    if left.is_zero() {
        return Some(ExpiryAlarm::Expired);
    }
    // An order takes a while, and may wait for others.
    let is_overdue = now >= renewal + life / OVERDUE_PART;
    (left <= life / WARNED_PART && (failed > 0 || is_overdue)).then_some(ExpiryAlarm::Late)
}

/// How long after an order of a host the next one comes at the earliest, if it has a certificate that is valid between these moments: one
/// that was issued late in its life time, or has a suggestion to be renewed at once, is not ordered again and again.
pub(super) fn least_interval(life: Option<[WallTime; 2]>) -> Duration {
    let life = life.map(|[not_before, not_after]| not_after - not_before).unwrap_or_default();
    (life / LEAST_INTERVAL_PART).clamp(LEAST_INTERVAL_MIN, LEAST_INTERVAL_MAX)
}

/// A stored moment of an attempt to come, unless it is later than any pause leads to.
pub(super) fn within_pause(at: WallTime, now: WallTime) -> WallTime {
    at.min(now + PAUSE_MAX)
}

/// How long until the authority is asked again for its suggestion.
pub(super) fn renewal_info_pause(suggested: Duration) -> Duration {
    suggested.clamp(RENEWAL_INFO_MIN, RENEWAL_INFO_MAX)
}

/// When the next attempt is due after `failed` in a row, the last of which is `last`.
pub(super) fn retry_at(now: WallTime, failed: u32, last: IssuanceFailure, luck: f64) -> WallTime {
    let doubled = |first: Duration, max: Duration| {
        let pause = first.saturating_mul(1 << failed.saturating_sub(1).min(20)).min(max);
        now + pause.mul_f64(0.75 + 0.5 * luck)
    };
    match last {
        IssuanceFailure::Unreached => doubled(UNREACHED_FIRST, UNREACHED_MAX),
        IssuanceFailure::Refused => doubled(VALIDATION_FIRST, VALIDATION_MAX),
        IssuanceFailure::Limited(until) => {
            let usual = doubled(VALIDATION_FIRST, VALIDATION_MAX);
            // Not all nodes in the same second.
            let until = until.map(|until| until.clamp(now, now + RETRY_AFTER_MAX));
            until.map_or(usual, |until| until + Duration::from_secs(30).mul_f64(luck))
        }
    }
}

/// Forgets moments that count no more; when the next is allowed of `max` in `time`, if it is not now.
pub(super) fn next_allowed(
    moments: &mut Vec<WallTime>,
    now: WallTime,
    max: usize,
    time: Duration,
) -> Option<WallTime> {
    // One from the future is of a clock that was wrong.
    moments.retain(|at| now.checked_since(*at).is_some_and(|age| age < time));
    moments.sort();
    let over = moments.len().checked_sub(max)?;
    Some(moments[over] + time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn at(seconds: u64) -> WallTime {
        WallTime::from_seconds(seconds)
    }

    fn seconds(time: WallTime) -> u64 {
        time.seconds()
    }

    #[test]
    fn certificates_are_renewed_after_two_thirds_of_their_time() {
        for (life, luck, expected) in [
            (90 * DAY, 0.0, 60 * DAY),
            (90 * DAY, 1.0, 57 * DAY),
            (6 * DAY, 0.0, 4 * DAY),
            (60, 0.0, 40),
            (60, 0.5, 39),
        ] {
            let renewed = seconds(renewal_at(at(1000), at(1000 + life), luck)) - 1000;
            assert!(renewed.abs_diff(expected) <= 1, "{life} {luck}: {renewed}");
        }
        // Turned round, as no certificate should be: at once.
        assert_eq!(renewal_at(at(1000), at(10), 0.5), at(1000));
    }

    #[test]
    fn a_late_window_of_the_authority_is_no_alarm() {
        let life = [at(0), at(1_000)];
        for (renewal, failed, now, expected) in [
            // Renewed at nine tenths, as the authority wants: the last sixth alone is no reason.
            (900, 0, 840, None),
            (900, 0, 919, None),
            (900, 0, 920, Some(ExpiryAlarm::Late)),
            (900, 1, 901, Some(ExpiryAlarm::Late)),
            (660, 0, 833, None),
            (660, 0, 834, Some(ExpiryAlarm::Late)),
            (660, 3, 700, None),
            (900, 0, 1_000, Some(ExpiryAlarm::Expired)),
            (2_000, 0, 1_001, Some(ExpiryAlarm::Expired)),
        ] {
            assert_eq!(
                expiry_alarm(life, at(renewal), failed, at(now)),
                expected,
                "{renewal} {failed} {now}"
            );
        }
    }

    #[test]
    fn a_suggested_window_is_used_evenly_and_never_too_early() {
        let life = [at(0), at(1000)];
        for (window, luck, expected) in [
            ([at(600), at(700)], 0.0, 600),
            ([at(600), at(700)], 1.0, 700),
            ([at(600), at(700)], 0.25, 625),
            // The past: at once, but the certificate has to be of some age.
            ([at(0), at(1)], 0.9, 50),
            ([at(700), at(600)], 0.5, 700),
            ([at(0), at(1000)], 0.99, 900),
        ] {
            assert_eq!(suggested_at(window, life, luck), at(expected), "{window:?} {luck}");
        }
        for (pause, expected) in [(0, 60), (21_600, 21_600), (1_000_000, DAY)] {
            assert_eq!(renewal_info_pause(Duration::from_secs(pause)), Duration::from_secs(expected));
        }
    }

    #[test]
    fn pauses_double_up_to_a_limit() {
        let now = at(1_000_000);
        for (last, failed, expected) in [
            (IssuanceFailure::Unreached, 1, 2),
            (IssuanceFailure::Unreached, 4, 16),
            (IssuanceFailure::Unreached, 30, 600),
            (IssuanceFailure::Refused, 1, 60),
            (IssuanceFailure::Refused, 2, 120),
            (IssuanceFailure::Refused, u32::MAX, 21_600),
            (IssuanceFailure::Limited(None), 3, 240),
            (IssuanceFailure::Limited(Some(at(1_000_500))), 1, 515),
            (IssuanceFailure::Limited(Some(at(5))), 1, 15),
            (IssuanceFailure::Limited(Some(WallTime::LATEST)), 1, DAY + 15),
        ] {
            let pause = seconds(retry_at(now, failed, last, 0.5)) - 1_000_000;
            assert_eq!(pause, expected, "{last:?} {failed}");
        }
        let [early, late] = [0.0, 1.0].map(|luck| retry_at(now, 1, IssuanceFailure::Refused, luck));
        assert_eq!([seconds(early), seconds(late)], [1_000_045, 1_000_075]);
    }

    #[test]
    fn orders_of_a_host_keep_their_distance() {
        for (life, expected) in [
            (None, 10),
            (Some([at(1000), at(1000)]), 10),
            (Some([at(1000), at(10)]), 10),
            (Some([at(1000), at(1060)]), 15),
            (Some([at(0), at(90 * DAY)]), 3600),
            (Some([WallTime::EPOCH, WallTime::LATEST]), 3600),
        ] {
            assert_eq!(least_interval(life), Duration::from_secs(expected), "{life:?}");
        }
    }

    /// Moments that an authority, a certificate or a file of another clock may name.
    const EXTREMES: [u64; 12] = [
        0,
        1,
        999_999,
        1_000_000,
        1_000_001,
        1_000_000 + 90 * DAY,
        1 << 31,
        1 << 53,
        253_402_300_799,
        292_277_026_596,
        i64::MAX as u64,
        u64::MAX,
    ];

    #[test]
    fn no_moment_from_outside_is_too_extreme() {
        let now = at(1_000_000);
        let moments = EXTREMES.map(at);
        let mut cases = 0;
        for [a, b] in moments.into_iter().flat_map(|a| moments.map(|b| [a, b])) {
            let interval = least_interval(Some([a, b]));
            assert!(interval >= LEAST_INTERVAL_MIN && interval <= LEAST_INTERVAL_MAX);
            for luck in [0.0, 0.5, 0.999_999] {
                assert!(renewal_at(a, b, luck) >= a);
                for end in moments {
                    let life = [a, a.max(b)];
                    let at = suggested_at([b, end], life, luck);
                    assert!(life[0] <= at && at <= life[1], "{life:?} {b:?} {end:?}");
                    cases += 1;
                }
            }
            let _alarm = expiry_alarm([a, b], b, 1, now);
            for failed in [0, 1, 40, u32::MAX] {
                let next = retry_at(now, failed, IssuanceFailure::Limited(Some(a)), 0.999);
                assert!(next >= now && next <= now + PAUSE_MAX);
            }
            assert!(within_pause(a, now) <= now + PAUSE_MAX);
            let mut begun = vec![a, b];
            assert!(next_allowed(&mut begun, now, 1, ORDERS_TIME).is_none_or(|next| next > now));
        }
        assert!(cases > 2_157, "{cases}");
    }

    #[test]
    fn limits_hold_in_every_window() {
        let hour = Duration::from_secs(3600);
        let mut failed = Vec::new();
        let mut tried = Vec::new();
        // Attempts as often as allowed never exceed it.
        for minute in 0..600 {
            let now = at(minute * 60);
            if next_allowed(&mut failed, now, VALIDATIONS_MAX, hour).is_none() {
                failed.push(now);
                tried.push(now);
            }
        }
        for start in &tried {
            let in_hour = tried.iter().filter(|at| **at >= *start && **at < *start + hour).count();
            assert!(in_hour <= VALIDATIONS_MAX, "{in_hour}");
        }
        assert!(tried.len() >= 36, "{}", tried.len());
        let mut moments = vec![at(10), at(20), at(30), at(40)];
        assert_eq!(next_allowed(&mut moments, at(50), 4, hour), Some(at(3610)));
        assert_eq!(next_allowed(&mut moments, at(3610), 4, hour), None);
        // A clock that was ahead does not lock anything for ever.
        let mut moments = vec![at(9_000_000); 9];
        assert_eq!(next_allowed(&mut moments, at(50), 4, hour), None);
    }
}
