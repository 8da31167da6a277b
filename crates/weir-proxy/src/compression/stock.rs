//! The codecs of one worker: how many are at work, the memory that is kept for the next ones, and what they cost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_http::ContentCoding;
use weir_observe::{CompressionRefusal, CompressionShard, WorkerShard};

use super::decoder::Decoder;
use super::encoder::{Blocks, BrotliEncoder, Encoder, GzipEncoder, Operation, ZstdEncoder};
use super::load::{CompressionLoad, lowered};
use super::progress::{CodecError, CodecProgress};
use crate::net::clock::{self, Instant};

/// Encoders that are kept for the next bodies, of each kind: short bodies come and go one after the other.
const KEPT_MAX: usize = 2;

/// Interval of the log line about levels that have fallen.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// How much a worker may do at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompressionLimits {
    /// The share of its time, in percent.
    pub(crate) time: u32,
    /// Bodies at a time.
    pub(crate) codecs_max: u32,
}

/// The codecs of one worker. Belongs to one thread.
pub(crate) struct CodecStock {
    shard: Arc<WorkerShard>,
    open: Cell<u32>,
    load: CompressionLoad,
    gzip: RefCell<Vec<GzipEncoder>>,
    zstd: RefCell<Vec<ZstdEncoder>>,
    reported_at: Cell<Option<Instant>>,
}

impl CodecStock {
    pub(crate) fn new(shard: &Arc<WorkerShard>) -> Rc<Self> {
        Rc::new(Self {
            shard: Arc::clone(shard),
            open: Cell::new(0),
            load: CompressionLoad::new(clock::now()),
            gzip: RefCell::default(),
            zstd: RefCell::default(),
            reported_at: Cell::new(None),
        })
    }

    pub(crate) fn counters(&self) -> &CompressionShard {
        &self.shard.compression
    }

    /// An encoder for a body, of this length if that is known; or why there is none.
    pub(crate) fn encoder(
        self: &Rc<Self>,
        coding: ContentCoding,
        level: u32,
        length: Option<u64>,
        limits: CompressionLimits,
        now: Instant,
    ) -> Result<CodecLease, CompressionRefusal> {
        let step = self.judge(limits, now);
        if !self.load.may_begin(limits.time) {
            return Err(CompressionRefusal::Load);
        }
        self.try_open(limits)?;
        // From here on the lease gives the place back.
        let mut lease = CodecLease { codec: None, stock: Rc::clone(self), is_open: true };
        lease.codec = Some(Codec::Encoder(self.make_encoder(coding, lowered(level, step), length)?));
        self.counters().compressed[coding as usize].increment();
        Ok(lease)
    }

    /// A decoder for a body; or why there is none.
    pub(crate) fn decoder(
        self: &Rc<Self>,
        coding: ContentCoding,
        limits: CompressionLimits,
    ) -> Result<CodecLease, CompressionRefusal> {
        self.try_open(limits)?;
        let mut lease = CodecLease { codec: None, stock: Rc::clone(self), is_open: true };
        lease.codec = Some(Codec::Decoder(Decoder::new(coding).map_err(|_| CompressionRefusal::Limit)?));
        self.counters().decompressed[coding as usize].increment();
        Ok(lease)
    }

    fn try_open(&self, limits: CompressionLimits) -> Result<(), CompressionRefusal> {
        if self.open.get() >= limits.codecs_max {
            return Err(CompressionRefusal::Limit);
        }
        self.open.set(self.open.get() + 1);
        self.counters().open.increment();
        Ok(())
    }

    fn make_encoder(
        &self,
        coding: ContentCoding,
        level: u32,
        length: Option<u64>,
    ) -> Result<Encoder, CompressionRefusal> {
        Ok(match coding {
            ContentCoding::Gzip => {
                let kept = self.gzip.borrow_mut().pop();
                let kept = kept.and_then(|mut encoder| encoder.begin(level).then_some(encoder));
                Encoder::Gzip(kept.unwrap_or_else(|| GzipEncoder::new(level)))
            }
            ContentCoding::Brotli => {
                Encoder::Brotli(Blocks::new(Box::new(BrotliEncoder::new(level, length))))
            }
            ContentCoding::Zstd => {
                let kept = self.zstd.borrow_mut().pop();
                let begun = ZstdEncoder::begin(kept, level, length);
                Encoder::Zstd(Blocks::new(begun.map_err(|_| CompressionRefusal::Limit)?))
            }
        })
    }

    /// The present step, which is told when it has risen.
    fn judge(&self, limits: CompressionLimits, now: Instant) -> u8 {
        let step = self.load.step(now, limits.time);
        let gauge = &self.counters().step;
        let before = gauge.value();
        if before != i64::from(step) {
            gauge.set(i64::from(step));
            if before < i64::from(step) {
                self.report(step, limits.time, now);
            }
        }
        step
    }

    #[cold]
    fn report(&self, step: u8, time: u32, now: Instant) {
        if self.reported_at.get().is_some_and(|at| now < at + REPORT_INTERVAL) {
            return;
        }
        self.reported_at.set(Some(now));
        tracing::warn!(
            step,
            "compression takes more than {time}% of a worker's time: its levels have fallen until there is less to compress \
             (`process.compression_time`)"
        );
    }

    /// Counts time that a codec has taken.
    pub(crate) fn charge(&self, nanos: u64) {
        self.load.charge(nanos);
        self.counters().nanos.add(nanos);
    }

    fn keep(&self, encoder: Encoder) {
        fn keep<T>(kept: &RefCell<Vec<T>>, one: T) {
            let mut kept = kept.borrow_mut();
            if kept.len() < KEPT_MAX {
                kept.push(one);
            }
        }
        match encoder {
            Encoder::Gzip(encoder) => keep(&self.gzip, encoder),
            Encoder::Zstd(encoder) => keep(&self.zstd, encoder.encoder),
            // Its memory cannot be used again.
            Encoder::Brotli(_) => {}
        }
    }
}

impl std::fmt::Debug for CodecStock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodecStock")
            .field("open", &self.open)
            .field("load", &self.load)
            .finish_non_exhaustive()
    }
}

/// What changes a body.
enum Codec {
    Encoder(Encoder),
    Decoder(Decoder),
}

/// A codec at work on one body; its memory goes back to the worker.
pub(crate) struct CodecLease {
    codec: Option<Codec>,
    stock: Rc<CodecStock>,
    /// Whether it counts among those at work.
    is_open: bool,
}

impl CodecLease {
    /// A step of the codec, which is not over.
    ///
    /// # Errors
    /// When the body is broken or has ended too early.
    pub(crate) fn step(
        &mut self,
        data: &[u8],
        operation: Operation,
        out: &mut [u8],
    ) -> Result<CodecProgress, CodecError> {
        match &mut self.codec {
            Some(Codec::Encoder(encoder)) => encoder.step(data, operation, out),
            Some(Codec::Decoder(decoder)) => {
                let progress = decoder.step(data, out)?;
                let is_cut = operation == Operation::Finish && progress.is_done && !decoder.is_whole();
                if is_cut { Err(CodecError::Broken) } else { Ok(progress) }
            }
            None => Err(CodecError::Broken),
        }
    }

    pub(crate) fn is_decoder(&self) -> bool {
        matches!(self.codec, Some(Codec::Decoder(_)))
    }

    pub(crate) fn stock(&self) -> &CodecStock {
        &self.stock
    }

    /// The body is over: nothing of it is kept any more.
    pub(crate) fn end(&mut self) {
        if let Some(Codec::Encoder(encoder)) = self.codec.take() {
            self.stock.keep(encoder);
        }
        if std::mem::take(&mut self.is_open) {
            self.stock.open.set(self.stock.open.get() - 1);
            self.stock.counters().open.decrement();
        }
    }
}

impl Drop for CodecLease {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for CodecLease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match &self.codec {
            None => "over",
            Some(Codec::Encoder(encoder)) => encoder.coding().name(),
            Some(Codec::Decoder(_)) => "decoder",
        };
        f.debug_tuple("CodecLease").field(&name).finish()
    }
}
