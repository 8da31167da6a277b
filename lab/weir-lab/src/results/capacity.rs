//! The throughput of client and origin without a target: the proof that the origin is fast enough.
//!
//! Both share a CPU, so the throughput alone says little. CPU time per request of each says what it could do with a CPU of
//! its own, as much as the target has. Clients that speak TLS do without it here: the origin behind a target never sees it.

use serde::{Deserialize, Serialize};

use super::measurement::Measurement;
use crate::measure::metric::Metric;
use crate::topology::product::Product;

/// How much faster than any target the origin has to be.
const FACTOR_MIN: f64 = 2.0;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// Requests per second without a target.
    pub requests_per_second: f64,
    /// CPU time of the origin per request, µs.
    pub origin_us: f64,
    /// CPU time of the load tool per request, µs.
    pub driver_us: f64,
    /// The clients speak TLS with the targets; here they did not.
    #[serde(default)]
    pub is_tls_left_out: bool,
}

impl Capacity {
    /// The answers per second of an origin with a CPU of its own.
    pub fn of_origin(&self) -> f64 {
        1e6 / self.origin_us
    }

    /// How that compares with the fastest target, and the warning when it is too little.
    pub fn sentence(&self, measurements: &[Measurement]) -> String {
        let Self { requests_per_second, origin_us, driver_us, is_tls_left_out } = self;
        let tls = if *is_tls_left_out { " (nor TLS, which the origin never sees)" } else { "" };
        let mut text = format!(
            "Is the lab itself fast enough? With no balancer between them{tls}, its client and its origin, the server behind every target, \
             exchanged {requests_per_second:.0} requests per second on the one CPU that they share. Each request took {driver_us:.1} µs of the \
             client's time and {origin_us:.1} µs of the origin's, so that the origin could answer {:.0} per second if it had the CPU to itself.",
            self.of_origin()
        );
        let through_targets =
            measurements.iter().filter(|it| it.failure.is_none() && it.target != Product::Direct.name());
        let fastest = through_targets
            .filter_map(|it| Some((it.values.get(&Metric::RequestsPerSecond)?, &it.target)))
            .max_by(|one, other| one.0.total_cmp(other.0));
        if let Some((rate, target)) = fastest {
            let factor = self.of_origin() / rate;
            text.push_str(&format!(
                " That is {factor:.1} times what the fastest target passed on ({target}, {rate:.0} req/s)"
            ));
            text.push_str(if factor < FACTOR_MIN {
                "; twice as much is needed for the origin not to be the limit: THE ORIGIN IS TOO SLOW for these targets."
            } else {
                ", and twice is enough for the origin not to be the limit."
            });
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{Measurement, Metric};
    use crate::results::capacity::Capacity;
    use std::collections::BTreeMap;

    #[test]
    fn an_origin_that_is_not_twice_as_fast_is_called_too_slow() {
        let capacity = Capacity {
            requests_per_second: 80_000.0,
            origin_us: 5.0,
            driver_us: 7.0,
            is_tls_left_out: false,
        };
        let measured = |target: &str, rate: f64| Measurement {
            target: target.to_owned(),
            values: BTreeMap::from([(Metric::RequestsPerSecond, rate)]),
            ..Measurement::default()
        };
        let direct = measured("direct", 190_000.0);
        let said =
            capacity.sentence(&[direct.clone(), measured("weir", 50_000.0), measured("nginx", 99_000.0)]);
        assert!(
            said.ends_with(
                "That is 2.0 times what the fastest target passed on (nginx, 99000 req/s), and twice is enough for the origin \
                 not to be the limit."
            ),
            "{said}"
        );
        let said = capacity.sentence(&[direct, measured("weir", 101_000.0)]);
        assert!(
            said.contains("2.0 times") && said.ends_with("THE ORIGIN IS TOO SLOW for these targets."),
            "{said}"
        );
        let said = Capacity { is_tls_left_out: true, ..capacity }.sentence(&[]);
        assert!(
            said.contains("With no balancer between them (nor TLS, which the origin never sees), its client and its origin"),
            "{said}"
        );
    }
}
