//! Where a target's CPU time goes: its stacks as `perf` sampled them, and the flame graph of them.
//!
//! `record` runs perf beside a load, `fold` counts equal stacks, `weir_observe::flame` draws them as it does for a running Weir. Without perf, or without the right to use
//! it, a profile says why it is missing; nothing else of a run depends on it.

pub mod record;
pub mod fold;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_observe::flame::{self, KERNEL};

/// The profile of one target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// How many samples had which stack: frames from the outermost on, between semicolons; those of the kernel end in `_[k]`.
    Stacks(BTreeMap<String, u64>),
    /// Why there is none.
    Missing(String),
}

impl Profile {
    /// Its flame graph as SVG.
    ///
    /// # Errors
    /// Why there is none.
    pub fn svg(&self) -> Result<String, &str> {
        match self {
            Self::Stacks(stacks) => Ok(flame::svg("all", stacks)),
            Self::Missing(why) => Err(why),
        }
    }

    /// A note for the reader, in a sentence.
    pub fn sentence(&self) -> String {
        let stacks = match self {
            Self::Stacks(stacks) => stacks,
            Self::Missing(why) => return format!("no profile: {why}"),
        };
        let samples: u64 = stacks.values().sum();
        let in_kernel =
            stacks.iter().filter(|(stack, _)| stack.ends_with(KERNEL)).map(|(_, count)| count).sum::<u64>();
        let share = 100.0 * in_kernel as f64 / samples.max(1) as f64;
        format!("{samples} samples, {share:.0} % of them in the kernel")
    }
}
