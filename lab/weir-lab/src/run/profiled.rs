//! One more round with a profiler beside each target. Its figures do not count: sampling costs CPU time.

use std::time::Duration;

use super::steady;
use super::window::WindowEvent;
use crate::profile::Profile;
use crate::profile::record::Recording;
use crate::run::bench::Bench;
use crate::scenario::{Rounds, SteadyWork};
use crate::topology::target::LabTarget;

/// How long each target is sampled: long enough for some hundred samples, short enough for their number.
const LENGTH: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// The profile of `target` under a steady load, or why there is none.
pub(super) fn profile(
    bench: &Bench<'_>,
    steady: &SteadyWork,
    rounds: &Rounds,
    rate: Option<f64>,
    target: LabTarget,
) -> Profile {
    sample(bench, steady, rounds, rate, target).unwrap_or_else(|error| Profile::Missing(format!("{error:#}")))
}

fn sample(
    bench: &Bench<'_>,
    steady: &SteadyWork,
    rounds: &Rounds,
    rate: Option<f64>,
    target: LabTarget,
) -> anyhow::Result<Profile> {
    let mut testbed = bench.set_up_with(target, steady::room(steady))?;
    let length = rounds.window.clamp(LENGTH.0, LENGTH.1);
    let rounds = Rounds { window: length, ..*rounds };
    let launcher = &bench.options.launcher;
    let mut recording = None;
    let begin = WindowEvent::new(Duration::ZERO, |testbed| {
        let pid = testbed.target.as_ref().map(|target| target.pid());
        recording = pid.map(|pid| Recording::begin(launcher, pid, length, bench.dir.path()));
        Ok(())
    });
    steady::drive(bench, &mut testbed, (steady, &rounds, rate), target, &mut [begin])?;
    match recording {
        Some(recording) => recording?.end(launcher, || bench.options.is_interrupted()),
        None => anyhow::bail!("the lab did not start it"),
    }
}
