//! HTTP/2 (RFC 9113): frames, streams and flow control, header blocks read into heads, and heads written as header blocks.
//!
//! A head that came by HTTP/2 has a text like one that came by HTTP/1: each field is a line `name: value` in it. So what reads a head, or
//! copies fields of it into another one, does not know the protocol. Must not decide what to answer or to forward.

mod connection;
mod stream;
mod window;
mod settings;
mod head;
mod hpack;
mod fault;
mod frame;

pub use connection::{Block, BlockUse, ConnectionCodec, ConnectionLimits, Event, OpenBlock, Received};
pub use fault::{ConnectionFault, StreamFault};
pub use frame::{ErrorCode, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, PREFACE};
pub use head::{BlockError, HeadWriter, read_request, read_response, read_trailers, skip_block};
pub use hpack::{HpackDecoder, HpackEncoder, HpackError};
pub use settings::{INITIAL_WINDOW, Settings};

pub use crate::multiplexed::head::pseudo_fields::RequestPseudoFields;
pub use crate::multiplexed::head::response::switch_protocols;
pub use crate::multiplexed::role::Role;
