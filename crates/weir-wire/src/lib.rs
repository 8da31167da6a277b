//! An independent reader of recorded connections: bytes of one direction to the messages that they are, or to the rule that they break.
//!
//! For tests alone, which use it on what Weir wrote to clients and servers. It is written from the RFCs and shares no line with the parsers of
//! Weir, so that no bug hides itself, and it is as strict as a sender has to be: what a lenient recipient could read in two ways is a fault.
//! It does no I/O and knows no time. HPACK comes from a library that Weir does not use.

pub mod http1;
pub mod http3;
pub mod http2;
pub mod fastcgi;
pub mod proxy_header;
mod fields;
mod fault;

pub use fault::WireFault;
pub use fields::{RecordedFields, latin1};
