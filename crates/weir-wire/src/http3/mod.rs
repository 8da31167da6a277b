//! What a server has sent on a connection of HTTP/3: pieces of streams in their order of arrival, frames, field sections (RFC 9114, RFC 9204).
//!
//! `pieces` is what is recorded, `streams` makes messages of it, `frames` cuts frames, `qpack` reads field sections. Field lists are judged as those
//! of HTTP/2, whose rules they share.

mod streams;
mod frames;
pub mod qpack;
mod static_table;
mod pieces;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::WireFault;
use crate::http2::RecordedStream;

pub use pieces::{RecordedPiece, StreamPiece};

/// The code with which a connection ends in order.
pub const NO_ERROR: u64 = 0x100;

/// What the client has announced, and the responses of which have no body.
#[derive(Debug, Clone, Copy)]
pub struct AnnouncedByClient<'a> {
    /// Bytes of the dynamic table that the server may use.
    pub table_bytes_max: usize,
    /// Streams whose requests are HEAD.
    pub without_bodies: &'a BTreeSet<u64>,
}

/// What a server has sent.
#[derive(Debug, Clone, Default)]
pub struct Http3Reading {
    /// Streams of requests by their numbers. Codes that need more than 32 bits are the largest number.
    pub streams: BTreeMap<u64, RecordedStream>,
    /// Its settings, once they came.
    pub settings: Option<BTreeMap<u64, u64>>,
    /// The number in the last GOAWAY.
    pub goaway: Option<u64>,
    /// Streams whose requests the server does not want to the end, and the codes.
    pub stopped: BTreeMap<u64, u64>,
    /// How many lines it has put into its dynamic table.
    pub insertions: u64,
    /// The streams with sections that use that table, once for each section.
    pub sections: Vec<u64>,
    /// The code with which it has closed the connection.
    pub closed: Option<u64>,
    /// The first rule that is broken; nothing behind it is read.
    pub fault: Option<WireFault>,
}

/// Reads what a server has sent, as recorded by [`RecordedPiece::write`].
pub fn read_server(bytes: &[u8], announced: AnnouncedByClient<'_>) -> Http3Reading {
    let mut reader = streams::PieceReader::new(announced);
    let fault = reader.read_all(bytes).err();
    Http3Reading { fault, ..reader.reading }
}
