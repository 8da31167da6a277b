//! Heads of HTTP/3 (RFC 9114 section 4): field sections to heads, checked in full, and heads to HEADERS frames.
//!
//! What lines mean in a head is in `multiplexed/head`, which HTTP/2 has in common.

mod reader;
mod writer;

pub use reader::{SectionError, read_request, read_response, read_trailers};
pub use writer::SectionWriter;

#[cfg(test)]
mod tests;
