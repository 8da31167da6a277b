//! The driver's run against a stand: readings at both ends of its window, and what happens to the servers in between.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::linger;
use super::mark::{Mark, mark};
use super::stand::Stand;
use crate::clock;
use crate::load::{Outcome, Plan, Progress, driver};
use crate::run::bench::Bench;

/// What a step does to the servers.
type Act<'a> = Box<dyn FnMut(&mut Stand) -> anyhow::Result<()> + 'a>;

/// Something that happens at a time, after the start of the window.
pub(super) struct Step<'a> {
    pub(super) at: Duration,
    pub(super) act: Act<'a>,
}

impl<'a> Step<'a> {
    pub(super) fn new(at: Duration, act: impl FnMut(&mut Stand) -> anyhow::Result<()> + 'a) -> Self {
        Self { at, act: Box::new(act) }
    }
}

/// What came of it.
pub(super) struct Driven {
    pub(super) before: Mark,
    pub(super) after: Mark,
    pub(super) outcome: Outcome,
}

/// Runs `plan`, and `steps` in their order.
pub(super) fn drive(
    bench: &Bench<'_>,
    stand: &mut Stand,
    plan: &Plan,
    steps: &mut [Step<'_>],
) -> anyhow::Result<Driven> {
    drive_as(bench, stand, plan, steps, &Progress::default())
}

/// The same, with what others are to see of it.
pub(super) fn drive_as(
    bench: &Bench<'_>,
    stand: &mut Stand,
    plan: &Plan,
    steps: &mut [Step<'_>],
    progress: &Progress,
) -> anyhow::Result<Driven> {
    std::thread::scope(|scope| {
        let start = clock::now();
        let running = linger::spawn(scope, || driver::run(plan, progress));
        let is_over = || running.is_done() || bench.options.is_interrupted();
        wait(start + plan.warm_up, is_over);
        let before = mark(stand, bench.placement, progress.exchanges.load(Ordering::Relaxed));
        let mut failed = None;
        for step in steps {
            wait(start + plan.warm_up + step.at, is_over);
            failed = failed.or((step.act)(stand).err());
        }
        wait(start + plan.warm_up + plan.window, is_over);
        let after = mark(stand, bench.placement, progress.exchanges.load(Ordering::Relaxed));
        let interrupted = bench.options.is_interrupted();
        // A target that has died answers nothing any more: do not wait for its timeouts.
        if interrupted || failed.is_some() || stand.is_alive().is_err() {
            progress.stop.store(true, Ordering::Relaxed);
        }
        let outcome = running.join().ok().context("the driver panicked")??;
        if interrupted {
            bail!("interrupted");
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(Driven { before, after, outcome }),
        }
    })
}

/// Lets time pass until `deadline`, or until `is_over`.
pub(super) fn wait(deadline: Instant, is_over: impl Fn() -> bool) {
    loop {
        let left = deadline.saturating_duration_since(clock::now());
        if left.is_zero() || is_over() {
            return;
        }
        clock::pause(left.min(Duration::from_millis(50)));
    }
}
