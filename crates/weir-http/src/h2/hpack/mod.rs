//! HPACK (RFC 7541): header blocks to lines and back.
//!
//! What it shares with QPACK, lines and their tables, is in `multiplexed/compression`.

mod decoder;
mod encoder;
mod static_table;
mod error;

pub(super) use decoder::HpackBlock;
pub use decoder::HpackDecoder;
pub(super) use encoder::BlockLines;
pub use encoder::HpackEncoder;
pub use error::HpackError;
