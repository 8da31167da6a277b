//! The driver's run against a testbed: readings at both ends of its window, and steps on the servers in between.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::lingering_thread;
use crate::clock;
use crate::load::http2_driver::{self, Http2Plan};
use crate::load::http3_driver::{self, Http3Plan};
use crate::load::{LoadOutcome, LoadPlan, LoadProgress, driver};
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::run::window_mark::{WindowMark, mark};

/// The effect of a step on the servers.
type WindowAction<'a> = Box<dyn FnMut(&mut Testbed) -> anyhow::Result<()> + 'a>;

/// Something that happens at a time, after the start of the window.
pub(super) struct WindowEvent<'a> {
    pub(super) at: Duration,
    pub(super) act: WindowAction<'a>,
}

impl<'a> WindowEvent<'a> {
    pub(super) fn new(at: Duration, act: impl FnMut(&mut Testbed) -> anyhow::Result<()> + 'a) -> Self {
        Self { at, act: Box::new(act) }
    }
}

/// The outcome of a window.
pub(super) struct WindowOutcome {
    pub(super) before: WindowMark,
    pub(super) after: WindowMark,
    pub(super) outcome: LoadOutcome,
}

/// Runs `plan`, and `steps` in their order.
pub(super) fn drive(
    bench: &Bench<'_>,
    testbed: &mut Testbed,
    plan: &LoadPlan,
    steps: &mut [WindowEvent<'_>],
) -> anyhow::Result<WindowOutcome> {
    drive_as(bench, testbed, plan, steps, &LoadProgress::default())
}

/// The same, with the progress that others can see.
pub(super) fn drive_as(
    bench: &Bench<'_>,
    testbed: &mut Testbed,
    plan: &LoadPlan,
    steps: &mut [WindowEvent<'_>],
    progress: &LoadProgress,
) -> anyhow::Result<WindowOutcome> {
    let (warm_up, window) = (plan.warm_up, plan.window);
    drive_with(bench, testbed, (warm_up, window), steps, progress, || driver::run(plan, progress))
}

/// The same by the driver of HTTP/2.
pub(super) fn drive_http2(
    bench: &Bench<'_>,
    testbed: &mut Testbed,
    plan: &Http2Plan,
    steps: &mut [WindowEvent<'_>],
) -> anyhow::Result<WindowOutcome> {
    let (times, progress) = ((plan.warm_up, plan.window), &LoadProgress::default());
    drive_with(bench, testbed, times, steps, progress, || http2_driver::run(plan, progress))
}

/// The same by the driver of HTTP/3.
pub(super) fn drive_http3(
    bench: &Bench<'_>,
    testbed: &mut Testbed,
    plan: &Http3Plan,
    steps: &mut [WindowEvent<'_>],
) -> anyhow::Result<WindowOutcome> {
    let (times, progress) = ((plan.warm_up, plan.window), &LoadProgress::default());
    drive_with(bench, testbed, times, steps, progress, || http3_driver::run(plan, progress))
}

/// The same by any driver, for a warm-up and a window of these lengths.
fn drive_with(
    bench: &Bench<'_>,
    testbed: &mut Testbed,
    (warm_up, window): (Duration, Duration),
    steps: &mut [WindowEvent<'_>],
    progress: &LoadProgress,
    run: impl FnOnce() -> std::io::Result<LoadOutcome> + Send,
) -> anyhow::Result<WindowOutcome> {
    std::thread::scope(|scope| {
        let start = clock::now();
        let running = lingering_thread::spawn(scope, run);
        let is_over = || running.is_done() || bench.options.is_interrupted();
        wait(start + warm_up, is_over);
        let before = mark(testbed, bench.placement, progress.exchanges.load(Ordering::Relaxed));
        let mut failed = None;
        for step in steps {
            wait(start + warm_up + step.at, is_over);
            failed = failed.or((step.act)(testbed).err());
        }
        wait(start + warm_up + window, is_over);
        let after = mark(testbed, bench.placement, progress.exchanges.load(Ordering::Relaxed));
        let interrupted = bench.options.is_interrupted();
        // A target that has died answers nothing any more: do not wait for its timeouts.
        if interrupted || failed.is_some() || testbed.is_alive().is_err() {
            progress.stop.store(true, Ordering::Relaxed);
        }
        let outcome = running.join().ok().context("the driver panicked")??;
        if interrupted {
            bail!("interrupted");
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(WindowOutcome { before, after, outcome }),
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
