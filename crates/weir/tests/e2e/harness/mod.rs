//! The base of every test: a Weir process, scripted origins, raw clients and an HTTP/1 reader of their own.
//!
//! Blocking sockets and threads only, and not one line of Weir's own codec: a bug that both sides share would hide
//! itself. Nothing here knows what a test is about; the expectations live in the test files.

pub(crate) mod watchdog;
mod programs;
pub(crate) mod stream;
pub(crate) mod tls;
mod certificates;
pub(crate) mod message;
mod record;
pub(crate) mod wire;
pub(crate) mod client;
pub(crate) mod http2;
#[cfg(feature = "http3")]
pub(crate) mod http3;
mod servers;
pub(crate) mod draw;
pub(crate) mod traffic;
pub(crate) mod websocket;
pub(crate) mod proxy_header;
pub(crate) mod config;
pub(crate) mod weir;
pub(crate) mod admin;
pub(crate) mod metrics;

pub(crate) use certificates::{client_certificate, client_hello, key_log, ocsp};
pub(crate) use client::{Client, Response};
pub(crate) use client_certificate::ClientCertificate;
pub(crate) use config::{config_of, config_with, entries, of_upstream};
pub(crate) use foreign_program::ForeignProgram;
pub(crate) use http2::Http2Client;
pub(crate) use message::latin1;
pub(crate) use metrics::Metrics;
pub(crate) use name_server::{DnsAnswer, NameServer};
pub(crate) use origin::{Connection, Origin, Request};
pub(crate) use program::{CommandResult, WrittenConfig, run, temporary_folder};
pub(crate) use programs::{browser, foreign_program, namespace, php, program};
pub(crate) use reserved_address::{CLOSED_PORT, ReservedAddress};
pub(crate) use scripts::FailureSwitch;
pub(crate) use servers::{fastcgi, name_server, origin, reserved_address, scripts};
pub(crate) use tls::CertificateAuthority;
pub(crate) use traffic::BackgroundTraffic;
pub(crate) use watchdog::{Gate, eventually};
pub(crate) use weir::Weir;
pub(crate) use wire::End;
