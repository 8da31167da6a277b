//! Where the memory is: what the kernel says of every page of the process, beside what Weir has taken itself.
//!
//! The two are counted independently of each other: what they differ by is shown, not explained away.

use std::io;
use std::ops::Range;

use serde::Serialize;

use super::maps::{Mapping, mapping};
use crate::system::threads::registered;

/// Everything about the memory of the process, in bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MemoryProfile {
    /// What is in memory now: the sum of `kinds`.
    pub(crate) resident_bytes: u64,
    /// Addresses in use, whether there is memory behind them or not.
    pub(crate) mapped_bytes: u64,
    pub(crate) swapped_bytes: u64,
    /// Kinds of memory; each page is in one.
    pub(crate) kinds: Vec<MemoryKind>,
    /// What Weir knows to have taken of `heap`.
    pub(crate) classes: Vec<MemoryClass>,
    /// The sum of `classes`.
    pub(crate) accounted_bytes: u64,
    /// What of `heap` is in no class. Below 0 where memory was taken and never written to.
    pub(crate) unaccounted_bytes: i64,
}

/// One kind of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct MemoryKind {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) resident_bytes: u64,
    pub(crate) mapped_bytes: u64,
    pub(crate) swapped_bytes: u64,
}

/// Things of one sort that Weir counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct MemoryClass {
    pub(crate) name: &'static str,
    pub(crate) count: u64,
    /// Bytes of one.
    pub(crate) each_bytes: u64,
    pub(crate) bytes: u64,
}

impl MemoryClass {
    pub(crate) fn new(name: &'static str, count: u64, each_bytes: usize) -> Self {
        let each_bytes = each_bytes as u64;
        Self { name, count, each_bytes, bytes: count.saturating_mul(each_bytes) }
    }
}

const HEAP: usize = 0;
const STACKS: usize = 1;
const SHARED: usize = 2;
const FILES: usize = 3;
const ANONYMOUS: usize = 4;

const KINDS: [(&str, &str); 5] = [
    ("heap", "what the allocator has from the system"),
    ("stacks", "stacks of threads"),
    ("shared", "memory shared with other processes or the kernel"),
    ("files", "code and data of mapped files, which the system can drop and read again"),
    ("anonymous", "pages of files that were written to, and what else is the process's own"),
];

impl MemoryProfile {
    /// What it is now, with what Weir says that it has taken.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub(crate) fn now(classes: Vec<MemoryClass>) -> io::Result<Self> {
        let stacks: Vec<_> = registered().into_iter().map(|registered| registered.thread.stack).collect();
        Ok(Self::new(&std::fs::read_to_string("/proc/self/smaps")?, &stacks, classes))
    }

    fn new(smaps: &str, stacks: &[Range<usize>], classes: Vec<MemoryClass>) -> Self {
        let mut kinds = KINDS.map(|(name, what)| MemoryKind {
            name,
            what,
            resident_bytes: 0,
            mapped_bytes: 0,
            swapped_bytes: 0,
        });
        for area in areas(smaps) {
            let kind = kind_of(&area.mapping, stacks);
            // Pages of a file that were written to are no longer those of the file.
            let own = if kind == FILES { area.anonymous.min(area.resident) } else { 0 };
            kinds[kind].resident_bytes += area.resident - own;
            kinds[ANONYMOUS].resident_bytes += own;
            kinds[kind].mapped_bytes += area.mapping.range.end.saturating_sub(area.mapping.range.start);
            kinds[if kind == FILES { ANONYMOUS } else { kind }].swapped_bytes += area.swapped;
        }
        let sum = |of: fn(&MemoryKind) -> u64| kinds.iter().map(of).sum::<u64>();
        let accounted_bytes: u64 = classes.iter().map(|class| class.bytes).sum();
        Self {
            resident_bytes: sum(|kind| kind.resident_bytes),
            mapped_bytes: sum(|kind| kind.mapped_bytes),
            swapped_bytes: sum(|kind| kind.swapped_bytes),
            accounted_bytes,
            unaccounted_bytes: kinds[HEAP].resident_bytes.cast_signed() - accounted_bytes.cast_signed(),
            kinds: kinds.into(),
            classes,
        }
    }
}

/// A mapping and its pages.
#[derive(Debug)]
struct MappedArea {
    mapping: Mapping,
    resident: u64,
    anonymous: u64,
    swapped: u64,
}

/// All areas that the text of `/proc/self/smaps` tells of.
fn areas(smaps: &str) -> Vec<MappedArea> {
    let mut areas: Vec<MappedArea> = Vec::new();
    for line in smaps.lines() {
        if let Some(mapping) = mapping(line) {
            areas.push(MappedArea { mapping, resident: 0, anonymous: 0, swapped: 0 });
            continue;
        }
        let (Some(area), Some((key, value))) = (areas.last_mut(), line.split_once(':')) else { continue };
        let place = match key {
            "Rss" => &mut area.resident,
            "Anonymous" => &mut area.anonymous,
            "Swap" => &mut area.swapped,
            _ => continue,
        };
        *place = value.trim().strip_suffix(" kB").and_then(|number| number.parse().ok()).unwrap_or(0) * 1024;
    }
    areas
}

fn kind_of(mapping: &Mapping, stacks: &[Range<usize>]) -> usize {
    let holds = |stack: &Range<usize>| {
        let (low, high) = (stack.start as u64, stack.end as u64);
        mapping.range.start < high && low < mapping.range.end
    };
    if mapping.is_shared {
        SHARED
    } else if mapping.has_file {
        FILES
    } else if mapping.name.starts_with("[stack") || stacks.iter().any(holds) {
        STACKS
    } else if mapping.name == "[heap]"
        || mapping.name.starts_with("[anon:")
        || mapping.name.is_empty() && mapping.is_writable
    {
        HEAP
    } else {
        ANONYMOUS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
555500000000-555500100000 r-xp 00000000 fe:00 1234 /usr/bin/weir
Size:               1024 kB
Rss:                 512 kB
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
555500200000-555500300000 rw-p 00100000 fe:00 1234 /usr/bin/weir
Rss:                  64 kB
Anonymous:            48 kB
Swap:                  8 kB
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
Rss:                2048 kB
Anonymous:          2048 kB
7f0000400000-7f0000600000 rw-p 00000000 00:00 0
Rss:                 100 kB
7f0000700000-7f0000800000 rw-s 00000000 00:01 77 /memfd:ring (deleted)
Rss:                  12 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
Rss:                  20 kB
7ffc00100000-7ffc00104000 r--p 00000000 00:00 0 [vvar]
Rss:                   0 kB
";

    #[test]
    fn every_page_is_in_one_kind() {
        let classes = vec![
            MemoryClass::new("buffers", 3, 16 * 1024),
            MemoryClass::new("client connections", 1000, 2048),
        ];
        let stack = 0x7f00_0040_1000..0x7f00_0060_0000;
        let profile = MemoryProfile::new(SMAPS, &[stack], classes);
        let kinds: Vec<_> =
            profile.kinds.iter().map(|kind| (kind.name, kind.resident_bytes / 1024)).collect();
        let expected = [("heap", 2048), ("stacks", 120), ("shared", 12), ("files", 528), ("anonymous", 48)];
        assert_eq!(kinds, expected);
        assert_eq!(profile.resident_bytes, (2048 + 120 + 12 + 528 + 48) * 1024);
        assert_eq!((profile.swapped_bytes, profile.kinds[ANONYMOUS].swapped_bytes), (8192, 8192));
        assert_eq!(profile.accounted_bytes, 48 * 1024 + 2_048_000);
        assert_eq!(profile.unaccounted_bytes, 0);
        let all = profile.kinds.iter().map(|kind| kind.mapped_bytes).sum::<u64>();
        assert_eq!((profile.mapped_bytes, all / 1024), (all, 1024 + 1024 + 2048 + 2048 + 1024 + 132 + 16));
    }

    #[test]
    fn what_was_never_written_to_is_below_nothing() {
        let profile = MemoryProfile::new("", &[], vec![MemoryClass::new("buffers", 1, 4096)]);
        assert_eq!((profile.resident_bytes, profile.unaccounted_bytes), (0, -4096));
    }

    #[test]
    fn this_process_has_some_of_each() {
        let profile = MemoryProfile::now(Vec::new()).unwrap();
        for place in [HEAP, STACKS, FILES] {
            assert!(profile.kinds[place].resident_bytes > 0, "{profile:?}");
        }
    }
}
