//! A profile of the CPU time: samples every thread of Weir for a while, and counts equal stacks.
//!
//! Runs on a thread of its own, which is not sampled. What it keeps is bounded: slots for samples, a number of different stacks, and the
//! names of what is on them, which go when the profile is answered.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::time::Duration;

use weir_observe::flame;

use super::images::Image;
use super::symbols::Symbols;
use super::unwind::{Stack, Unwinder};
use crate::system::sys::sampling::{SampledThread, Sampler};
use crate::system::threads::registered;
use weir_proxy::net::{clock, memory};

/// Samples per second of CPU time of each thread: few enough that what they cost is not seen, and no divisor of the kernel's ticks.
const PER_SECOND: u32 = 99;

/// How often samples are taken out of their slots.
const DRAIN_PAUSE: Duration = Duration::from_millis(10);

/// Addresses that all different stacks together may have; what comes beyond is counted by its thread only.
const ADDRESSES_MAX: usize = 1 << 20;

const BEYOND: &str = "[more stacks than are kept]";
const CUT_OFF: &str = "[cut off]";

/// What was sampled.
#[derive(Debug)]
pub(crate) struct CpuProfile {
    /// How many samples had which stack: the thread, then functions from the outermost on, between semicolons.
    pub(crate) stacks: BTreeMap<String, u64>,
    pub(crate) length: Duration,
    /// Samples that came while all slots were full.
    pub(crate) lost: u64,
}

impl CpuProfile {
    /// What it is, in a line.
    pub(crate) fn title(&self) -> String {
        let samples: u64 = self.stacks.values().sum();
        let lost = if self.lost > 0 { format!(", {} lost", self.lost) } else { String::new() };
        format!(
            "weir {}: {samples} samples in {} s, {PER_SECOND} per second of CPU time of a thread{lost}",
            env!("CARGO_PKG_VERSION"),
            self.length.as_secs_f64()
        )
    }

    /// Its flame graph.
    pub(crate) fn svg(&self) -> String {
        flame::svg(&self.title(), &self.stacks)
    }

    /// Its stacks as text.
    pub(crate) fn folded(&self) -> String {
        flame::folded(&self.stacks)
    }
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoProfile {
    /// Another one is being taken.
    #[error("A profile is being taken already; there is one at a time.")]
    Busy,
    /// The system refuses what is needed.
    #[error(
        "The system gives no timers for samples: {0}. They need `timer_create` (`@timer` of systemd's SystemCallFilter) and a place \
         for one signal per thread (`ulimit -i`)."
    )]
    NoTimers(io::Error),
    /// It is not known what is where.
    #[error("/proc of this process cannot be read: {0}. Profiles need it mounted.")]
    NoMaps(io::Error),
    /// The client has closed its connection.
    #[error("The client no longer waits for the profile.")]
    Unwanted,
}

/// Samples for `length`, on the thread that calls; ends early once the profile is not wanted any more.
///
/// # Errors
/// When there can be no profile, with what to do about it.
pub(crate) fn profile(length: Duration, is_wanted: impl Fn() -> bool) -> Result<CpuProfile, NoProfile> {
    let threads = registered();
    let images = Image::all().map_err(NoProfile::NoMaps)?;
    let mut unwinder = Unwinder::new(&images);
    let sampled: Vec<SampledThread> = threads.iter().map(|registered| registered.thread.clone()).collect();
    let sampler = Sampler::begin(sampled, Duration::from_secs(1) / PER_SECOND)
        .map_err(NoProfile::NoTimers)?
        .ok_or(NoProfile::Busy)?;
    let mut counts = StackCounts::default();
    let end = clock::now() + length;
    while clock::now() < end {
        if !is_wanted() {
            return Err(NoProfile::Unwanted);
        }
        clock::pause(DRAIN_PAUSE.min(end.saturating_duration_since(clock::now())));
        sampler.drain(|sample| counts.add(unwinder.stack(sample)));
    }
    let lost = sampler.lost();
    // Nothing is interrupted while names are looked up.
    drop((sampler, unwinder));
    let mut symbols = Symbols::new(images);
    let name_of = |thread: usize| threads.get(thread).map_or("unnamed", |registered| &*registered.name);
    let stacks = counts.named(name_of, &mut symbols);
    drop(symbols);
    // The debug information of the program took tens of MiB, which this thread would leave to the next profile.
    memory::give_back();
    Ok(CpuProfile { stacks, length, lost })
}

/// Equal stacks and their numbers.
#[derive(Debug, Default)]
struct StackCounts {
    stacks: HashMap<Stack, u64>,
    /// Addresses of all of them.
    addresses: usize,
    /// Of each thread, those that were not kept.
    beyond: HashMap<usize, u64>,
}

impl StackCounts {
    fn add(&mut self, stack: Stack) {
        if let Some(count) = self.stacks.get_mut(&stack) {
            *count += 1;
        } else if self.addresses + stack.addresses.len() > ADDRESSES_MAX {
            *self.beyond.entry(stack.thread).or_default() += 1;
        } else {
            self.addresses += stack.addresses.len();
            self.stacks.insert(stack, 1);
        }
    }

    fn named<'a>(self, thread: impl Fn(usize) -> &'a str, symbols: &mut Symbols) -> BTreeMap<String, u64> {
        let mut named = BTreeMap::new();
        for (stack, count) in self.stacks {
            let mut text = thread(stack.thread).to_owned();
            if !stack.is_whole {
                text.push(';');
                text.push_str(CUT_OFF);
            }
            for address in stack.addresses.iter().rev() {
                for function in symbols.functions(*address).iter().rev() {
                    text.push(';');
                    text.push_str(function);
                }
            }
            *named.entry(text).or_insert(0) += count;
        }
        for (place, count) in self.beyond {
            *named.entry(format!("{};{BEYOND}", thread(place))).or_insert(0) += count;
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_counted_and_others_are_bounded() {
        let stack = |thread: usize, addresses: Vec<u64>| Stack {
            thread,
            addresses: addresses.into(),
            is_whole: true,
        };
        let mut counts = StackCounts::default();
        counts.add(stack(0, vec![1, 2]));
        counts.add(stack(0, vec![1, 2]));
        counts.add(Stack { is_whole: false, ..stack(1, vec![3]) });
        counts.add(stack(1, vec![0; ADDRESSES_MAX]));
        counts.add(stack(1, vec![0; ADDRESSES_MAX - 3]));
        counts.add(stack(0, vec![4]));
        let named = counts.named(|thread| ["one", "two"][thread], &mut Symbols::new(Vec::new()));
        let named: Vec<(String, u64)> = named.into_iter().filter(|(stack, _)| stack.len() < 1000).collect();
        let expected = [
            ("one;[more stacks than are kept]".to_owned(), 1),
            ("one;[unknown];[unknown]".to_owned(), 2),
            ("two;[cut off];[unknown]".to_owned(), 1),
            ("two;[more stacks than are kept]".to_owned(), 1),
        ];
        assert_eq!(named, expected);
    }
}
