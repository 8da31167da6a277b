//! SampledExchange exchanges on their way from the workers to the thread that exports their spans.
//!
//! A worker hands over a copy of fixed size and goes on: it never waits, and a copy for which the queue has no room is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use weir_http::Traceparent;

use super::recorder::RecordedExchange;

/// The place of an exchange in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExchangeSpan {
    /// The trace, and the span of the exchange itself.
    pub traceparent: Traceparent,
    /// The span of the client that it was made in; 0 when the trace begins here.
    pub parent_id: u64,
    /// Whether the client used HTTP/1.0.
    pub is_http_10: bool,
}

/// Tells the ids of the spans of one exchange apart.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

impl ExchangeSpan {
    /// The id of the span of an attempt, the first of which is 1.
    pub fn attempt_id(&self, attempt: u8) -> u64 {
        match self.traceparent.span_id ^ u64::from(attempt).wrapping_mul(STRIDE) {
            0 => STRIDE.rotate_left(17),
            id => id,
        }
    }

    /// The id of the span of its wait in the queue.
    pub fn queue_id(&self) -> u64 {
        match !self.traceparent.span_id {
            0 => STRIDE.rotate_left(34),
            id => id,
        }
    }
}

/// A sampled exchange that is over.
#[derive(Debug)]
pub struct SampledExchange {
    /// Its place in its trace.
    pub own: ExchangeSpan,
    /// The recorded exchange.
    pub recorded: RecordedExchange,
    /// The path that servers got, when a rewrite changed it, without the query.
    pub rewritten: Option<Box<[u8]>>,
}

// What the reference of the config says about the memory.
const _: () = assert!(size_of::<SampledExchange>() <= 1200);

/// What the thread that exports receives.
pub enum TraceMessage {
    /// A sampled exchange that is over.
    Sampled(Box<SampledExchange>),
    /// Nothing more comes.
    End,
}

/// Where workers hand over what is sampled.
#[derive(Debug)]
pub struct TraceSender {
    sender: Sender<TraceMessage>,
    /// The length of the queue.
    pub queue: Arc<TraceQueue>,
}

/// How much waits, and how long there is for it; shared with the thread, which must not hold the sender.
#[derive(Debug)]
pub struct TraceQueue {
    waiting: AtomicUsize,
    waiting_max: usize,
    /// Whether the thread is to send what it has and end.
    is_ending: AtomicBool,
}

impl TraceQueue {
    /// One less waits.
    pub fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether so many wait.
    pub fn holds(&self, count: usize) -> bool {
        self.waiting.load(Ordering::Relaxed) >= count
    }

    /// Whether the queue has no room.
    pub fn is_full(&self) -> bool {
        self.holds(self.waiting_max)
    }

    /// Whether the thread is to send what it has and end.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

impl TraceSender {
    /// A queue of this length, and its other end.
    pub fn new(waiting_max: usize) -> (Self, Receiver<TraceMessage>) {
        let (sender, receiver) = channel();
        let queue =
            TraceQueue { waiting: AtomicUsize::new(0), waiting_max, is_ending: AtomicBool::new(false) };
        (Self { sender, queue: Arc::new(queue) }, receiver)
    }

    /// Takes one; `false` when there is no room.
    pub(crate) fn send(&self, sampled: impl FnOnce() -> Box<SampledExchange>) -> bool {
        let queue = &self.queue;
        if queue.waiting.fetch_add(1, Ordering::Relaxed) < queue.waiting_max
            && self.sender.send(TraceMessage::Sampled(sampled())).is_ok()
        {
            return true;
        }
        queue.leave();
        false
    }

    /// Has the thread send what it has and end.
    pub fn end(&self) {
        self.queue.is_ending.store(true, Ordering::Relaxed);
        let _ended_already = self.sender.send(TraceMessage::End);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_span_of_an_exchange_has_its_own_id() {
        for span_id in [1, 2, STRIDE, STRIDE.wrapping_mul(7), u64::MAX] {
            let traceparent = Traceparent { trace_id: 1, span_id, is_sampled: true };
            let own = ExchangeSpan { traceparent, parent_id: 0, is_http_10: false };
            let mut ids: BTreeSet<u64> = (1..=16).map(|attempt| own.attempt_id(attempt)).collect();
            ids.extend([span_id, own.queue_id()]);
            assert!(!ids.contains(&0), "0 is no id");
            assert_eq!(ids.len(), 18, "{span_id}: {ids:?}");
        }
    }
}
