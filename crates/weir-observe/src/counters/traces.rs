//! Counts of traces on their way to the collector: the spans that it took, and why the others were lost.
//!
//! A closed set of reasons, as they become labels. Exchanges that are lost before they are spans are counted by the workers.

/// Why spans did not reach the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TraceLoss {
    /// The collector said that it does not want them.
    Refused,
    /// It could not be reached, and newer ones needed the room.
    Undelivered,
    /// Weir has stopped, or was configured with another collector, before they could be sent.
    Stopped,
}

impl TraceLoss {
    /// How many reasons there are.
    pub const COUNT: usize = 3;

    /// Every reason; `loss as usize` is its index.
    pub const ALL: [TraceLoss; TraceLoss::COUNT] =
        [TraceLoss::Refused, TraceLoss::Undelivered, TraceLoss::Stopped];

    /// The stable lower-case name: metric label, word in the log.
    pub const fn name(self) -> &'static str {
        match self {
            TraceLoss::Refused => "refused",
            TraceLoss::Undelivered => "undelivered",
            TraceLoss::Stopped => "stopped",
        }
    }
}

/// The counts since the start, over all collectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceStats {
    /// Spans that a collector took.
    pub spans_exported: u64,
    /// Spans that were lost, in the order of [`TraceLoss::ALL`].
    pub spans_dropped: [u64; TraceLoss::COUNT],
    /// Failed requests to a collector, including those that were repeated.
    pub exports_failed: u64,
}
