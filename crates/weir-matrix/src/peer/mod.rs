//! Clients and servers of a case: they do what its exchanges say, and record every byte in both directions.
//!
//! `link` is a recorded connection, `http2` what both ends of that protocol share, `http3` the client's end of that protocol, `client` the ways to ask, `server` the ways to answer.

pub(crate) mod client;
pub(crate) mod server;
mod http2;
pub(crate) mod http3;
mod script;
mod tls;
mod link;

pub(crate) use http2::block;
pub(crate) use link::{AskedRequest, ConnectionTape, Label, LinkEnd, Speaks, TapeEvent, Tapes};
pub(crate) use script::CaseScript;
pub(crate) use tls::PeerCertificates;
