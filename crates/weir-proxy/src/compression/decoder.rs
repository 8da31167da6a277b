//! The three decoders. What they make of a few bytes may be much: each step fills no more than its room.

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use weir_http::ContentCoding;
use zlib_rs::{Inflate, InflateFlush, Status};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::progress::{CodecError, CodecProgress};

/// The window of gzip in bits, with its header and trailer.
const GZIP_WINDOW_BITS: u8 = 15 + 16;

/// The largest window of Zstandard that a sender may choose (RFC 9659): 8 MiB.
const ZSTD_WINDOW_BITS_MAX: u32 = 23;

/// A decoder at work on one body.
pub(crate) struct Decoder {
    state: DecoderState,
    /// Whether anything was taken.
    has_begun: bool,
    /// Whether what was taken is whole: a body, or several one after the other.
    is_whole: bool,
}

enum DecoderState {
    Gzip(Inflate),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(DCtx<'static>),
}

impl Decoder {
    pub(super) fn new(coding: ContentCoding) -> Result<Self, CodecError> {
        let state = match coding {
            ContentCoding::Gzip => DecoderState::Gzip(Inflate::new(true, GZIP_WINDOW_BITS)),
            ContentCoding::Brotli => DecoderState::Brotli(Box::new(BrotliState::new_strict(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ))),
            ContentCoding::Zstd => {
                let mut state = DCtx::try_create().ok_or(CodecError::NoMemory)?;
                let limited = state.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_BITS_MAX));
                limited.map_err(|_| CodecError::NoMemory)?;
                DecoderState::Zstd(state)
            }
        };
        // A body of no bytes at all is one, too: some servers send it without a header.
        Ok(Self { state, has_begun: false, is_whole: true })
    }

    /// Whether the body may end here.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Takes some of `data` and fills some of `out`; done when all data is taken and nothing more comes of it.
    pub(crate) fn step(&mut self, data: &[u8], out: &mut [u8]) -> Result<CodecProgress, CodecError> {
        if self.is_whole && data.is_empty() {
            return Ok(CodecProgress { consumed: 0, produced: 0, is_done: true });
        }
        let is_another = self.is_whole && self.has_begun;
        self.has_begun = true;
        let (consumed, produced, is_whole) = match &mut self.state {
            DecoderState::Gzip(inflate) => {
                if is_another {
                    // One member after the other (RFC 1952 section 2.2).
                    *inflate = Inflate::new(true, GZIP_WINDOW_BITS);
                }
                let (in_before, out_before) = (inflate.total_in(), inflate.total_out());
                let status = inflate.decompress(data, out, InflateFlush::NoFlush);
                let status = status.map_err(|_| CodecError::Broken)?;
                let consumed = (inflate.total_in() - in_before) as usize;
                let produced = (inflate.total_out() - out_before) as usize;
                (consumed, produced, status == Status::StreamEnd)
            }
            // Nothing may follow the end of a stream of Brotli.
            DecoderState::Brotli(_) if is_another => return Err(CodecError::Broken),
            DecoderState::Brotli(state) => {
                let (mut consumed, mut produced) = (0, 0);
                let result = BrotliDecompressStream(
                    &mut data.len(),
                    &mut consumed,
                    data,
                    &mut out.len(),
                    &mut produced,
                    out,
                    &mut 0,
                    state,
                );
                match result {
                    BrotliResult::ResultFailure => return Err(CodecError::Broken),
                    result => (consumed, produced, matches!(result, BrotliResult::ResultSuccess)),
                }
            }
            DecoderState::Zstd(state) => {
                let (mut input, mut output) = (InBuffer::around(data), OutBuffer::around(out));
                let left =
                    state.decompress_stream(&mut output, &mut input).map_err(|_| CodecError::Broken)?;
                (input.pos(), output.pos(), left == 0)
            }
        };
        self.is_whole = is_whole;
        Ok(CodecProgress { consumed, produced, is_done: consumed == data.len() && produced < out.len() })
    }
}
