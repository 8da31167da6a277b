//! Certificates that Weir obtains by itself (ACME, RFC 8555): a thread orders, renews and stores them.
//!
//! Handshakes find them in `IssuedCertificates` of the data path. The thread may block, since nothing else runs on it. Nothing here makes
//! a worker wait, and nothing that fails takes away a certificate that is there.

mod thread;
mod host;
mod order;
mod challenge;
mod dns_hook;
mod dns_update;
mod delegation;
mod issuer;
mod requests;
mod store;
mod record;
mod schedule;
mod luck;

pub(crate) use thread::AcmeThread;
