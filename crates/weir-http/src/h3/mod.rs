//! HTTP/3 (RFC 9114): frames, the states of streams and of the connection, field sections read into heads, and heads written as
//! HEADERS frames.
//!
//! Pure: bytes of streams in their order go in, events come out, and bytes to be sent gather. Streams themselves, flow control and loss are the
//! affair of QUIC, which is not known here. Heads are those of HTTP/2, by the same rules (`multiplexed/head`).
//!
//! One connection is:
//! - [`Http3Connection`]: the control stream and the streams of QPACK in both directions, settings, GOAWAY, and the budgets of the peer;
//! - a [`UnidirectionalStream`] for each unidirectional stream of the peer, whose bytes go to [`Http3Connection::receive`];
//! - a [`RequestStream`] for each request, whose bytes go to [`RequestStream::receive`]. Heads come out as field sections, to be read by [`read_request`],
//!   [`read_response`] or [`read_trailers`] with the decoder of the connection; bodies as ranges of the input;
//! - for what is sent, [`SectionWriter`] for heads and trailers, and [`write_data_head`] before each piece of a body.

mod connection;
mod request_stream;
mod input;
mod budgets;
mod transport_budgets;
mod head;
mod qpack;
mod settings;
mod frame;
mod fault;
mod varint;

pub use budgets::PeerBudgets;
pub use connection::{
    Http3Connection, Http3Limits, OwnStream, PeerEvent, PeerReceived, RequestAdmission, UnidirectionalStream,
};
pub use fault::{Http3Code, Http3Fault};
pub use frame::{FRAME_HEADER_BYTES_MAX, write_data_head};
pub use head::{SectionError, SectionWriter, read_request, read_response, read_trailers};
pub use input::StreamInput;
pub use qpack::{FieldSection, QpackDecoder, QpackEncoder, QpackError, SectionProgress};
pub use request_stream::{RequestEvent, RequestReceived, RequestStream, SectionPlace, SectionUse};
pub use settings::Http3Settings;
pub use transport_budgets::{TransportBudgets, TransportSeen};
pub use varint::{VARINT_BYTES_MAX, VARINT_MAX, read_varint, write_varint};

pub use crate::multiplexed::head::pseudo_fields::RequestPseudoFields;
pub use crate::multiplexed::head::response::switch_protocols;
pub use crate::multiplexed::role::Role;
