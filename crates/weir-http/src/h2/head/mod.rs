//! Heads of HTTP/2 (RFC 9113 section 8): header blocks to heads, checked in full, and heads to header blocks.

mod request;
mod cookie;
mod response;
mod trailers;
mod block;
mod writer;

pub use block::{BlockError, skip_block};
pub use request::read_request;
pub use response::{read_response, switch_protocols};
pub use trailers::read_trailers;
pub use writer::{HeadWriter, RequestPseudoFields};

#[cfg(test)]
mod tests;
