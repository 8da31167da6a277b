//! Heads of HTTP/2 (RFC 9113 section 8): header blocks to heads, checked in full, and heads to header blocks.
//!
//! What lines mean in a head is in `multiplexed/head`, which HTTP/3 has in common.

mod reader;
mod writer;

pub use reader::{BlockError, read_request, read_response, read_trailers, skip_block};
pub use writer::HeadWriter;

#[cfg(test)]
mod tests;
