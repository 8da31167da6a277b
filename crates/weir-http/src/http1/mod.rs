//! HTTP/1.0 and HTTP/1.1 (RFC 9112): heads parsed and validated, bodies unframed, messages written.
//!
//! What a head means beyond its lines is described in `message`, which knows no protocol. Must not decide what to answer or
//! to forward.

mod request;
mod request_line;
mod response;
mod normal;
mod status_line;
mod chunked;
mod chunk_extension;
mod lines;
mod framing;
mod field_lines;
pub mod write;

pub use chunked::{ChunkedDecoder, Decoded};
pub use field_lines::FieldLines;
pub use request::{Expectation, RequestBody, RequestHead};
pub use response::{ResponseBody, ResponseHead};

/// How far a head has been parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadProgress {
    /// More bytes are needed.
    Incomplete,
    /// The head is complete and valid.
    Complete {
        /// Number of received bytes that belong to the head; the body starts behind them.
        len: usize,
    },
}
