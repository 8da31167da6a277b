//! Clients and servers of a case: they do what its exchanges say, and record every byte in both directions.
//!
//! `link` is a recorded connection, `http2` what both ends of that protocol share, `client` the ways to ask, `server` the ways to answer.

pub(crate) mod client;
pub(crate) mod server;
mod http2;
mod script;
mod tls;
mod link;

pub(crate) use http2::block;
pub(crate) use link::{Asked, End, Label, Record, Speaks, TapeEvent, Tapes};
pub(crate) use script::Script;
pub(crate) use tls::Certificates;
