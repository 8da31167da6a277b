//! One more round with a profiler beside each target. Its figures do not count: sampling costs CPU time.

use std::time::Duration;

use super::steady;
use super::window::{self, Step};
use crate::load::Plan;
use crate::profile::Profile;
use crate::profile::record::Recording;
use crate::run::bench::Bench;
use crate::scenario::{Rounds, Steady};
use crate::topology::target::Target;

/// How long each target is sampled: long enough for some hundred samples, short enough for their number.
const LENGTH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// The profile of `target` under a steady load, or why there is none.
pub(super) fn profile(
    bench: &Bench<'_>,
    steady: &Steady,
    rounds: &Rounds,
    rate: Option<f64>,
    target: Target,
) -> Profile {
    sample(bench, steady, rounds, rate, target).unwrap_or_else(|error| Profile::Missing(format!("{error:#}")))
}

fn sample(
    bench: &Bench<'_>,
    steady: &Steady,
    rounds: &Rounds,
    rate: Option<f64>,
    target: Target,
) -> anyhow::Result<Profile> {
    let mut stand = bench.stand_with(target, steady::room(steady))?;
    let length = rounds.window.clamp(LENGTH.0, LENGTH.1);
    let rounds = Rounds { window: length, ..*rounds };
    let plan = Plan { secure: bench.secure_with(target)?, ..steady::plan(&stand, steady, &rounds, rate) };
    let launcher = &bench.options.launcher;
    let mut recording = None;
    let begin = Step::new(Duration::ZERO, |stand| {
        let pid = stand.target.as_ref().map(|target| target.pid());
        recording = pid.map(|pid| Recording::begin(launcher, pid, length, bench.dir.path()));
        Ok(())
    });
    window::drive(bench, &mut stand, &plan, &mut [begin])?;
    match recording {
        Some(recording) => recording?.end(launcher, || bench.options.is_interrupted()),
        None => anyhow::bail!("the lab did not start it"),
    }
}
