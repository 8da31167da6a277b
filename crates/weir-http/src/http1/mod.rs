//! HTTP/1.0 and HTTP/1.1 (RFC 9112): heads parsed and validated, bodies unframed, messages written.
//!
//! The heads themselves, and their meaning beyond their lines, are in `message`, which knows no protocol; chunks, `Connection`
//! and the life of a connection are known here alone. Must not decide what to answer or to forward.

mod parsed;
mod request;
mod request_line;
mod response;
mod normal;
mod status_line;
mod chunked;
mod chunk_extension;
mod lines;
mod keep_alive;
mod framing;
mod field_lines;
pub mod write;

pub use chunked::{ChunkedDecoder, Decoded};
pub use field_lines::FieldLines;
pub use keep_alive::{keep_alive_timeout, keeps_alive};
pub use parsed::{ParsedRequest, ParsedResponse};
pub use request::RequestParser;
pub use response::ResponseParser;

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
