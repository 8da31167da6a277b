//! HPACK (RFC 7541): header blocks to lines and back.
//!
//! Both tables hold whole lines, `name: value` with the line end, as the text of a head does: an indexed field is one copy. Lines are
//! checked and classified once, on entering the table of the decoder. The meaning of a line in a message is not known here.

mod decoder;
mod encoder;
mod encoder_table;
mod sent_line;
mod static_table;
mod line_table;
mod line_class;
mod huffman;
mod integer;
mod error;

pub(super) use decoder::DecodedLine;
pub use decoder::HpackDecoder;
pub use encoder::HpackEncoder;
pub(super) use encoder::LineEncoder;
pub use error::HpackError;
pub(super) use line_class::{LineName, counted_bytes};

/// Size of a dynamic table in bytes until a peer says otherwise (RFC 9113 section 6.5.2). Tables here are never larger.
pub(super) const TABLE_BYTES_MAX: usize = 4096;

/// What an entry counts besides its name and its value, in bytes (RFC 7541 section 4.1).
pub(super) const ENTRY_OVERHEAD_BYTES: usize = 32;

/// The bytes of a line that are neither name nor value: the colon, a space and the line end.
pub(super) const LINE_OVERHEAD_BYTES: usize = 4;
