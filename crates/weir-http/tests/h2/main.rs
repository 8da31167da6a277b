//! HTTP/2 from outside the crate, held against an independent implementation and against the corpora of http2jp.

mod hpack;
mod corpora;
