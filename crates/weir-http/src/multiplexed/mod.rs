//! What HTTP/2 and HTTP/3 have in common: heads made of lines, the rules that these obey, and the compression that HPACK and QPACK share.
//!
//! Neither frames nor streams are known here, nor how lines reach the wire: each version brings its own decoder and encoder of lines. A rule
//! about a field is written once, here, and holds in both.

pub(crate) mod head;
pub(crate) mod compression;
pub(crate) mod bucket;
pub(crate) mod role;
