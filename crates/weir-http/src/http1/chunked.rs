//! Chunked bodies, received (RFC 9112 section 7.1): frames off, payload gathered where it lies.
//!
//! The decoder works in the caller's buffer and keeps nothing of the body. Extensions are checked, counted and
//! dropped; trailers are kept in a small bounded buffer that exists only when there are any. A malformed frame is
//! an error for good: looking for the next good one is how requests get smuggled.

use std::ops::Range;

use super::chunk_extension::ChunkExtensionState;
use super::lines::{Cursor, read_fields};
use crate::message::fields::Fields;
use crate::message::limits::ChunkedLimits;
use crate::message::rule::Rule;

/// No limit lets a trailer section grow further than positions in it fit a span.
const TRAILER_BYTES_CEILING: usize = 1 << 30;

/// The result of one call of [`ChunkedDecoder::decode`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decoded {
    /// Where the payload now lies in the buffer, in one piece; may be empty.
    pub data: Range<usize>,
    /// Number of bytes taken from the front of the buffer. Less than the whole only when `done`.
    pub consumed: usize,
    /// Whether the body has ended; the bytes behind `consumed` belong to the next message.
    pub done: bool,
}

/// Decodes one chunked body as it arrives.
///
/// ```text
///            hex            ';'                 LF (size 0)
///   Size ──────────▶ Size ──────▶ Extension ─▶ SizeEnd ───────▶ TrailerStart ─▶ TrailerEnd ─▶ Done
///    ▲  └───────────── CR ────────────────────────▲ │               └─▶ Trailers ───────────────▲
///    │                                              ▼ LF (size > 0)
///   DataEnd ◀─ CR ─ DataCr ◀─ all bytes ─────────── Data
/// ```
#[derive(Debug, Clone, Default)]
pub struct ChunkedDecoder {
    state: ChunkedState,
    limits: ChunkedLimits,
    extension_bytes: usize,
    trailers: Option<Box<Trailers>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkedState {
    /// In the size of a chunk, `digits` of it read.
    Size { size: u64, digits: u8 },
    /// In the extensions of a chunk.
    Extension { size: u64, part: ChunkExtensionState },
    /// At the LF that ends the line of a size.
    SizeEnd { size: u64 },
    /// In the data of a chunk, of which `left` bytes are missing, at least one.
    Data { left: u64 },
    /// At the CR behind the data.
    DataCr,
    /// At the LF behind the data.
    DataEnd,
    /// Behind the line of the last chunk.
    TrailerStart,
    /// At the LF of an empty trailer section.
    TrailerEnd,
    /// In a trailer section that is not empty.
    Trailers,
    /// Behind the end of the body.
    Done,
    /// Behind a broken frame.
    Broken(Rule),
}

impl Default for ChunkedState {
    fn default() -> ChunkedState {
        ChunkedState::Size { size: 0, digits: 0 }
    }
}

/// A trailer section, gathered until it is complete.
#[derive(Debug, Clone, Default)]
struct Trailers {
    text: Vec<u8>,
    cursor: Cursor,
    fields: Fields,
}

impl ChunkedDecoder {
    /// A decoder at the start of a body.
    pub fn new(limits: ChunkedLimits) -> ChunkedDecoder {
        ChunkedDecoder { limits, ..ChunkedDecoder::default() }
    }

    /// Ready for the next body, with the same limits.
    #[inline]
    pub fn reset(&mut self) {
        self.state = ChunkedState::default();
        self.extension_bytes = 0;
        self.trailers = None;
    }

    /// Whether the body has ended.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.state == ChunkedState::Done
    }

    /// Bytes of payload still missing from the chunk being received; 0 between chunks. These bytes may pass around the
    /// decoder, reported with [`ChunkedDecoder::skip_data`].
    #[inline]
    pub fn data_left(&self) -> u64 {
        match self.state {
            ChunkedState::Data { left } => left,
            _ => 0,
        }
    }

    /// Says that `len` bytes of payload of the present chunk were moved without the decoder (spliced, for example).
    ///
    /// More than [`ChunkedDecoder::data_left`] counts as all of them.
    #[inline]
    pub fn skip_data(&mut self, len: u64) {
        if let ChunkedState::Data { left } = &mut self.state {
            *left = left.saturating_sub(len);
            if *left == 0 {
                self.state = ChunkedState::DataCr;
            }
        }
    }

    /// Decodes `buf`, moving payload of later chunks down behind that of the first, so that all lies in one piece.
    ///
    /// # Errors
    ///
    /// The rule that the frames break, now and at every further call; no payload of this call may be passed on.
    #[inline]
    pub fn decode(&mut self, buf: &mut [u8]) -> Result<Decoded, Rule> {
        self.decode_frames(buf).inspect_err(|&rule| self.state = ChunkedState::Broken(rule))
    }

    fn decode_frames(&mut self, buf: &mut [u8]) -> Result<Decoded, Rule> {
        let mut data = 0..0;
        let mut at = 0;
        while at < buf.len() && self.state != ChunkedState::Done {
            if let ChunkedState::Data { left } = self.state {
                let len = usize::try_from(left).map_or(buf.len() - at, |left| left.min(buf.len() - at));
                if data.is_empty() {
                    data = at..at + len;
                } else {
                    buf.copy_within(at..at + len, data.end);
                    data.end += len;
                }
                at += len;
                self.skip_data(len as u64);
            } else {
                at += self.decode_frame(&buf[at..])?;
            }
        }
        Ok(Decoded { data, consumed: at, done: self.is_done() })
    }

    /// Decodes the part before the payload at the start of `bytes`, which is not empty. Returns the number of bytes taken; none
    /// when only the state had to change.
    #[inline]
    fn decode_frame(&mut self, bytes: &[u8]) -> Result<usize, Rule> {
        let byte = bytes[0];
        self.state = match self.state {
            ChunkedState::Size { size, digits } => return self.read_size(bytes, size, digits),
            ChunkedState::Extension { size, part } => return self.read_extension(bytes, size, part),
            ChunkedState::SizeEnd { size } if byte == b'\n' => match size {
                0 => ChunkedState::TrailerStart,
                left => ChunkedState::Data { left },
            },
            ChunkedState::SizeEnd { .. } => return Err(Rule::BadChunkSize),
            ChunkedState::DataCr if byte == b'\r' => ChunkedState::DataEnd,
            ChunkedState::DataEnd if byte == b'\n' => ChunkedState::default(),
            ChunkedState::DataCr | ChunkedState::DataEnd => return Err(Rule::BadChunkEnd),
            ChunkedState::TrailerStart if byte == b'\r' => ChunkedState::TrailerEnd,
            ChunkedState::TrailerEnd if byte == b'\n' => ChunkedState::Done,
            ChunkedState::TrailerEnd => return Err(Rule::BadTrailer),
            ChunkedState::TrailerStart => {
                self.trailers = Some(Box::default());
                ChunkedState::Trailers
            }
            ChunkedState::Trailers => return self.read_trailers(bytes),
            ChunkedState::Broken(rule) => return Err(rule),
            ChunkedState::Data { .. } | ChunkedState::Done => return Ok(0),
        };
        Ok(usize::from(self.state != ChunkedState::Trailers))
    }

    /// Reads digits of a size and the byte behind them.
    #[inline]
    fn read_size(&mut self, bytes: &[u8], mut size: u64, mut digits: u8) -> Result<usize, Rule> {
        for (index, &byte) in bytes.iter().enumerate() {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                b'A'..=b'F' => byte - b'A' + 10,
                b'\r' if digits > 0 => {
                    self.state = ChunkedState::SizeEnd { size };
                    return Ok(index + 1);
                }
                b';' | b' ' | b'\t' if digits > 0 => {
                    self.state = ChunkedState::Extension { size, part: ChunkExtensionState::default() };
                    return Ok(index);
                }
                _ => return Err(Rule::BadChunkSize),
            };
            // 16 digits fit in 64 bits; the sign bit stays clear so that sizes add up without overflow.
            if digits == 16 || size > (i64::MAX as u64) >> 4 {
                if size > 0 || !self.limits.lenient.padded_size {
                    return Err(Rule::BadChunkSize);
                }
                self.count_extension(digits.into())?;
                digits = 0;
            }
            digits += 1;
            size = size << 4 | u64::from(digit);
        }
        self.state = ChunkedState::Size { size, digits };
        Ok(bytes.len())
    }

    #[cold]
    fn read_extension(
        &mut self,
        bytes: &[u8],
        size: u64,
        mut part: ChunkExtensionState,
    ) -> Result<usize, Rule> {
        for (index, &byte) in bytes.iter().enumerate() {
            if byte == b'\r' {
                if !part.may_end(self.limits.lenient) {
                    return Err(part.broken_rule());
                }
                self.state = ChunkedState::SizeEnd { size };
                return Ok(index + 1);
            }
            part = part.next(byte)?;
            self.count_extension(1)?;
        }
        self.state = ChunkedState::Extension { size, part };
        Ok(bytes.len())
    }

    #[cold]
    fn count_extension(&mut self, bytes: usize) -> Result<(), Rule> {
        self.extension_bytes += bytes;
        if self.extension_bytes > self.limits.extension_bytes_max {
            return Err(Rule::ChunkExtensionsTooLarge);
        }
        Ok(())
    }

    #[cold]
    fn read_trailers(&mut self, bytes: &[u8]) -> Result<usize, Rule> {
        let Some(trailers) = &mut self.trailers else { return Err(Rule::BadTrailer) };
        let before = trailers.text.len();
        let limit = self.limits.trailer_bytes_max.min(TRAILER_BYTES_CEILING);
        let room = limit.saturating_sub(before);
        let taken = bytes.len().min(room);
        trailers.text.extend_from_slice(&bytes[..taken]);
        let Trailers { text, cursor, fields } = &mut **trailers;
        let full = text.len() >= limit;
        if !full && cursor.still_within(text) {
            return Ok(taken);
        }
        let complete = read_fields(text, cursor, fields, self.limits.trailer_fields_max, |_, _, _| Ok(()));
        match complete {
            Ok(true) => {
                self.state = ChunkedState::Done;
                text.truncate(cursor.position);
                Ok(cursor.position - before)
            }
            Ok(false) if full => Err(Rule::TrailersTooLarge),
            Ok(false) => Ok(taken),
            Err(Rule::TooManyFields) => Err(Rule::TrailersTooLarge),
            Err(_) => Err(Rule::BadTrailer),
        }
    }

    /// The trailers as name and value, once the body has ended. Fields that are not allowed in trailers (framing,
    /// routing, authentication, content, hop-by-hop: RFC 9110 section 6.5.1) are left out.
    pub fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let trailers = self.trailers.as_deref().filter(|_| self.is_done());
        trailers.into_iter().flat_map(|Trailers { text, fields, .. }| {
            let allowed = fields.iter().filter(|field| field.known.is_allowed_in_trailers());
            allowed.map(|field| (field.name.of(text), field.value.of(text)))
        })
    }
}
