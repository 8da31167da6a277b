//! QPACK (RFC 9204): field sections to lines and back, and the two streams that keep the dynamic tables in step.
//!
//! What it shares with HPACK, lines and their tables, is in `multiplexed/compression`. Neither side may make the other wait without bound:
//! the decoder lets a few streams wait for its table, and the encoder none.

mod encoder;
mod decoder;
mod prefix;
mod instruction;
mod acknowledgement;
mod sent_sections;
mod static_table;
mod long_integer;
mod error;

pub(super) use decoder::QpackSection;
pub use decoder::{FieldSection, QpackDecoder, SectionProgress};
pub use encoder::QpackEncoder;
pub(super) use encoder::SectionEncoder;
pub use error::QpackError;

/// Most bytes that wait in one of the streams that QPACK writes to, which the peer may not read.
const UNSENT_BYTES_MAX: usize = 8 * 1024;
