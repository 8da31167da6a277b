//! The rate of a constant-rate load when the scenario gives it as a share of one target's peak.

use anyhow::Context as _;
use weir_stats::estimate;

use super::steady;
use crate::measure::metric::Metric;
use crate::run::bench::Bench;
use crate::scenario::{RequestRate, Rounds, SteadyWork};

/// Closed-loop measurements whose median is the peak.
const RUNS: usize = 3;

/// The rate in requests per second, with a sentence on where it comes from; nothing for a closed loop.
pub(super) fn rate(
    bench: &Bench<'_>,
    steady: &SteadyWork,
    rounds: &Rounds,
) -> anyhow::Result<Option<(f64, String)>> {
    let (share, of_peak) = match steady.rate {
        None => return Ok(None),
        Some(RequestRate::Fixed(rate)) => return Ok(Some((rate, format!("The rate is {rate:.0} req/s.")))),
        Some(RequestRate::OfPeak { share, of_peak }) => (share, of_peak),
    };
    let mut peaks = Vec::new();
    for _ in 0..RUNS {
        let measurement = steady::measure(bench, steady, rounds, None, of_peak)
            .with_context(|| format!("peak of {of_peak}"))?;
        if let Some(failure) = measurement.failure {
            anyhow::bail!("peak of {of_peak}: {failure}");
        }
        peaks.extend(measurement.values.get(&Metric::RequestsPerSecond));
    }
    let peak = estimate::median(&peaks).context("no peak was measured")?;
    let rate = peak * share;
    let text = format!(
        "The rate is {rate:.0} req/s: {share} of the closed-loop peak of {of_peak} with the same clients, {peak:.0} req/s \
         (median of {RUNS})."
    );
    Ok(Some((rate, text)))
}
