//! HTTP/2 (RFC 9113): frames, streams and flow control.

mod bucket;
mod connection;
mod fault;
mod frame;
mod settings;
mod stream;
mod window;

pub use connection::{Block, BlockUse, Connection, ConnectionLimits, Event, OpenBlock, Received, Role};
pub use fault::{ConnectionFault, StreamFault};
pub use frame::{ErrorCode, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, PREFACE};
pub use settings::{INITIAL_WINDOW, Settings};
