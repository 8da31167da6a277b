//! How much of a worker's time goes into compression, and by how many steps its levels have fallen for that.
//!
//! Time is counted in windows of half a second. A window above the budget lowers the levels by a step, four calm ones raise them by one. At
//! the last step, what is left of the budget decides whether one more response is compressed at all: so the budget holds whatever comes.

use std::cell::Cell;
use std::time::Duration;

use crate::net::clock::Instant;

/// How long time is counted before the share is judged.
const WINDOW: Duration = Duration::from_millis(500);

/// Windows below half of the budget, in a row, after which levels rise by a step.
const CALM_WINDOWS: u32 = 4;

/// Windows without any response after which levels are as configured.
const QUIET_WINDOWS: u32 = 16;

/// The last step: all levels are the lowest, and no more is compressed than the budget allows.
pub(super) const STEP_MAX: u8 = 3;

/// The time that compression takes on one worker.
#[derive(Debug)]
pub(super) struct CompressionLoad {
    window_began: Cell<Instant>,
    /// Nanoseconds in this window.
    spent: Cell<u64>,
    /// Whether a response of this window was refused.
    has_refused: Cell<bool>,
    calm_windows: Cell<u32>,
    step: Cell<u8>,
}

impl CompressionLoad {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            window_began: Cell::new(now),
            spent: Cell::new(0),
            has_refused: Cell::new(false),
            calm_windows: Cell::new(0),
            step: Cell::new(0),
        }
    }

    /// Counts time that was spent.
    pub(super) fn charge(&self, nanos: u64) {
        self.spent.set(self.spent.get() + nanos);
    }

    /// The step that holds at `now`, with a budget in percent of the time.
    pub(super) fn step(&self, now: Instant, budget: u32) -> u8 {
        let lasted = now.nanos_since(self.window_began.get());
        if lasted >= WINDOW.as_nanos() as u64 {
            self.judge(lasted, budget);
            self.window_began.set(now);
        }
        self.step.get()
    }

    fn judge(&self, lasted: u64, budget: u32) {
        let spent = self.spent.take();
        let allowed = budget_of(lasted, budget);
        let is_refusing = self.has_refused.take();
        let windows = u32::try_from(lasted / WINDOW.as_nanos() as u64).unwrap_or(u32::MAX);
        let step = self.step.get();
        if spent > allowed {
            self.calm_windows.set(0);
            self.step.set((step + 1).min(STEP_MAX));
        } else if windows >= QUIET_WINDOWS {
            self.calm_windows.set(0);
            self.step.set(0);
        } else if spent < allowed / 2 && !is_refusing {
            self.calm_windows.set(self.calm_windows.get() + windows);
            if self.calm_windows.get() >= CALM_WINDOWS {
                self.calm_windows.set(0);
                self.step.set(step.saturating_sub(1));
            }
        } else {
            self.calm_windows.set(0);
        }
    }

    /// Whether one more response may be compressed, at the last step.
    pub(super) fn may_begin(&self, budget: u32) -> bool {
        let may =
            self.step.get() < STEP_MAX || self.spent.get() < budget_of(WINDOW.as_nanos() as u64, budget);
        self.has_refused.set(self.has_refused.get() || !may);
        may
    }
}

const fn budget_of(nanos: u64, percent: u32) -> u64 {
    nanos / 100 * percent as u64
}

/// The level after a fall by this many steps from the configured one; 0 is the fastest that there is.
pub(super) const fn lowered(level: u32, step: u8) -> u32 {
    match (level, step) {
        (_, 0) => level,
        (_, 1) => level.div_ceil(2),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: u32 = 50;

    /// A load that spends these percentages of windows in a row, and the step after each.
    fn steps(shares: &[u64]) -> Vec<u8> {
        let mut now = Instant::test(Duration::from_secs(1));
        let load = CompressionLoad::new(now);
        let mut steps = Vec::new();
        for share in shares {
            load.charge(WINDOW.as_nanos() as u64 / 100 * share);
            now += WINDOW;
            steps.push(load.step(now, BUDGET));
        }
        steps
    }

    #[test]
    fn levels_fall_above_the_budget_and_rise_when_it_is_calm() {
        assert_eq!(steps(&[40, 50]), [0, 0]);
        assert_eq!(steps(&[60, 60, 60, 60]), [1, 2, 3, 3]);
        assert_eq!(steps(&[60, 20, 20, 20, 20, 20]), [1, 1, 1, 1, 0, 0]);
        assert_eq!(steps(&[60, 60, 20, 20, 20, 30, 20, 20, 20, 20]), [1, 2, 2, 2, 2, 2, 2, 2, 2, 1]);
    }

    #[test]
    fn a_quiet_time_makes_it_good() {
        let began = Instant::test(Duration::from_secs(1));
        let load = CompressionLoad::new(began);
        for window in 1..=3 {
            load.charge(WINDOW.as_nanos() as u64);
            load.step(began + WINDOW * window, BUDGET);
        }
        assert_eq!(load.step.get(), STEP_MAX);
        assert_eq!(load.step(began + WINDOW * (3 + QUIET_WINDOWS), BUDGET), 0);
    }

    #[test]
    fn at_the_last_step_the_budget_is_a_limit() {
        let mut now = Instant::test(Duration::from_secs(1));
        let load = CompressionLoad::new(now);
        assert!(load.may_begin(BUDGET));
        for _ in 0..3 {
            load.charge(WINDOW.as_nanos() as u64);
            assert!(load.may_begin(BUDGET), "before the last step nothing is refused");
            now += WINDOW;
            load.step(now, BUDGET);
        }
        load.charge(WINDOW.as_nanos() as u64 / 4);
        assert!(load.may_begin(BUDGET));
        load.charge(WINDOW.as_nanos() as u64 / 4);
        assert!(!load.may_begin(BUDGET));
        // A window with refusals is not calm, whatever it has spent.
        load.spent.set(0);
        for _ in 0..CALM_WINDOWS {
            load.has_refused.set(true);
            now += WINDOW;
            assert_eq!(load.step(now, BUDGET), STEP_MAX);
        }
    }

    #[test]
    fn a_level_falls_by_half_and_then_to_the_lowest() {
        for (level, expected) in [(9, [9, 5, 0, 0]), (4, [4, 2, 0, 0]), (1, [1, 1, 0, 0]), (0, [0, 0, 0, 0])]
        {
            assert_eq!([0, 1, 2, 3].map(|step| lowered(level, step)), expected);
        }
    }
}
