//! HTTP/1.1 off the request path: what asks registries, authorities, collectors and a running Weir sends its requests by this client.
//!
//! [`HttpClient`] keeps one connection to one [`HttpDestination`]; bodies come whole or piece by piece, and every wait and every size has a bound. `hyper` frames
//! the messages. A connection is driven by the future that waits for it: there is no task behind it, so dropping that future ends everything.
//! Follows no redirects, reads no variables of the environment, and must not know what requests are about, nor the data path.

#![forbid(unsafe_code)]

mod http_client;
mod connection;
mod connect;
mod overlap;
mod destination;
mod tls;
mod client_error;

pub use client_error::ClientError;
pub use connect::{PeerStream, open};
pub use destination::{HostAndPort, HttpDestination, PeerAddress};
pub use http_client::{ClientResponse, HttpClient};
pub use tls::{TlsSetup, tls_config, tls_setup};
