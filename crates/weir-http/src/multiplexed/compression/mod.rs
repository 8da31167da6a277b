//! What HPACK (RFC 7541) and QPACK (RFC 9204) share: integers, strings, tables of lines, and the classes of lines.
//!
//! Tables hold whole lines, `name: value` with the line end, as the text of a head does: an indexed field is one copy. Lines are
//! checked and classified once, on entering the table of a decoder. The meaning of a line in a message is not known here.

pub(crate) mod line_encoder;
pub(crate) mod decoded;
pub(crate) mod encoder_table;
pub(crate) mod sent_line;
pub(crate) mod static_line;
pub(crate) mod line_table;
pub(crate) mod line_class;
pub(crate) mod string;
mod huffman;
pub(crate) mod integer;
pub(crate) mod coding_error;

/// The largest dynamic table, in bytes: that of HPACK until a peer says otherwise (RFC 9113 section 6.5.2), and as much for QPACK.
pub(crate) const TABLE_BYTES_MAX: usize = 4096;

/// What an entry counts besides its name and its value, in bytes (RFC 7541 section 4.1, RFC 9204 section 3.2.1).
pub(crate) const ENTRY_OVERHEAD_BYTES: usize = 32;

/// The bytes of a line that are neither name nor value: the colon, a space and the line end.
pub(crate) const LINE_OVERHEAD_BYTES: usize = 4;
