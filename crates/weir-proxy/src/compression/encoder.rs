//! The three encoders, with windows that bound their memory.
//!
//! gzip has the window and the tables that zlib has by default (370 KiB in all). Brotli and Zstandard get windows of 256 KiB (1.5 MiB in
//! all), and have to encode after 32 KiB what they would gather up to ten times as long: a step then takes half a millisecond at most instead of
//! several, and the output grows by no more than 1%.

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use weir_http::ContentCoding;
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Status};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

use super::progress::{CodecError, CodecProgress};

/// The window of gzip in bits, with its header and trailer.
const GZIP_WINDOW_BITS: i32 = 15 + 16;

/// The tables of gzip: 16 384 symbols per block.
const GZIP_MEMORY_LEVEL: i32 = 8;

/// Input that Brotli and Zstandard gather before they encode it.
const BLOCK_MAX: usize = 32 * 1024;

/// The window of Brotli in bits.
const BROTLI_WINDOW_BITS: u32 = 18;

/// The least that it can be told to gather, in bits.
const BROTLI_BLOCK_BITS: u32 = 16;

/// The longest body that Brotli is told of: for longer ones it takes tables of 4 MiB and more.
const BROTLI_HINT_MAX: u64 = 512 * 1024;

/// The window of Zstandard in bits.
const ZSTD_WINDOW_BITS: u32 = 18;

/// The tables of Zstandard, in bits of their number of entries.
const ZSTD_TABLE_BITS: u32 = 16;

/// What is wanted of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// More input, and whatever comes out.
    Write,
    /// All that was taken, so that it can be decoded now.
    Flush,
    /// The same, and the end of the body.
    Finish,
}

/// An encoder at work on one body.
pub(crate) enum Encoder {
    Gzip(GzipEncoder),
    Brotli(Blocks<Box<BrotliEncoder>>),
    Zstd(Blocks<ZstdEncoder>),
}

impl Encoder {
    pub(super) fn coding(&self) -> ContentCoding {
        match self {
            Self::Gzip(_) => ContentCoding::Gzip,
            Self::Brotli(_) => ContentCoding::Brotli,
            Self::Zstd(_) => ContentCoding::Zstd,
        }
    }

    /// Takes some of `data`, which is empty unless it is written, and fills some of `out`.
    pub(crate) fn step(
        &mut self,
        data: &[u8],
        operation: Operation,
        out: &mut [u8],
    ) -> Result<CodecProgress, CodecError> {
        match self {
            Self::Gzip(encoder) => encoder.step(data, operation, out),
            Self::Brotli(encoder) => encoder.step(data, operation, out),
            Self::Zstd(encoder) => encoder.step(data, operation, out),
        }
    }
}

/// An encoder that would gather much before it encodes anything.
pub(super) trait BlockEncoder {
    fn step(
        &mut self,
        data: &[u8],
        operation: Operation,
        out: &mut [u8],
    ) -> Result<CodecProgress, CodecError>;
}

/// Its input in blocks.
pub(crate) struct Blocks<E> {
    pub(super) encoder: E,
    /// What the block has taken.
    taken: usize,
}

impl<E: BlockEncoder> Blocks<E> {
    pub(super) fn new(encoder: E) -> Self {
        Self { encoder, taken: 0 }
    }

    fn step(
        &mut self,
        data: &[u8],
        operation: Operation,
        out: &mut [u8],
    ) -> Result<CodecProgress, CodecError> {
        let mut produced = 0;
        if operation == Operation::Write && self.taken == BLOCK_MAX {
            let ended = self.encoder.step(&[], Operation::Flush, out)?;
            produced = ended.produced;
            if !ended.is_done || produced == out.len() {
                self.taken = if ended.is_done { 0 } else { BLOCK_MAX };
                return Ok(CodecProgress { consumed: 0, produced, is_done: false });
            }
            self.taken = 0;
        }
        let block = &data[..data.len().min(BLOCK_MAX - self.taken)];
        let progress = self.encoder.step(block, operation, &mut out[produced..])?;
        self.taken = if operation == Operation::Write { self.taken + progress.consumed } else { 0 };
        let is_done = progress.is_done && progress.consumed == data.len();
        Ok(CodecProgress { produced: produced + progress.produced, is_done, ..progress })
    }
}

/// gzip by zlib-rs.
pub(crate) struct GzipEncoder {
    deflate: Deflate,
    level: u32,
}

impl GzipEncoder {
    pub(super) fn new(level: u32) -> Self {
        let deflate = Deflate::new_with_config(DeflateConfig {
            level: zlib_level(level),
            window_bits: GZIP_WINDOW_BITS,
            mem_level: GZIP_MEMORY_LEVEL,
            ..DeflateConfig::default()
        });
        Self { deflate, level }
    }

    /// Begins another body; whether it can do so at this level.
    pub(super) fn begin(&mut self, level: u32) -> bool {
        self.deflate.reset();
        if self.level != level {
            self.level = level;
            return self.deflate.set_level(zlib_level(level)) == Ok(Status::Ok);
        }
        true
    }

    fn step(
        &mut self,
        data: &[u8],
        operation: Operation,
        out: &mut [u8],
    ) -> Result<CodecProgress, CodecError> {
        let flush = match operation {
            Operation::Write => DeflateFlush::NoFlush,
            Operation::Flush => DeflateFlush::SyncFlush,
            Operation::Finish => DeflateFlush::Finish,
        };
        let (in_before, out_before) = (self.deflate.total_in(), self.deflate.total_out());
        let status = self.deflate.compress(data, out, flush).map_err(|_| CodecError::NoMemory)?;
        let consumed = (self.deflate.total_in() - in_before) as usize;
        let produced = (self.deflate.total_out() - out_before) as usize;
        let is_done = match operation {
            Operation::Write => consumed == data.len(),
            // Only room that is left shows that nothing more is to come.
            Operation::Flush => produced < out.len(),
            Operation::Finish => status == Status::StreamEnd,
        };
        Ok(CodecProgress { consumed, produced, is_done })
    }
}

/// The level of zlib-rs whose output is as small as that of zlib at `level`, by measurements of text and HTML: it takes 0.4 to 0.9 of
/// the time. Its lowest level has no equal: it is twice as fast as the next, and a quarter larger.
const fn zlib_level(level: u32) -> i32 {
    match level {
        0 => 1,
        1 | 2 => 2,
        3 => 3,
        4 => 5,
        5 => 7,
        6 => 8,
        _ => 9,
    }
}

/// Brotli by the crate of that name.
pub(crate) struct BrotliEncoder(BrotliEncoderStateStruct<StandardAlloc>);

impl BrotliEncoder {
    pub(super) fn new(level: u32, length: Option<u64>) -> Self {
        let mut state = BrotliEncoderStateStruct::new(StandardAlloc::default());
        let hint = length.map_or(0, |length| length.min(BROTLI_HINT_MAX) as u32);
        for (parameter, value) in [
            (BrotliEncoderParameter::BROTLI_PARAM_QUALITY, level),
            (BrotliEncoderParameter::BROTLI_PARAM_LGWIN, BROTLI_WINDOW_BITS),
            (BrotliEncoderParameter::BROTLI_PARAM_LGBLOCK, BROTLI_BLOCK_BITS),
            (BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT, hint),
        ] {
            state.set_parameter(parameter, value);
        }
        Self(state)
    }
}

impl BlockEncoder for Box<BrotliEncoder> {
    fn step(
        &mut self,
        data: &[u8],
        operation: Operation,
        out: &mut [u8],
    ) -> Result<CodecProgress, CodecError> {
        let wanted = match operation {
            Operation::Write => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
            Operation::Flush => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
            Operation::Finish => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        };
        let (mut consumed, mut produced) = (0, 0);
        let has_worked = self.0.compress_stream(
            wanted,
            &mut data.len(),
            data,
            &mut consumed,
            &mut out.len(),
            out,
            &mut produced,
            &mut None,
            &mut |_, _, _, _| (),
        );
        if !has_worked {
            return Err(CodecError::Broken);
        }
        let is_done = match operation {
            Operation::Write => consumed == data.len(),
            Operation::Flush => !self.0.has_more_output(),
            Operation::Finish => self.0.is_finished(),
        };
        Ok(CodecProgress { consumed, produced, is_done })
    }
}

/// Zstandard by its reference implementation.
pub(crate) struct ZstdEncoder(CCtx<'static>);

impl ZstdEncoder {
    /// Begins a body, in the memory of an earlier one if there is any.
    pub(super) fn begin(earlier: Option<Self>, level: u32, length: Option<u64>) -> Result<Self, CodecError> {
        let mut state = match earlier {
            Some(earlier) => earlier.0,
            None => CCtx::try_create().ok_or(CodecError::NoMemory)?,
        };
        let begin = |state: &mut CCtx<'static>| {
            state.reset(ResetDirective::SessionAndParameters)?;
            for parameter in [
                CParameter::CompressionLevel(i32::try_from(level.max(1)).unwrap_or(1)),
                CParameter::WindowLog(ZSTD_WINDOW_BITS),
                CParameter::HashLog(ZSTD_TABLE_BITS),
                CParameter::ChainLog(ZSTD_TABLE_BITS),
            ] {
                state.set_parameter(parameter)?;
            }
            // A length that is known makes smaller tables do for a short body.
            state.set_pledged_src_size(length)
        };
        begin(&mut state).map_err(|_| CodecError::NoMemory)?;
        Ok(Self(state))
    }
}

impl BlockEncoder for ZstdEncoder {
    fn step(
        &mut self,
        data: &[u8],
        operation: Operation,
        out: &mut [u8],
    ) -> Result<CodecProgress, CodecError> {
        let directive = match operation {
            Operation::Write => zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_continue,
            Operation::Flush => zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush,
            Operation::Finish => zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_end,
        };
        let (mut input, mut output) = (InBuffer::around(data), OutBuffer::around(out));
        let left =
            self.0.compress_stream2(&mut output, &mut input, directive).map_err(|_| CodecError::Broken)?;
        let (consumed, produced) = (input.pos(), output.pos());
        let is_done = match operation {
            Operation::Write => consumed == data.len(),
            Operation::Flush | Operation::Finish => left == 0,
        };
        Ok(CodecProgress { consumed, produced, is_done })
    }
}
