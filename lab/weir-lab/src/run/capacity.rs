//! The capacity of client and origin without a target, measured before the rounds: the proof that the origin is fast enough.
//!
//! Both share a CPU, so the throughput alone says little. CPU time per request of each says what it could do with a CPU of
//! its own, as much as the target has. Clients that speak TLS do without it here: the origin behind a target never sees it.

use std::time::Duration;

use anyhow::Context as _;

use super::steady;
use crate::measure::metric::Metric;
use crate::results::capacity::Capacity;
use crate::run::bench::Bench;
use crate::scenario::{Rounds, SteadyWork};
use crate::topology::product::Product;
use crate::topology::target::LabTarget;

/// Load before the burst, and the burst.
const BURST: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(1));

/// Measures it with the requests of `steady`.
pub(super) fn measure(
    bench: &Bench<'_>,
    steady: &SteadyWork,
    rounds: &Rounds,
) -> anyhow::Result<Option<Capacity>> {
    let (warm_up, window) = (BURST.0.min(rounds.warm_up), BURST.1.min(rounds.window));
    let rounds = Rounds { count: 1, warm_up, window };
    let burst = steady::measure(bench, steady, &rounds, None, LabTarget::of(Product::Direct))
        .context("client and origin alone")?;
    if let Some(failure) = burst.failure {
        anyhow::bail!("client and origin alone: {failure}");
    }
    let of = |metric: Metric| burst.values.get(&metric).copied().filter(|value| *value > 0.0);
    let found = of(Metric::RequestsPerSecond).zip(of(Metric::OriginPerRequest)).zip(of(Metric::DriverCpu));
    Ok(found.map(|((requests_per_second, origin_us), driver)| Capacity {
        requests_per_second,
        origin_us,
        // Percent of a CPU are 10 000 us of each second.
        driver_us: driver * 10_000.0 / requests_per_second,
        is_tls_left_out: bench.listener.tls.is_some(),
    }))
}
