//! Servers that do clearly worse than the others: error rates and latencies of the servers of an upstream, compared.
//!
//! Each server is measured by the median of the others, so that trouble behind all of them (a database that is down, a
//! slow hour) is not blamed on one server. Must not know which servers may be ejected.

use weir_sort::CompactSort as _;

use super::rules::{EjectionReason, LatencyRule, OutlierRules};

/// The requests of one server in one window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OutlierWindow {
    /// Requests that it was given.
    pub requests: u64,
    /// Requests that failed by its doing.
    pub failures: u64,
    /// The median time to the head of its responses, in microseconds; `None` when it answered none.
    pub latency_micros: Option<u64>,
}

impl OutlierWindow {
    fn error_percent(&self) -> u32 {
        // Requests that fail now may have begun in the window before.
        let requests = self.requests.max(self.failures).max(1);
        u32::try_from(self.failures.saturating_mul(100) / requests).unwrap_or(100)
    }
}

/// The servers that do worse than the rules allow, the worst first; `windows` holds `None` for servers that are not to be
/// judged, nor to be compared with.
pub(super) fn outliers(
    rules: &OutlierRules,
    windows: &[Option<OutlierWindow>],
) -> Vec<(usize, EjectionReason)> {
    let judged: Vec<(usize, OutlierWindow)> = windows
        .iter()
        .enumerate()
        .filter_map(|(index, window)| Some((index, (*window)?)))
        .filter(|(_, window)| window.requests.max(window.failures) >= rules.requests_min.max(1))
        .collect();
    let mut found = by_error_rate(rules, &judged);
    for slow in by_latency(rules, &judged) {
        if !found.iter().any(|(index, _)| *index == slow.0) {
            found.push(slow);
        }
    }
    found
}

fn by_error_rate(rules: &OutlierRules, judged: &[(usize, OutlierWindow)]) -> Vec<(usize, EjectionReason)> {
    let Some(above) = rules.error_rate_percent else { return Vec::new() };
    let rates: Vec<(usize, u64)> =
        judged.iter().map(|(index, window)| (*index, u64::from(window.error_percent()))).collect();
    let mut found: Vec<(u64, usize, EjectionReason)> = with_median_of_others(&rates)
        .filter(|(_, rate, others)| *rate > 0 && *rate >= others + u64::from(above))
        .map(|(index, rate, others)| {
            let grounds = EjectionReason::ErrorRate { percent: rate as u32, others_percent: others as u32 };
            (rate - others, index, grounds)
        })
        .collect();
    worst_first(&mut found)
}

fn by_latency(rules: &OutlierRules, judged: &[(usize, OutlierWindow)]) -> Vec<(usize, EjectionReason)> {
    let Some(rule) = rules.latency else { return Vec::new() };
    let latencies: Vec<(usize, u64)> =
        judged.iter().filter_map(|(index, window)| Some((*index, window.latency_micros?))).collect();
    let mut found: Vec<(u64, usize, EjectionReason)> = with_median_of_others(&latencies)
        .filter(|(_, micros, others)| is_too_slow(rule, *micros, *others))
        .map(|(index, micros, others)| {
            (micros - others, index, EjectionReason::Latency { micros, others_micros: others })
        })
        .collect();
    worst_first(&mut found)
}

fn is_too_slow(rule: LatencyRule, micros: u64, others: u64) -> bool {
    let difference_min = u64::try_from(rule.difference_min.as_micros()).unwrap_or(u64::MAX);
    micros > others.saturating_mul(u64::from(rule.factor)) && micros.saturating_sub(others) >= difference_min
}

/// Each with the median of the others: nothing when there are none. The larger of two in the middle, which is the milder
/// judgement.
fn with_median_of_others(values: &[(usize, u64)]) -> impl Iterator<Item = (usize, u64, u64)> {
    let mut sorted: Vec<u64> = values.iter().map(|(_, value)| *value).collect();
    sorted.sort_unstable();
    let middle = sorted.len().saturating_sub(1) / 2;
    values.iter().filter(|_| values.len() > 1).map(move |(index, value)| {
        let own = sorted.partition_point(|other| other < value);
        (*index, *value, sorted[if own <= middle { middle + 1 } else { middle }])
    })
}

fn worst_first(found: &mut [(u64, usize, EjectionReason)]) -> Vec<(usize, EjectionReason)> {
    found.sort_compact_by_key(|(excess, ..)| std::cmp::Reverse(*excess));
    found.iter().map(|(_, index, grounds)| (*index, *grounds)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MILLI: u64 = 1000;

    fn rules() -> OutlierRules {
        OutlierRules {
            consecutive_failures: None,
            error_rate_percent: Some(50),
            latency: Some(LatencyRule { factor: 3, difference_min: Duration::from_millis(100) }),
            requests_min: 10,
            base_time: Duration::from_secs(10),
            max_time: Duration::from_secs(60),
            servers_max_percent: 50,
        }
    }

    fn found(windows: &[(u64, u64, u64)]) -> Vec<usize> {
        let windows: Vec<Option<OutlierWindow>> = windows
            .iter()
            .map(|&(requests, failures, millis)| {
                Some(OutlierWindow {
                    requests,
                    failures,
                    latency_micros: (millis > 0).then_some(millis * MILLI),
                })
            })
            .collect();
        outliers(&rules(), &windows).into_iter().map(|(index, _)| index).collect()
    }

    #[test]
    fn those_that_fail_more_than_the_others() {
        for (windows, worst) in [
            (vec![(100, 50, 1), (100, 0, 1), (100, 0, 1)], vec![0]),
            (vec![(100, 49, 1), (100, 0, 1), (100, 0, 1)], vec![]),
            // Trouble behind all of them.
            (vec![(100, 90, 1), (100, 80, 1), (100, 100, 1)], vec![]),
            (vec![(100, 100, 1), (100, 40, 1), (100, 45, 1)], vec![0]),
            // Too few requests to say, of the server or of all others.
            (vec![(9, 9, 1), (100, 0, 1)], vec![]),
            (vec![(100, 100, 1), (9, 0, 1)], vec![]),
            (vec![(100, 100, 1)], vec![]),
            // Failures of requests that began in the window before.
            (vec![(0, 10, 0), (100, 0, 1)], vec![0]),
            // The worst first.
            (vec![(100, 60, 1), (100, 0, 1), (100, 80, 1), (100, 0, 1), (100, 0, 1)], vec![2, 0]),
        ] {
            assert_eq!(found(&windows), worst, "{windows:?}");
        }
    }

    #[test]
    fn those_that_are_slower_than_the_others() {
        for (windows, worst) in [
            (vec![(100, 0, 301), (100, 0, 100), (100, 0, 100)], vec![0]),
            (vec![(100, 0, 300), (100, 0, 100), (100, 0, 100)], vec![]),
            // Many times slower, but below a difference that matters.
            (vec![(100, 0, 100), (100, 0, 1), (100, 0, 1)], vec![]),
            (vec![(100, 0, 101), (100, 0, 1), (100, 0, 1)], vec![0]),
            // All are slow.
            (vec![(100, 0, 900), (100, 0, 1000), (100, 0, 800)], vec![]),
            // The larger of two in the middle.
            (vec![(100, 0, 400), (100, 0, 100), (100, 0, 200)], vec![]),
            // A server without responses has no latency.
            (vec![(100, 0, 0), (100, 0, 100)], vec![]),
        ] {
            assert_eq!(found(&windows), worst, "{windows:?}");
        }
    }

    #[test]
    fn each_is_found_once_with_the_graver_grounds() {
        let windows = [(100, 90, 900), (100, 0, 100), (100, 0, 100)].map(
            |(requests, failures, millis): (u64, u64, u64)| {
                Some(OutlierWindow { requests, failures, latency_micros: Some(millis * MILLI) })
            },
        );
        let expected = EjectionReason::ErrorRate { percent: 90, others_percent: 0 };
        assert_eq!(outliers(&rules(), &windows), [(0, expected)]);
        let blind = [windows[0], None, windows[2]];
        assert_eq!(outliers(&rules(), &blind).len(), 1, "the one that is left to compare with is enough");
        assert!(outliers(&rules(), &[windows[0], None, None]).is_empty());
    }
}
