//! The verdict about a process from its signs of life. Pure: the turns of a clock come from outside.

use std::time::Duration;

use super::availability::Availability;

/// Signs of life in `process.frozen_after`.
pub(super) const SIGNS: u32 = 6;

/// Turns without a sign of life after which a process is lost.
pub(super) const SILENT_TURNS_MAX: u32 = 4;

/// How long a process that was lost has to give signs of life, without a gap, until it serves again: a node that comes and goes is worse than one that
/// is gone. At least as many as it gives in the time of silence that is allowed.
const STEADY_TIME: Duration = Duration::from_secs(1);
const STEADY_SIGNS_MIN: u32 = SIGNS;

/// What is known about the process.
#[derive(Debug)]
pub(super) struct Vitals {
    /// Signs in a row that are a steady time.
    steady_signs: u32,
    /// What it has last said about itself; `None`: nothing yet.
    said: Option<Availability>,
    silent_turns: u32,
    /// Why it is lost, if it is.
    lost: Option<&'static str>,
    /// Since it was lost.
    signs: u32,
}

impl Vitals {
    /// With a sign of life in every `interval`, as long as the process is well.
    pub(super) fn new(interval: Duration) -> Self {
        let steady = STEADY_TIME.as_micros() / interval.as_micros().max(1);
        let steady_signs = u32::try_from(steady).unwrap_or(u32::MAX).max(STEADY_SIGNS_MIN);
        Self { steady_signs, said: None, silent_turns: 0, lost: None, signs: 0 }
    }

    /// A sign of life, with what the process says about itself.
    pub(super) fn sign(&mut self, said: Availability) {
        self.said = Some(said);
        self.silent_turns = 0;
        if self.lost.is_some() {
            self.signs += 1;
            self.lost = self.lost.filter(|_| self.signs < self.steady_signs);
        }
    }

    /// A turn has passed without one.
    pub(super) fn silence(&mut self) {
        self.silent_turns += 1;
        self.signs = 0;
        if self.serves() && self.silent_turns >= SILENT_TURNS_MAX {
            self.lost.get_or_insert(
                "it gave no sign of life for `process.frozen_after`: it had no CPU time, or was frozen",
            );
        }
    }

    /// The kernel says that the process does not run.
    pub(super) fn stopped(&mut self) {
        if self.serves() {
            self.lost.get_or_insert("it was stopped by a signal");
        }
        self.signs = 0;
    }

    /// Whether there is something to lose: a process that starts is silent.
    fn serves(&self) -> bool {
        self.said.is_some_and(|said| said != Availability::Unavailable)
    }

    /// What others are to be told; `None`: nothing yet.
    pub(super) fn verdict(&self) -> Option<Availability> {
        self.said.map(|said| if self.lost.is_some() { Availability::Unavailable } else { said })
    }

    /// Why the process counts as lost, if it does.
    pub(super) fn reason(&self) -> Option<&'static str> {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_forgiven_until_there_is_too_much_of_it() {
        let mut vitals = Vitals::new(Duration::from_millis(25));
        vitals.silence();
        assert_eq!(vitals.verdict(), None);
        vitals.sign(Availability::Available);
        for _ in 0..10 {
            for _ in 1..SILENT_TURNS_MAX {
                vitals.silence();
                assert_eq!(vitals.verdict(), Some(Availability::Available));
            }
            vitals.sign(Availability::HandedOver);
            assert_eq!(vitals.verdict(), Some(Availability::HandedOver));
            vitals.sign(Availability::Available);
        }
        for _ in 0..SILENT_TURNS_MAX {
            vitals.silence();
        }
        assert_eq!(vitals.verdict(), Some(Availability::Unavailable));
    }

    #[test]
    fn a_process_that_starts_serves_with_its_first_sign() {
        let mut vitals = Vitals::new(Duration::from_millis(25));
        vitals.sign(Availability::Unavailable);
        for _ in 0..100 {
            vitals.silence();
        }
        vitals.sign(Availability::Available);
        assert_eq!(vitals.verdict(), Some(Availability::Available));
    }

    #[test]
    fn a_lost_process_returns_after_a_steady_time() {
        let mut vitals = Vitals::new(Duration::from_millis(25));
        vitals.sign(Availability::Available);
        vitals.stopped();
        assert_eq!(vitals.verdict(), Some(Availability::Unavailable));
        for _ in 1..40 {
            vitals.sign(Availability::Available);
        }
        // Once more from the beginning.
        vitals.silence();
        for _ in 1..40 {
            vitals.sign(Availability::Available);
            assert_eq!(vitals.verdict(), Some(Availability::Unavailable));
        }
        vitals.sign(Availability::Available);
        assert_eq!(vitals.verdict(), Some(Availability::Available));
    }
}
