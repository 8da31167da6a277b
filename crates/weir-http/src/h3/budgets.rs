//! What a peer may do often for a moment, but not for long: the floods of frames, streams and resets that cost it little.

use super::fault::Http3Fault;
use crate::message::rule::Rule;
use crate::multiplexed::bucket::Bucket;

/// Frames that mean nothing, or next to nothing, which each request may come with besides the budget: those that a client sends lest they become faults.
const FRAMES_PER_REQUEST: u16 = 2;

/// Insertions into the table that each request may come with besides the budget.
const INSERTIONS_PER_REQUEST: u16 = 32;

/// The budgets of one peer. Time is given by the caller, in milliseconds from any fixed moment.
#[derive(Debug, Clone, Copy)]
pub struct PeerBudgets {
    /// Frames and streams.
    control: Bucket,
    /// Streams that end before their time.
    resets: Bucket,
    /// Instructions on the encoder stream.
    pub(super) instructions: Bucket,
}

impl PeerBudgets {
    pub(super) const fn new() -> Self {
        Self {
            control: Bucket::new(1_000, 100),
            resets: Bucket::new(200, 20),
            instructions: Bucket::new(4_000, 400),
        }
    }

    /// A request was taken.
    pub(super) fn earn_by_request(&mut self) {
        self.control.earn(FRAMES_PER_REQUEST);
        self.instructions.earn(INSERTIONS_PER_REQUEST);
    }

    /// Charges a frame or a stream that costs the peer little. All draw from one budget; `rule` is broken by the one that exhausts it.
    pub(super) fn charge_control(&mut self, now: u64, rule: Rule) -> Result<(), Http3Fault> {
        if self.control.take(now) { Ok(()) } else { Err(Http3Fault::excessive_load(rule)) }
    }

    /// Charges a request that the peer ended before its time: by a reset, or by STOP_SENDING (rapid reset, CVE-2023-44487).
    ///
    /// # Errors
    /// The fault of the connection, when there were too many.
    pub fn charge_reset(&mut self, now: u64) -> Result<(), Http3Fault> {
        self.charge(now, Rule::Http3TooManyResets)
    }

    /// Charges a request that we have to reset for a fault of the peer (MadeYouReset, CVE-2025-8671), or to reject since there are too many.
    ///
    /// # Errors
    /// The fault of the connection, when there were too many.
    pub fn charge_fault(&mut self, now: u64) -> Result<(), Http3Fault> {
        self.charge(now, Rule::Http3TooManyFaults)
    }

    fn charge(&mut self, now: u64, rule: Rule) -> Result<(), Http3Fault> {
        if self.resets.take(now) { Ok(()) } else { Err(Http3Fault::excessive_load(rule)) }
    }
}
