//! gRPC over HTTP: the fields and the framing that a proxy reads, writes and translates.
//!
//! The names are those of `PROTOCOL-HTTP2.md` and `PROTOCOL-WEB.md` in the repository grpc/grpc. Everything here takes slices and works on
//! bytes as they arrive, in bounded memory. What the messages say is never read, and when to retry or to answer is decided elsewhere.

mod content_type;
mod timeout;
mod status;
mod status_message;
mod pushback;
mod trailers_frame;
mod frame;
mod base64;
mod number;

pub use base64::{Base64Decoder, Base64Encoder, Base64Error};
pub use content_type::{GrpcContentType, GrpcProtocol};
pub use frame::{MESSAGE_PREFIX_BYTES, MessageObserver};
pub use pushback::RetryPushback;
pub use status::GrpcStatus;
pub use status_message::{read_status_message, write_status_message};
pub use timeout::{GrpcTimeoutError, parse_timeout, write_timeout};
pub use trailers_frame::{TrailersFrame, write_trailers_frame};
