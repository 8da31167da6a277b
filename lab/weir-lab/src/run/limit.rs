//! The limit of a load: the target, the client, the origin, or the number of clients; and which figures are void because of that.
//!
//! A closed loop is as fast as its slowest part. When that was not the target, throughput and latency are those of the
//! client or the origin, and do not count: they are void. CPU per request and memory do not depend on the limit.

use std::collections::BTreeSet;

use crate::measure::metric::Metric;
use crate::results::measurement::{Limit, Measurement};

/// From here on a CPU counts as full.
const FULL: f64 = 0.95;

/// A target that was idle for this share of the time was not the limit.
const IDLE: f64 = 0.25;

/// The figures that depend on the limit.
const OF_THE_LIMIT: [Metric; 7] = [
    Metric::RequestsPerSecond,
    Metric::OfDirect,
    Metric::P50,
    Metric::P95,
    Metric::P99,
    Metric::P999,
    Metric::Longest,
];

/// How busy the CPUs were, each 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shares {
    /// The target's CPU with the target; `None` where there is none to be seen.
    pub(super) target: Option<f64>,
    /// The CPU of client and origin with anything.
    pub(super) shared: f64,
    /// The origin's use of the CPU.
    pub(super) origin: f64,
    /// The load tool's use of the CPU.
    pub(super) driver: f64,
    /// Others had a share of the CPUs.
    pub(super) is_disturbed: bool,
}

impl Shares {
    /// The limit of a closed loop.
    pub(super) fn limit(self) -> Limit {
        let is_full = |share: f64| share >= FULL;
        match (self.target.is_some_and(is_full), is_full(self.shared)) {
            (true, _) => Limit::Target,
            (false, _) if self.is_disturbed => Limit::Disturbed,
            (false, true) if self.origin > self.driver => Limit::Origin,
            (false, true) => Limit::Client,
            (false, false) => Limit::Waiting,
        }
    }
}

/// Marks what `measurement`, of a target under a closed loop of so many clients or at a given rate, does not say.
pub(super) fn note_void(measurement: &mut Measurement, clients: usize) {
    let share = |metric: Metric| measurement.values.get(&metric).copied();
    let (Some(origin), Some(driver)) = (share(Metric::OriginCpu), share(Metric::DriverCpu)) else { return };
    let target = share(Metric::TargetCpu);
    let of_target =
        target.map_or_else(String::new, |target| format!(", the target {target:.0} % of its own"));
    let figures = format!("of their CPU the origin used {origin:.0} %, the client {driver:.0} %{of_target}");
    let (void, sentence): (&[Metric], String) = match measurement.limit {
        Some(Limit::Client) => {
            (&OF_THE_LIMIT, format!("throughput and latency are void, the client was the limit: {figures}"))
        }
        Some(Limit::Origin) => {
            (&OF_THE_LIMIT, format!("throughput and latency are void, the origin was the limit: {figures}"))
        }
        Some(Limit::Waiting) if target.is_some_and(|target| target <= 100.0 * (1.0 - IDLE)) => (
            &OF_THE_LIMIT[..2],
            format!("throughput is void, {clients} clients in a closed loop were the limit: {figures}"),
        ),
        _ => return,
    };
    measurement.void = BTreeSet::from_iter(void.iter().copied());
    measurement.notes.push(sentence);
}

#[cfg(test)]
mod tests {
    use super::{Limit, Measurement, Metric, Shares, note_void};
    use std::collections::BTreeMap;

    fn shares(target: f64, origin: f64, driver: f64) -> Shares {
        Shares { target: Some(target), shared: origin + driver, origin, driver, is_disturbed: false }
    }

    #[test]
    fn the_limit_is_the_process_whose_cpu_was_full() {
        for (shares, limit) in [
            (shares(0.99, 0.3, 0.4), Limit::Target),
            // Both CPUs full: the target could not have done more either.
            (shares(0.99, 0.5, 0.5), Limit::Target),
            (shares(0.7, 0.6, 0.39), Limit::Origin),
            (shares(0.7, 0.3, 0.69), Limit::Client),
            (shares(0.4, 0.2, 0.2), Limit::Waiting),
            (Shares { is_disturbed: true, ..shares(0.7, 0.6, 0.39) }, Limit::Disturbed),
            (Shares { target: None, ..shares(0.0, 0.6, 0.39) }, Limit::Origin),
        ] {
            assert_eq!(shares.limit(), limit, "{shares:?}");
        }
    }

    fn judged(limit: Limit, target: f64) -> Measurement {
        let values = BTreeMap::from([
            (Metric::OriginCpu, 61.0),
            (Metric::DriverCpu, 36.0),
            (Metric::TargetCpu, target),
            (Metric::CpuPerRequest, 12.0),
        ]);
        let mut measurement = Measurement { limit: Some(limit), values, ..Measurement::default() };
        note_void(&mut measurement, 3);
        measurement
    }

    #[test]
    fn figures_not_limited_by_the_target_are_void_and_explained() {
        let of_origin = judged(Limit::Origin, 70.0);
        assert_eq!(
            of_origin.notes,
            [
                "throughput and latency are void, the origin was the limit: of their CPU the origin used 61 %, the client 36 %, \
                 the target 70 % of its own"
            ]
        );
        assert!(of_origin.void.contains(&Metric::P99) && of_origin.void.contains(&Metric::RequestsPerSecond));
        // The cost of a request does not depend on how many there were.
        assert!(!of_origin.void.contains(&Metric::CpuPerRequest));
        assert!(judged(Limit::Client, 70.0).notes[0].contains("the client was the limit"));
        let waiting = judged(Limit::Waiting, 40.0);
        assert!(
            waiting.notes[0].contains("3 clients in a closed loop were the limit"),
            "{:?}",
            waiting.notes
        );
        assert!(waiting.void.contains(&Metric::OfDirect) && !waiting.void.contains(&Metric::P50));
        for fine in [judged(Limit::Target, 99.0), judged(Limit::Waiting, 90.0), judged(Limit::Rate, 40.0)] {
            assert!(fine.void.is_empty() && fine.notes.is_empty(), "{fine:?}");
        }
    }
}
