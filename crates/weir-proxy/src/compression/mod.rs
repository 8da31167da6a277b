//! Encoders and decoders of bodies, and how much of them a worker may use at a time.
//!
//! Each codec works in steps: some input, some room for output. Its memory is bounded by the window that is chosen here, whatever the
//! length of the body. Must not know responses, clients or sockets.

mod stock;
mod load;
mod encoder;
mod decoder;
mod progress;

pub(crate) use encoder::Operation;
pub(crate) use progress::CodecError;
pub(crate) use stock::{CodecLease, CodecStock, CompressionLimits};
