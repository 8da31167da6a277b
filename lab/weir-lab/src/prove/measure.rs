//! The runs behind the claims: the lab measures its own relay, whose cost it knows.

use std::time::Duration;

use anyhow::Context as _;
use weir_stats::runs::Round;

use super::claims::{self, ClientFigures, ProofClaim, RepeatedFigure};
use crate::load::tool::{self, LoadTool};
use crate::measure::metric::Metric;
use crate::results::run::Run;
use crate::run::{self, Options};
use crate::scenario::Scenario;
use crate::topology::product::Product;
use crate::topology::target::{LabTarget, TargetVariant};

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProofLength {
    /// Repeats of the same scenario.
    repeats: u32,
    /// Rounds of everything.
    rounds: u32,
    /// Length of a window.
    window: Duration,
}

/// A few minutes.
pub(super) const SHORT: ProofLength = ProofLength { repeats: 10, rounds: 5, window: Duration::from_secs(1) };

/// About a quarter of an hour.
pub(super) const FULL: ProofLength = ProofLength { repeats: 10, rounds: 9, window: Duration::from_secs(3) };

/// Clients of every load.
const CLIENTS: usize = 64;

/// The constant rate, which every client can hold beside the origin on one CPU.
const RATE: f64 = 2000.0;

const RELAY: LabTarget = LabTarget::of(Product::Relay);

/// What clients are compared on. A request costs a target more or less depending on its client, which it has to wake more or less
/// often: of the plain relay's work that is some percent, of a busy one's it is next to nothing.
const BUSY: LabTarget = LabTarget { variant: TargetVariant::Busy, ..RELAY };

/// How long the origin works where latencies are compared, in milliseconds: its quantiles are the target's, however the clients share
/// their CPU.
const SERVICE: &str = "lognormal-10-0.4";

/// The scenario of everything: a steady load on the relay.
fn scenario(rate: Option<f64>, service: Option<&str>, extent: ProofLength) -> anyhow::Result<Scenario> {
    let rate = rate.map_or_else(String::new, |rate| format!("rate = {rate:.1}\n"));
    let service = service.map_or_else(String::new, |service| format!("service = \"{service}\"\n"));
    let text = format!(
        "question = \"Does the lab find what is there?\"\nrequirements = []\ntargets = [\"relay\"]\nclass = \"tuned\"\n\
         rounds = {{ count = {}, warm-up = \"{}ms\", window = \"{}ms\" }}\n[steady]\nclients = {CLIENTS}\n{rate}{service}",
        extent.rounds,
        extent.window.as_millis() / 4,
        extent.window.as_millis()
    );
    Scenario::read("prove", &text)
}

/// How many measurements were disturbed by other processes on the machine.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DisturbedCount {
    pub(super) count: usize,
    pub(super) of: usize,
}

/// Runs it; a target that fails ends everything.
fn run(scenario: &Scenario, options: &Options, disturbed: &mut DisturbedCount) -> anyhow::Result<Run> {
    let run = run::run(scenario, options)?;
    disturbed.of += run.measurements.len();
    disturbed.count += run.disturbed();
    match run.failed.iter().next() {
        Some((target, failure)) => anyhow::bail!("{target}: {failure}"),
        None => Ok(run),
    }
}

/// A figure of `target`, round by round, where it counts.
fn rounds(run: &Run, target: LabTarget, metric: Metric) -> Vec<Round> {
    let name = target.to_string();
    run.measurements.iter().filter(|it| it.target == name).filter_map(|it| it.round(metric)).collect()
}

/// The same without how far apart the CPUs were.
fn values(run: &Run, target: LabTarget, metric: Metric) -> Vec<f64> {
    rounds(run, target, metric).into_iter().map(|round| round.value).collect()
}

/// Pairs of runs that were not measured alike and are repeated.
const UNLIKE_MAX: u32 = 5;

/// The same scenario twice, over and over: CPU per request, and throughput.
pub(super) fn repeats(
    options: &Options,
    extent: ProofLength,
    disturbed: &mut DisturbedCount,
) -> anyhow::Result<[ProofClaim; 2]> {
    // Half the length: there are twenty runs of it.
    let scenario = scenario(None, None, ProofLength { window: extent.window / 2, ..extent })?;
    let mut pairs: [Vec<RepeatedFigure>; 2] = Default::default();
    let mut left = extent.repeats + UNLIKE_MAX;
    while pairs[0].len() < extent.repeats as usize && left > 0 {
        left -= 1;
        let (first, second) = (run(&scenario, options, disturbed)?, run(&scenario, options, disturbed)?);
        let twice = [Metric::CpuPerRequest, Metric::RequestsPerSecond].map(|metric| {
            let [first, second] = [&first, &second].map(|run| rounds(run, RELAY, metric));
            RepeatedFigure { first, second }
        });
        if twice.iter().any(|twice| twice.ratio().is_none()) {
            eprintln!(
                "The CPUs were near each other in one of these runs and far apart in the other: once more."
            );
            continue;
        }
        pairs.iter_mut().zip(twice).for_each(|(pairs, twice)| pairs.push(twice));
    }
    let [cost, rate] = pairs;
    Ok([claims::repeats("CPU per request", &cost), claims::repeats("requests per second", &rate)])
}

/// The relay and the same one slowed by a known share, in interleaved rounds.
pub(super) fn slowdown(
    options: &Options,
    extent: ProofLength,
    disturbed: &mut DisturbedCount,
) -> anyhow::Result<ProofClaim> {
    let slower = LabTarget { variant: TargetVariant::Slower, ..RELAY };
    let options = Options { targets: Some(vec![RELAY, slower]), ..options.clone() };
    let run = run(&scenario(None, None, extent)?, &options, disturbed)?;
    let [plain, slowed] = [RELAY, slower].map(|target| values(&run, target, Metric::CpuPerRequest));
    Ok(claims::slowdown(&plain, &slowed))
}

/// The driver against another client: in a closed loop, or at a constant rate; one round of either in turn.
pub(super) fn agreement(
    options: &Options,
    extent: ProofLength,
    other: LoadTool,
    is_constant: bool,
    disturbed: &mut DisturbedCount,
) -> anyhow::Result<ProofClaim> {
    let load = if is_constant { "constant rate" } else { "closed loop" };
    if tool::installed(other).is_none() {
        let claim = format!("{load}: the driver and {} find the same throughput and P99", other.name());
        return Ok(claims::skipped(&claim, &format!("{} is not installed", other.name())));
    }
    // wrk counts in whole seconds.
    let window = Duration::from_secs(extent.window.as_secs().max(1));
    let of =
        |service| scenario(is_constant.then_some(RATE), service, ProofLength { rounds: 1, window, ..extent });
    let (at_limit, at_work) = (of(None)?, of(Some(SERVICE))?);
    let mut seen: [ClientFigures; 2] = Default::default();
    for _ in 0..extent.rounds {
        for (seen, tool) in seen.iter_mut().zip([LoadTool::Driver, other]) {
            let options = Options { tool, targets: Some(vec![BUSY]), ..options.clone() };
            let mut look = |scenario, metric| {
                let run = run(scenario, &options, disturbed);
                let run = run.with_context(|| format!("the load by {}", tool.name()))?;
                // A round that does not count is one less for both.
                anyhow::Ok(values(&run, BUSY, metric).first().copied().unwrap_or(0.0))
            };
            seen.rates.push(look(&at_limit, Metric::RequestsPerSecond)?);
            seen.p99s.push(look(&at_work, Metric::P99)?);
        }
    }
    let [mut own, mut theirs] = seen;
    leave_out_void(&mut own.rates, &mut theirs.rates);
    leave_out_void(&mut own.p99s, &mut theirs.p99s);
    Ok(claims::agreement(load, other.name(), &own, &theirs))
}

/// Leaves out the rounds in which one of the two has no figure that counts.
fn leave_out_void(one: &mut Vec<f64>, other: &mut Vec<f64>) {
    let both = |(one, other): (&f64, &f64)| (*one > 0.0 && *other > 0.0).then_some((*one, *other));
    (*one, *other) = one.iter().zip(other.iter()).filter_map(both).unzip();
}

#[cfg(test)]
mod tests {
    use super::{FULL, RATE, SERVICE, SHORT, leave_out_void, scenario};

    #[test]
    fn the_scenarios_are_sound() {
        for extent in [SHORT, FULL] {
            for rate in [None, Some(RATE)] {
                let scenario = scenario(rate, Some(SERVICE), extent).unwrap();
                assert_eq!(
                    (scenario.targets.len(), scenario.steady.unwrap().rate.is_some()),
                    (1, rate.is_some())
                );
            }
        }
    }

    #[test]
    fn rounds_without_a_figure_count_for_neither() {
        let (mut one, mut other) = (vec![1.0, 0.0, 3.0, 4.0], vec![5.0, 6.0, 0.0, 8.0]);
        leave_out_void(&mut one, &mut other);
        assert_eq!((one, other), (vec![1.0, 4.0], vec![5.0, 8.0]));
    }
}
