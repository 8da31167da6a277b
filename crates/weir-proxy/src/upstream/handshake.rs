//! The TLS handshake with a server, the last step before a connection to it can be used.
//!
//! Part of phase Connect: until it is over the server has seen nothing of the request, so the request may go to another server. Must
//! not know about time limits: the caller drops the future when its time is up.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use weir_observe::{Cause, Failure, Phase};

use super::proxy_header::{self, ConnectionIdentity};
use crate::net::buffer::BufferStock;
use crate::net::connection::Connection;
use crate::net::endpoint::Endpoint;
use crate::net::failure::{of_connect, of_server};
use crate::net::socket::{Behind, Socket};
use crate::net::timing::timers::Timers;
use crate::net::tls::client_config::HandshakeConfig;
use crate::net::tls::records::Records;
use crate::net::tls::session::TlsSession;

/// What a new connection to a server begins with, in this order; each is left out where it is not wanted.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionSetup<'a> {
    /// The PROXY header that the connection begins with, and where it comes from.
    pub identity: &'a ConnectionIdentity,
    /// The TLS settings; none for a connection without TLS.
    pub handshake: Option<&'a HandshakeConfig>,
    /// What comes behind all that.
    pub behind: Behind,
    /// Those of the worker; `None` for those of the event loop.
    pub timers: Option<&'a Rc<Timers>>,
}

/// Opens a connection to the first of `endpoints` that answers, up to where requests can be sent on it.
///
/// # Errors
/// A failure of the phase Connect: nothing of a request has been sent.
pub async fn open(
    setup: ConnectionSetup<'_>,
    endpoints: &[Endpoint],
    first: usize,
    stock: &Rc<BufferStock>,
) -> Result<Connection, Failure> {
    // The first message of a handshake follows at once.
    let behind = if setup.handshake.is_some() { Behind::More } else { setup.behind };
    let connected = proxy_header::connect(setup.identity, behind, endpoints, first, setup.timers).await;
    let socket = connected.map_err(|error| of_connect(&error))?;
    match setup.handshake {
        None => Ok(Connection::new(socket)),
        Some(handshake) => shake(handshake, setup.behind, socket, stock).await,
    }
}

async fn shake(
    handshake: &HandshakeConfig,
    behind: Behind,
    mut socket: Socket,
    stock: &Rc<BufferStock>,
) -> Result<Connection, Failure> {
    let made = UnbufferedClientConnection::new(Arc::clone(&handshake.config), handshake.name.clone());
    let made = made.map_err(|_| Failure::weir(Phase::Connect, Cause::Io))?;
    let mut records = Box::new(Records::new(TlsSession::Client(made), None));
    let shaken = std::future::poll_fn(|cx| records.poll_handshake(cx, &mut socket, stock, behind)).await;
    shaken.map_err(|error| refused(handshake, &error))?;
    let mut connection = Connection::new(socket);
    connection.tls = Some(records);
    Ok(connection)
}

fn refused(handshake: &HandshakeConfig, error: &io::Error) -> Failure {
    let failure = of_server(Phase::Connect, error);
    let name = handshake.name.to_str();
    tracing::debug!(%name, reason = failure.reason(), %error, "no TLS with a server");
    failure
}
