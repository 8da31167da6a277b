//! How far Weir goes to free memory, by how much of the budget is used: up at once, down step by step and only well below.
//!
//! Pure: figures and times are passed in.

use std::time::Duration;

use weir_observe::MemoryStep;
use weir_proxy::net::clock::Instant;

/// From which use each step begins, in thousandths of the budget.
pub(super) const BEGINS: [u64; 5] = [0, 800, 850, 900, 950];

/// How far the use has to fall below the beginning of a step before it ends.
const HYSTERESIS: u64 = 50;

/// How long new connections wait before they are refused.
const WAIT: Duration = Duration::from_secs(1);

/// How long requests have to be short of buffers before slow clients are ended for them, and how long a shortage is remembered.
const STARVED_MIN: Duration = Duration::from_millis(200);
const STARVED_MEMORY: Duration = Duration::from_millis(1_500);

/// The present step.
#[derive(Debug, Default)]
pub(super) struct MemorySteps {
    step: MemoryStep,
    /// Since when new connections wait.
    waits_since: Option<Instant>,
    /// Since when requests are short of buffers, and when they last were.
    starved: Option<(Instant, Instant)>,
    /// How often each step was entered.
    pub(super) entered: [u64; 4],
}

impl MemorySteps {
    /// The step at a use of so many thousandths.
    pub(super) fn look(&mut self, used: u64, now: Instant) -> MemoryStep {
        let before = self.step as usize;
        let mut step = before;
        while step + 1 < BEGINS.len() && used >= BEGINS[step + 1] {
            step += 1;
            self.entered[step - 1] += 1;
        }
        if step == before && step > 0 && used + HYSTERESIS < BEGINS[step] {
            step -= 1;
        }
        self.step = MemoryStep::at(step as u8);
        self.waits_since = (self.step == MemoryStep::Refuse).then(|| self.waits_since.unwrap_or(now));
        self.step
    }

    /// Whether new connections are refused, since they have waited long enough.
    pub(super) fn refuses(&self, now: Instant) -> bool {
        self.waits_since.is_some_and(|since| now.saturating_duration_since(since) >= WAIT)
    }

    /// Whether slow clients are to be ended since requests wait for buffers; `is_starved`: some began to wait since the last look.
    pub(super) fn is_short_of_buffers(&mut self, is_starved: bool, now: Instant) -> bool {
        match (is_starved, self.starved) {
            (false, Some((_, last))) if now.saturating_duration_since(last) >= STARVED_MEMORY => {
                self.starved = None;
                false
            }
            (false, _) => false,
            (true, known) => {
                let since = known.map_or(now, |(since, _)| since);
                self.starved = Some((since, now));
                now.saturating_duration_since(since) >= STARVED_MIN
            }
        }
    }
}

/// How many of `count` things have to go so that the use falls from `used` to `wanted` bytes, where they take `bytes` in all: not more
/// than a quarter at once, since what is freed shows only at the next look.
pub(super) fn count_to_free(count: u64, bytes: u64, used: u64, wanted: u64) -> usize {
    /// What a connection takes at least, with what the kernel keeps for it.
    const EACH_AT_LEAST: u64 = 4 * 1024;
    const AT_LEAST: u64 = 8;
    let each = (bytes / count.max(1)).max(EACH_AT_LEAST);
    let needed = used.saturating_sub(wanted).div_ceil(each);
    needed.min(count / 4).max(AT_LEAST.min(count)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_proxy::net::clock;

    #[test]
    fn steps_begin_at_once_and_end_one_by_one_well_below() {
        let (mut steps, now) = (MemorySteps::default(), clock::now());
        let looks = [
            (799, MemoryStep::Normal),
            (800, MemoryStep::Caches),
            (760, MemoryStep::Caches),
            (900, MemoryStep::Slow),
            (851, MemoryStep::Slow),
            (849, MemoryStep::Idle),
            (849, MemoryStep::Idle),
            (700, MemoryStep::Caches),
            (700, MemoryStep::Normal),
            (2_000, MemoryStep::Refuse),
            (0, MemoryStep::Slow),
            (950, MemoryStep::Refuse),
        ];
        for (used, step) in looks {
            assert_eq!(steps.look(used, now), step, "{used}");
        }
        assert_eq!(steps.entered, [2, 2, 2, 2]);
    }

    #[test]
    fn new_connections_are_refused_when_they_have_waited() {
        let (mut steps, now) = (MemorySteps::default(), clock::now());
        steps.look(960, now);
        assert!(!steps.refuses(now + Duration::from_millis(999)));
        steps.look(960, now + WAIT);
        assert!(steps.refuses(now + WAIT));
        steps.look(890, now + WAIT);
        assert!(!steps.refuses(now + WAIT), "there is room again");
        steps.look(960, now + WAIT * 2);
        assert!(!steps.refuses(now + WAIT * 2), "the next shortage begins with a wait");
    }

    #[test]
    fn a_peak_of_requests_is_no_shortage_of_buffers() {
        let (mut steps, now) = (MemorySteps::default(), clock::now());
        let at = |millis| now + Duration::from_millis(millis);
        for (millis, is_starved, is_short) in [
            (0, true, false),
            (50, false, false),
            (1_600, false, false),
            (1_700, true, false),
            (1_800, true, false),
            (1_950, true, true),
            (2_000, false, false),
            (2_950, true, true),
        ] {
            assert_eq!(steps.is_short_of_buffers(is_starved, at(millis)), is_short, "{millis}");
        }
    }

    #[test]
    fn as_many_go_as_are_needed_and_not_all_at_once() {
        let mib = 1 << 20;
        assert_eq!(count_to_free(10_000, 100 * mib, 110 * mib, 105 * mib), 501, "rounded up");
        assert_eq!(count_to_free(10_000, 100 * mib, 300 * mib, 100 * mib), 2_500, "a quarter");
        assert_eq!(count_to_free(10_000, 0, 101 * mib, 100 * mib), 256, "4 KiB each");
        assert_eq!(count_to_free(5, mib, 2 * mib, mib), 5);
        assert_eq!(count_to_free(0, 0, 2 * mib, mib), 0);
    }
}
