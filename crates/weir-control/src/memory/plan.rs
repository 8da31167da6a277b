//! What the budget is divided into at start: the maxima of the config, in one line, and warnings where they are beyond it.
//!
//! Connections have no fixed part: they get what the rest leaves, and the steps are for them.

use std::fmt;

use weir_config::{Config, Size};

/// Of the budget, all buffers together get one in so many at most.
const BUFFERS_ONE_IN: u64 = 2;

/// A cache may have so much of the budget (the step at which caches shrink) before the operator is told that it is too large.
const CACHES_PERCENT: u64 = 60;

/// Bytes of a recorded exchange, and of a failed one.
const RECORDED_BYTES: u64 = 576;
const FAILED_BYTES: u64 = 1024;

/// The budget and its parts, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlan {
    /// The budget; `None`: none.
    pub max: Option<u64>,
    /// Buffers over all workers.
    pub buffers_max: u32,
    buffer_bytes: u64,
    caches: u64,
    /// What the flight recorder takes when it is full.
    pub(super) recorder: u64,
}

impl MemoryPlan {
    /// The parts of a budget of `max` bytes by `config`, with so many workers.
    pub fn new(max: Option<u64>, config: &Config, workers: usize) -> Self {
        let process = &config.process;
        let buffer_bytes = process.buffer_size.bytes();
        let affordable = max.map_or(u64::MAX, |max| max / BUFFERS_ONE_IN / buffer_bytes);
        // As many as the least value of the key.
        let affordable = u32::try_from(affordable).unwrap_or(u32::MAX).max(16);
        let (recorder, workers) = (&config.recorder, workers as u64);
        Self {
            max,
            buffers_max: process.buffers_max.min(affordable),
            buffer_bytes,
            caches: config.caches.iter().map(|cache| cache.memory).sum(),
            recorder: workers
                * (u64::from(recorder.exchanges) * RECORDED_BYTES
                    + u64::from(recorder.failures) * FAILED_BYTES),
        }
    }

    /// Warnings for the operator: maxima of `config` that cannot be reached.
    pub fn warnings(&self, config: &Config) -> Vec<String> {
        let Some(max) = self.max else { return Vec::new() };
        let mut warnings = Vec::new();
        if self.caches > max / 100 * CACHES_PERCENT {
            let names: Vec<String> =
                config.caches.iter().map(|cache| format!("`cache.{}.memory`", cache.name)).collect();
            warnings.push(format!(
                "{} of {} cannot be had: the memory budget (`process.memory_max`) is {}; near it, caches shrink first. Lower it, or raise the budget",
                names.join(" and "),
                shown(self.caches),
                shown(max)
            ));
        }
        if self.buffers_max < config.process.buffers_max && config.process.buffers_max != BUFFERS_DEFAULT {
            warnings.push(format!(
                "`process.buffers_max = {}` cannot be had: buffers get half of the memory budget (`process.memory_max`), which is {} of them. Lower \
                 it, or raise the budget to {}",
                config.process.buffers_max,
                self.buffers_max,
                shown(u64::from(config.process.buffers_max) * self.buffer_bytes * BUFFERS_ONE_IN)
            ));
        }
        warnings
    }
}

/// The default of `process.buffers_max`, of which the start says nothing where the budget allows fewer.
const BUFFERS_DEFAULT: u32 = 65_536;

/// The sum in one line.
impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buffers = u64::from(self.buffers_max) * self.buffer_bytes;
        match self.max {
            Some(max) => write!(f, "{} at most", shown(max))?,
            None => write!(f, "no limit")?,
        }
        write!(
            f,
            "; up to {} for buffers, {} for caches, {} for the recorder",
            shown(buffers),
            shown(self.caches),
            shown(self.recorder)
        )
    }
}

/// Bytes in MiB, for people.
fn shown(bytes: u64) -> String {
    match bytes {
        0 => "0 MiB".to_owned(),
        small if small < 1 << 20 => Size::from_bytes(small).to_string(),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &str) -> Config {
        let text = format!(
            "listener.web = {{ address = \":0\", upstream = \"app\" }}\nupstream.app.servers = [\"127.0.0.1:1\"]\n{settings}"
        );
        Config::parse(&text, "test.toml").expect("the config is good")
    }

    #[test]
    fn buffers_get_half_of_the_budget() {
        let config = config("");
        assert_eq!(MemoryPlan::new(None, &config, 2).buffers_max, 65_536);
        let plan = MemoryPlan::new(Some(256 << 20), &config, 2);
        assert_eq!((plan.buffers_max, plan.warnings(&config)), (8_192, Vec::new()));
        assert_eq!(MemoryPlan::new(Some(16 << 10), &config, 2).buffers_max, 16);
        assert_eq!(
            plan.to_string(),
            "256 MiB at most; up to 128 MiB for buffers, 0 MiB for caches, 6 MiB for the recorder"
        );
    }

    #[test]
    fn maxima_beyond_the_budget_are_told() {
        let config = config("process.buffers_max = 20000\ncache.pages.memory = \"200MiB\"\n");
        let plan = MemoryPlan::new(Some(256 << 20), &config, 2);
        let warnings = plan.warnings(&config);
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        assert!(warnings[0].starts_with("`cache.pages.memory` of 200 MiB cannot be had"), "{warnings:?}");
        assert!(
            warnings[1].contains("which is 8192 of them") && warnings[1].ends_with("to 625 MiB"),
            "{warnings:?}"
        );
        assert!(MemoryPlan::new(Some(1 << 30), &config, 2).warnings(&config).is_empty());
        assert!(MemoryPlan::new(None, &config, 2).warnings(&config).is_empty());
    }
}
