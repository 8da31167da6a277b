//! Bytes to and from a server that is probed.

use std::rc::Rc;

use weir_observe::{Failure, Phase};

use weir_proxy::net::buffer::BufferStock;
use weir_proxy::net::connection::Connection;
use weir_proxy::net::failure::of_server;
use weir_proxy::net::socket::Behind;

/// Sends all of `bytes`.
pub(super) async fn send(connection: &mut Connection, mut bytes: &[u8]) -> Result<(), Failure> {
    while !bytes.is_empty() || connection.has_unsent() {
        let sent =
            std::future::poll_fn(|cx| connection.poll_write(cx, [bytes, &[], &[]], Behind::Unknown)).await;
        let len = sent.map_err(|error| of_server(Phase::Send, &error))?;
        bytes = &bytes[len..];
    }
    Ok(())
}

/// Where the bytes of a response come from.
pub(super) struct ProbeStream<'a> {
    pub(super) connection: &'a mut Connection,
    pub(super) stock: &'a Rc<BufferStock>,
}

/// Appends the next bytes from the server; 0 at its end.
pub(super) async fn read(
    source: &mut ProbeStream<'_>,
    received: &mut Vec<u8>,
    phase: Phase,
) -> Result<usize, Failure> {
    let ProbeStream { connection, stock } = source;
    let outcome = std::future::poll_fn(|cx| connection.poll_fill(cx, stock)).await;
    let len = outcome.map_err(|error| of_server(phase, &error))?;
    received.extend_from_slice(connection.received());
    connection.consume(len);
    Ok(len)
}
