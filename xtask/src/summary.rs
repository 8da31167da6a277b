//! The table at the end of a CI run: every step, how it ended, how long it took, what room it left on the disk, then all failures once more.
//!
//! Pure: outcomes in, text out.

use std::fmt;
use std::time::Duration;

/// How one step ended.
pub(crate) struct StepOutcome {
    pub(crate) step: &'static str,
    pub(crate) result: Result<(), String>,
    pub(crate) took: Duration,
    /// The bytes that the disk had left after it, if it says.
    pub(crate) disk_free: Option<u64>,
}

/// All outcomes in the order in which the steps ran.
pub(crate) struct CiSummary<'a>(pub(crate) &'a [StepOutcome]);

impl fmt::Display for CiSummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14} {:<7} {:>7} {:>8}", "step", "result", "min:s", "GiB free")?;
        for outcome in self.0 {
            let result = if outcome.result.is_ok() { "ok" } else { "FAILED" };
            write!(f, "{:<14} {result:<7} {:>7}", outcome.step, Minutes(outcome.took).to_string())?;
            match outcome.disk_free {
                Some(bytes) => writeln!(f, " {:>8}", bytes >> 30)?,
                None => writeln!(f)?,
            }
        }
        let total = Minutes(self.0.iter().map(|outcome| outcome.took).sum()).to_string();
        writeln!(f, "{:<14} {:<7} {total:>7}", "all", "")?;
        for outcome in self.0 {
            if let Err(error) = &outcome.result {
                writeln!(f, "\n{} failed: {error}", outcome.step)?;
            }
        }
        Ok(())
    }
}

/// Minutes and seconds.
pub(crate) struct Minutes(pub(crate) Duration);

impl fmt::Display for Minutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        write!(f, "{}:{:02}", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_its_row_and_every_failure_its_reason() {
        let outcomes = [
            StepOutcome {
                step: "format",
                result: Ok(()),
                took: Duration::from_millis(1_900),
                disk_free: Some(21 << 30),
            },
            StepOutcome {
                step: "tests",
                result: Err("two of them".to_owned()),
                took: Duration::from_secs(605),
                disk_free: None,
            },
        ];
        let expected = "\
step           result    min:s GiB free
format         ok         0:01       21
tests          FAILED    10:05
all                      10:06

tests failed: two of them
";
        assert_eq!(CiSummary(&outcomes).to_string(), expected);
    }
}
