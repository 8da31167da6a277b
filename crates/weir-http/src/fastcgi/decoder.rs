//! Records of a server, step by step, however its bytes are cut.
//!
//! Keeps no bytes: content is handed out as it arrives. Records about the connection (management records, id 0) are skipped.

use std::ops::Range;

use super::record::{END_REQUEST, ProtocolStatus, RECORD_HEADER_LEN, REQUEST_ID, STDERR, STDOUT, VERSION};
use crate::message::rule::Rule;

/// The content of the record that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordContent {
    Stdout,
    Stderr,
    EndRequest,
    /// Nothing that matters here.
    Skipped,
}

/// What comes next in the bytes that were received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordStep {
    /// Nothing without more bytes; everything before `consumed` is over.
    More,
    /// Bytes of the response.
    Stdout(Range<usize>),
    /// Bytes of the error stream.
    Stderr(Range<usize>),
    /// The end of the response. What the status of the program was, and what became of the request.
    End {
        /// Its exit status.
        app_status: u32,
        /// What became of the request.
        protocol_status: ProtocolStatus,
    },
}

/// Reads the records of one response after the other.
#[derive(Debug, Clone, Default)]
pub struct RecordDecoder {
    content: Option<RecordContent>,
    /// Content that is still to come, and padding behind it.
    left: usize,
    padding: usize,
}

impl RecordDecoder {
    /// A decoder at the start of a record.
    pub const fn new() -> RecordDecoder {
        RecordDecoder { content: None, left: 0, padding: 0 }
    }

    /// Goes on in `received`, which begins where the last step has ended. Gives how many of its bytes were framing that is to be dropped
    /// first, and what comes behind them: ranges count from behind the framing. The content of a step is to be dropped, too, before
    /// the next step; it may be taken in parts by [`RecordDecoder::give_back`].
    ///
    /// # Errors
    /// The rule that a record breaks.
    pub fn step(&mut self, received: &[u8]) -> Result<(usize, RecordStep), Rule> {
        let mut at = 0;
        loop {
            let rest = &received[at..];
            let Some(content) = self.content else {
                let padding = self.padding.min(rest.len());
                self.padding -= padding;
                at += padding;
                let Some(header) = received[at..].first_chunk::<RECORD_HEADER_LEN>() else {
                    return Ok((at, RecordStep::More));
                };
                self.begin(header)?;
                at += RECORD_HEADER_LEN;
                continue;
            };
            match content {
                RecordContent::EndRequest => {
                    let Some([a, b, c, d, status, _, _, _]) = rest.first_chunk::<8>() else {
                        return Ok((at, RecordStep::More));
                    };
                    let protocol_status = ProtocolStatus::new(*status).ok_or(Rule::FastcgiBadEnd)?;
                    // What is longer than the specification says is skipped.
                    (self.content, self.left) = (Some(RecordContent::Skipped), self.left - 8);
                    let skipped = self.skip_rest(&rest[8..]);
                    let app_status = u32::from_be_bytes([*a, *b, *c, *d]);
                    return Ok((at + 8 + skipped, RecordStep::End { app_status, protocol_status }));
                }
                RecordContent::Skipped => {
                    let len = self.left.min(rest.len());
                    at += len;
                    self.advance(len);
                    if self.content.is_some() {
                        return Ok((at, RecordStep::More));
                    }
                }
                RecordContent::Stdout | RecordContent::Stderr => {
                    let len = self.left.min(rest.len());
                    if self.left > 0 && len == 0 {
                        return Ok((at, RecordStep::More));
                    }
                    self.advance(len);
                    match content {
                        _ if len == 0 => {}
                        RecordContent::Stderr => return Ok((at, RecordStep::Stderr(0..len))),
                        _ => return Ok((at, RecordStep::Stdout(0..len))),
                    }
                }
            }
        }
    }

    /// Skips what is left of the content and the padding; how many bytes of `received` that were.
    fn skip_rest(&mut self, received: &[u8]) -> usize {
        let len = self.left.min(received.len());
        self.advance(len);
        let padding = if self.content.is_none() { self.padding.min(received.len() - len) } else { 0 };
        self.padding -= padding;
        len + padding
    }

    /// Takes `len` bytes of content as read.
    fn advance(&mut self, len: usize) {
        self.left -= len;
        if self.left == 0 {
            self.content = None;
        }
    }

    /// The last `len` bytes of the last STDOUT step were not taken: they come again.
    pub fn give_back(&mut self, len: usize) {
        if len > 0 {
            self.content = Some(RecordContent::Stdout);
            self.left += len;
        }
    }

    fn begin(&mut self, header: &[u8; RECORD_HEADER_LEN]) -> Result<(), Rule> {
        let [version, kind, id_high, id_low, len_high, len_low, padding, _] = *header;
        let id = u16::from_be_bytes([id_high, id_low]);
        let len = usize::from(u16::from_be_bytes([len_high, len_low]));
        let content = match (version, id, kind) {
            (VERSION, 0, _) => RecordContent::Skipped,
            (VERSION, REQUEST_ID, STDOUT) => RecordContent::Stdout,
            (VERSION, REQUEST_ID, STDERR) => RecordContent::Stderr,
            (VERSION, REQUEST_ID, END_REQUEST) if len < 8 => return Err(Rule::FastcgiBadEnd),
            (VERSION, REQUEST_ID, END_REQUEST) => RecordContent::EndRequest,
            _ => return Err(Rule::FastcgiBadRecord),
        };
        (self.content, self.left, self.padding) = (Some(content), len, usize::from(padding));
        Ok(())
    }

    /// Whether everything of the last record was read, its padding included, with `received` behind it.
    pub fn is_between_records(&self, received: &[u8]) -> bool {
        self.content.is_none() && self.padding == 0 && received.is_empty()
    }
}
