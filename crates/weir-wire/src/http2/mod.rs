//! One direction of a connection of HTTP/2: frames, streams, header lists (RFC 9113).
//!
//! `frame` cuts the bytes into frames, `streams` makes messages of them, `lists` judges header lists. Flow control is not judged here, since it
//! needs both directions in their order in time.

mod streams;
pub(crate) mod lists;
mod frame;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::WireFault;
use crate::fields::RecordedFields;

pub use frame::{PREFACE, RecordedFrameHeader, frame};

/// Which end of the connection has sent the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameSender {
    /// The one that asks: its preface comes first, its header lists are requests.
    Client,
    /// The one that answers.
    Server,
}

/// What one end has sent on a stream, as far as it came.
#[derive(Debug, Clone, Default)]
pub struct RecordedStream {
    /// Header lists of interim responses.
    pub interim: Vec<RecordedFields>,
    /// The header list, pseudo-fields included; empty before it came.
    pub head: RecordedFields,
    /// The payloads of its DATA frames.
    pub body: Vec<u8>,
    /// The header list behind the body.
    pub trailers: Option<RecordedFields>,
    /// Whether the sender has ended the stream.
    pub has_ended: bool,
    /// The code with which the sender has reset it.
    pub reset: Option<u32>,
    /// Where its last frame is.
    pub last_frame: usize,
}

impl RecordedStream {
    /// The status of a response; 0 of a request, or before there is one.
    pub fn status(&self) -> u16 {
        self.head.first(":status").and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// RFC 9113 section 8.1.1: the body is as long as `content-length` says, and there is none where none may be.
    pub(crate) fn check_length(&self, is_to_head: bool) -> Result<(), String> {
        let (status, len) = (self.status(), self.body.len() as u64);
        let declared = self.head.content_length()?;
        let has_none = is_to_head || status == 204 || status == 304;
        if has_none && len > 0 {
            return Err(format!("{len} bytes of DATA where no body may be: {:?}", self.head));
        }
        if status == 204 && declared.is_some() {
            return Err(format!("a 204 with content-length: {:?}", self.head));
        }
        let Some(declared) = declared.filter(|_| !has_none) else { return Ok(()) };
        if len > declared || (self.has_ended && len != declared) {
            return Err(format!("{len} bytes of DATA, content-length {declared}: {:?}", self.head));
        }
        Ok(())
    }
}

/// What the bytes of one direction are.
#[derive(Debug, Clone, Default)]
pub struct Http2Reading {
    /// Streams by their numbers.
    pub streams: BTreeMap<u32, RecordedStream>,
    /// The code of the last GOAWAY.
    pub goaway: Option<u32>,
    /// The first rule that is broken; nothing behind it is read.
    pub fault: Option<WireFault>,
}

/// Reads frames that `sender` has sent. The responses on streams in `without_bodies` are to HEAD; no frame may be larger than `frame_max`.
pub fn read(
    bytes: &[u8],
    sender: FrameSender,
    without_bodies: &BTreeSet<u32>,
    frame_max: usize,
) -> Http2Reading {
    let mut reader = streams::FrameReader::new(sender, without_bodies);
    let fault = reader.read_all(bytes, frame_max).err();
    Http2Reading { fault, ..reader.reading }
}

/// The payload of a frame that everyone has to take (RFC 9113 section 4.2).
pub const FRAME_MAX: usize = 16_384;
