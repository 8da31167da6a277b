//! The unidirectional streams of the peer (RFC 9114 section 6.2): their types, of which there is at most one each.

use super::Http3Connection;
use super::event::{PeerEvent, PeerReceived};
use crate::h3::fault::{Http3Code, Http3Fault};
use crate::h3::input::StreamInput;
use crate::h3::qpack::QpackError;
use crate::h3::varint::{VARINT_BYTES_MAX, read_varint};
use crate::message::rule::Rule;
use crate::multiplexed::role::Role;

/// The types of streams (RFC 9114 section 11.2.4, RFC 9204 section 4.2).
pub(super) const CONTROL: u64 = 0;
const PUSH: u64 = 1;
pub(super) const ENCODER: u64 = 2;
pub(super) const DECODER: u64 = 3;

/// One unidirectional stream that the peer has opened.
#[derive(Debug, Clone, Copy)]
pub struct UnidirectionalStream {
    kind: PeerStreamKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerStreamKind {
    /// Its type is not whole yet.
    New {
        bytes: [u8; VARINT_BYTES_MAX],
        len: u8,
    },
    Control,
    Encoder,
    Decoder,
    /// Nothing of it is wanted.
    Unknown,
}

impl Default for UnidirectionalStream {
    fn default() -> Self {
        Self::new()
    }
}

impl UnidirectionalStream {
    /// A stream at its beginning.
    pub const fn new() -> Self {
        Self { kind: PeerStreamKind::New { bytes: [0; VARINT_BYTES_MAX], len: 0 } }
    }

    /// Whether the connection cannot be without it.
    pub const fn is_critical(&self) -> bool {
        matches!(self.kind, PeerStreamKind::Control | PeerStreamKind::Encoder | PeerStreamKind::Decoder)
    }

    /// Takes the type off the front of `rest`; `None` while it is not whole.
    fn take_type(&mut self, rest: &mut &[u8]) -> Option<u64> {
        let PeerStreamKind::New { bytes, len } = &mut self.kind else { return None };
        while let (Some((&byte, tail)), Some(free)) = (rest.split_first(), bytes.get_mut(usize::from(*len))) {
            *free = byte;
            *rest = tail;
            *len += 1;
            if let Some((number, _)) = read_varint(&bytes[..usize::from(*len)]) {
                return Some(number);
            }
        }
        None
    }
}

impl Http3Connection {
    /// Takes in what was received on a unidirectional stream of the peer, up to the next event. To be called again, behind the used bytes, until there is
    /// no event. Behind input of the encoder stream, sections that had to wait may be read: see `QpackDecoder::next_unblocked`. `now` is in milliseconds.
    ///
    /// # Errors
    /// The fault of the connection.
    pub fn receive(
        &mut self,
        stream: &mut UnidirectionalStream,
        input: StreamInput<'_>,
        now: u64,
    ) -> Result<PeerReceived, Http3Fault> {
        let mut rest = input.bytes;
        let mut event = None;
        if let PeerStreamKind::New { .. } = stream.kind
            && let Some(number) = stream.take_type(&mut rest)
        {
            stream.kind = self.open(number, now)?;
            event = (stream.kind == PeerStreamKind::Unknown).then_some(PeerEvent::UnknownStream);
        }
        match stream.kind {
            // A stream may end before its type is known (RFC 9114 section 6.2).
            PeerStreamKind::New { .. } => {}
            PeerStreamKind::Unknown => rest = &[],
            PeerStreamKind::Control => event = self.receive_control(&mut rest, now)?,
            PeerStreamKind::Encoder => {
                self.decoder.receive(rest, &mut self.budgets.instructions, now).map_err(encoder_fault)?;
                rest = &[];
            }
            PeerStreamKind::Decoder => {
                let cancelled = self.encoder.receive(rest).map_err(|_| {
                    Http3Fault::connection(Http3Code::QPACK_DECODER_STREAM_ERROR, Rule::Http3BadDecoderStream)
                })?;
                (0..cancelled).try_for_each(|_| self.charge(now, Rule::Http3ControlFlood))?;
                rest = &[];
            }
        }
        if input.is_last && event.is_none() && stream.is_critical() {
            return Err(Http3Fault::closed_critical_stream());
        }
        if input.is_last {
            self.end_unknown(stream, now)?;
        }
        Ok(PeerReceived { used: input.bytes.len() - rest.len(), event })
    }

    /// A stream is over, which costs the peer next to nothing when its type has not come.
    pub(super) fn end_unknown(&mut self, stream: &UnidirectionalStream, now: u64) -> Result<(), Http3Fault> {
        match stream.kind {
            PeerStreamKind::New { .. } => self.charge(now, Rule::Http3StreamFlood),
            _ => Ok(()),
        }
    }

    /// A stream of this type begins.
    fn open(&mut self, number: u64, now: u64) -> Result<PeerStreamKind, Http3Fault> {
        let (has_one, kind) = match number {
            CONTROL => (&mut self.has_control, PeerStreamKind::Control),
            ENCODER => (&mut self.has_encoder, PeerStreamKind::Encoder),
            DECODER => (&mut self.has_decoder, PeerStreamKind::Decoder),
            // Only a server pushes, and only what we have allowed (RFC 9114 sections 4.6 and 6.2.2).
            PUSH if self.role == Role::Client => return Err(Http3Fault::bad_id()),
            PUSH => return Err(bad_stream()),
            _ => {
                self.charge(now, Rule::Http3StreamFlood)?;
                return Ok(PeerStreamKind::Unknown);
            }
        };
        if std::mem::replace(has_one, true) { Err(bad_stream()) } else { Ok(kind) }
    }
}

/// The stream must not be opened.
pub(super) const fn bad_stream() -> Http3Fault {
    Http3Fault::connection(Http3Code::STREAM_CREATION_ERROR, Rule::Http3BadStream)
}

const fn encoder_fault(error: QpackError) -> Http3Fault {
    match error {
        QpackError::TooManyInstructions => Http3Fault::excessive_load(Rule::Http3EncoderFlood),
        QpackError::TooMuchUnsent => Http3Fault::excessive_load(Rule::Http3AcknowledgementFlood),
        _ => Http3Fault::connection(Http3Code::QPACK_ENCODER_STREAM_ERROR, Rule::Http3BadEncoderStream),
    }
}
