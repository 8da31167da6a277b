//! What both ends of a connection say about it as a whole: the control stream, the streams of QPACK, settings and GOAWAY (RFC 9114 sections 5, 6.2 and 7.2).
//!
//! The owner brings the bytes of the peer's unidirectional streams, and opens ours when there is something to send on them. Must not know what becomes of
//! a request.

mod peer_stream;
mod control;
mod event;

use super::budgets::PeerBudgets;
use super::fault::Http3Fault;
use super::frame::{frame_type, reserved_number, write_frame_head};
use super::qpack::{QpackDecoder, QpackEncoder};
use super::settings::Http3Settings;
use super::varint::{VARINT_MAX, write_varint};
use crate::message::rule::Rule;
use crate::multiplexed::compression::TABLE_BYTES_MAX;
use crate::multiplexed::role::Role;
use control::ControlReader;

pub use event::{OwnStream, PeerEvent, PeerReceived, RequestAdmission};
pub use peer_stream::UnidirectionalStream;

/// The ids of streams that clients open for requests are multiples of this (RFC 9000 section 2.1).
const REQUEST_STREAM_STEP: u64 = 4;

/// The greatest id of a request stream, which GOAWAY says before the final one is known.
const REQUEST_STREAM_MAX: u64 = VARINT_MAX / REQUEST_STREAM_STEP * REQUEST_STREAM_STEP;

/// Bounds of what a connection keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http3Limits {
    /// Bytes of one field section, compressed. Default 32 KiB.
    pub section_bytes_max: usize,
    /// Bytes of our dynamic table for what we send. Default 4 096, which is also the most.
    pub encoder_table_bytes_max: usize,
}

impl Default for Http3Limits {
    fn default() -> Self {
        Self { section_bytes_max: 32 * 1024, encoder_table_bytes_max: 4_096 }
    }
}

/// A connection of HTTP/3, without its requests.
#[derive(Debug)]
pub struct Http3Connection {
    role: Role,
    limits: Http3Limits,
    /// Decodes what the peer sends.
    pub decoder: QpackDecoder,
    /// Encodes what we send.
    pub encoder: QpackEncoder,
    /// What the peer may do only so often.
    pub budgets: PeerBudgets,
    /// The peer's settings; `None` until they have come.
    remote: Option<Http3Settings>,
    control: ControlReader,
    /// Which critical streams the peer has opened.
    has_control: bool,
    has_encoder: bool,
    has_decoder: bool,
    /// Which of ours have their type written.
    begun_encoder: bool,
    begun_decoder: bool,
    control_unsent: Vec<u8>,
    /// The id of the first request that could still be opened.
    next_request: u64,
    /// The id from which on no request is taken, once we have said so.
    last_taken: Option<u64>,
    /// The id that the peer has said in its GOAWAY.
    last_granted: Option<u64>,
    max_push_id: Option<u64>,
}

impl Http3Connection {
    /// A connection at its beginning. Our settings wait for the control stream; of the table that they announce, 4 096 bytes are the most. With a random number in `grease`, things that mean nothing go with them, lest
    /// peers rely on their absence (RFC 9114 sections 7.2.4.1 and 7.2.8).
    pub fn new(role: Role, local: &Http3Settings, limits: Http3Limits, grease: Option<u64>) -> Self {
        let local = Http3Settings {
            qpack_max_table_capacity: local.qpack_max_table_capacity.min(TABLE_BYTES_MAX as u64),
            ..*local
        };
        let mut control_unsent = Vec::with_capacity(64);
        write_varint(&mut control_unsent, peer_stream::CONTROL);
        local.write(grease, &mut control_unsent);
        if let Some(random) = grease {
            write_frame_head(&mut control_unsent, reserved_number(random >> 32), 0);
        }
        Self {
            role,
            limits,
            decoder: QpackDecoder::new(local.qpack_max_table_capacity, local.qpack_blocked_streams),
            encoder: QpackEncoder::new(limits.encoder_table_bytes_max),
            budgets: PeerBudgets::new(),
            remote: None,
            control: ControlReader::new(),
            has_control: false,
            has_encoder: false,
            has_decoder: false,
            begun_encoder: false,
            begun_decoder: false,
            control_unsent,
            next_request: 0,
            last_taken: None,
            last_granted: None,
            max_push_id: None,
        }
    }

    /// The bounds.
    pub const fn limits(&self) -> &Http3Limits {
        &self.limits
    }

    /// The peer's settings; `None` until they have come.
    pub const fn remote(&self) -> Option<&Http3Settings> {
        self.remote.as_ref()
    }

    /// Gives back the memory that is not used, as on an idle connection.
    pub fn shrink(&mut self) {
        self.decoder.shrink();
        self.encoder.release();
        self.control.shrink();
        self.control_unsent.shrink_to_fit();
    }

    /// The client has opened a request stream with this id.
    ///
    /// # Errors
    /// The fault of the connection: we are the client (RFC 9114 section 6.1).
    pub fn admit_request(&mut self, stream: u64) -> Result<RequestAdmission, Http3Fault> {
        if self.role == Role::Client || !stream.is_multiple_of(REQUEST_STREAM_STEP) {
            return Err(peer_stream::bad_stream());
        }
        self.next_request = self.next_request.max(stream.saturating_add(REQUEST_STREAM_STEP));
        if self.last_taken.is_some_and(|last| stream >= last) {
            return Ok(RequestAdmission::Rejected);
        }
        self.budgets.earn_by_request();
        Ok(RequestAdmission::Taken)
    }

    /// The id that the next request would have: what the final [`Http3Connection::go_away`] says. 0 before the first.
    pub const fn next_request(&self) -> u64 {
        self.next_request
    }

    /// Announces on the control stream that no further requests will be taken: first without saying from which on, so that those that are on their way are
    /// still taken.
    pub fn announce_go_away(&mut self) {
        self.write_go_away(REQUEST_STREAM_MAX);
    }

    /// Says from which request on none is taken: those that were opened so far are. Further ones are [`RequestAdmission::Rejected`]: with
    /// H3_REQUEST_REJECTED their client may send them again elsewhere.
    pub fn go_away(&mut self) {
        self.write_go_away(self.next_request);
    }

    /// A client says the ID of a push, of which it takes none.
    fn write_go_away(&mut self, request: u64) {
        let id = if self.role == Role::Server { request } else { 0 };
        // What was said before is not taken back.
        let id = self.last_taken.map_or(id, |last| last.min(id));
        if self.last_taken == Some(id) {
            return;
        }
        self.last_taken = Some(id);
        let mut payload = Vec::with_capacity(8);
        write_varint(&mut payload, id);
        write_frame_head(&mut self.control_unsent, frame_type::GOAWAY, payload.len() as u64);
        self.control_unsent.extend_from_slice(&payload);
    }

    /// Whether we may open a request stream with this id.
    pub fn may_request(&self, stream: u64) -> bool {
        self.last_granted.is_none_or(|last| stream < last)
    }

    /// What waits to be sent on one of our streams; the owner takes off what it has sent. A stream need not be opened before there is something for it:
    /// its type comes with it.
    pub fn unsent(&mut self, stream: OwnStream) -> &mut Vec<u8> {
        let (unsent, begun, number) = match stream {
            OwnStream::Control => return &mut self.control_unsent,
            OwnStream::Encoder => (self.encoder.unsent(), &mut self.begun_encoder, peer_stream::ENCODER),
            OwnStream::Decoder => (self.decoder.unsent(), &mut self.begun_decoder, peer_stream::DECODER),
        };
        if !*begun && !unsent.is_empty() {
            *begun = true;
            unsent.insert(0, number as u8);
        }
        unsent
    }

    /// The peer has reset a unidirectional stream of its own.
    ///
    /// # Errors
    /// The fault of the connection, when the stream must stay open, or when there were too many of which nothing is known.
    pub fn reset(&mut self, stream: &UnidirectionalStream, now: u64) -> Result<(), Http3Fault> {
        match stream.is_critical() {
            true => Err(Http3Fault::closed_critical_stream()),
            false => self.end_unknown(stream, now),
        }
    }

    /// The peer may do so much that costs it little, and not more.
    fn charge(&mut self, now: u64, rule: Rule) -> Result<(), Http3Fault> {
        self.budgets.charge_control(now, rule)
    }
}

#[cfg(test)]
mod tests;
