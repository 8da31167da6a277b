//! What every test stands on: a Weir process, scripted origins, raw clients and an HTTP/1 reader of their own.
//!
//! Blocking sockets and threads only, and not one line of Weir's own codec: a bug that both sides share would hide
//! itself. Nothing here knows what a test is about; the expectations live in the test files.

pub(crate) mod watchdog;
pub(crate) mod browser;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod client_certificate;
pub(crate) mod ocsp;
pub(crate) mod key_log;
pub(crate) mod client_hello;
pub(crate) mod message;
pub(crate) mod wire;
pub(crate) mod client;
pub(crate) mod origin;
pub(crate) mod place;
pub(crate) mod scripts;
pub(crate) mod weir;
pub(crate) mod metrics;
pub(crate) mod name_server;

pub(crate) use client::{Client, Response};
pub(crate) use client_certificate::ClientCertificate;
pub(crate) use message::latin1;
pub(crate) use metrics::Metrics;
pub(crate) use name_server::{Answer, NameServer};
pub(crate) use origin::{Connection, Origin, Request};
pub(crate) use place::{NOWHERE, Place};
pub(crate) use scripts::Illness;
pub(crate) use tls::Authority;
pub(crate) use watchdog::{Gate, eventually};
pub(crate) use weir::{Weir, config_of};
pub(crate) use wire::End;
