//! Client aborts: whether the client has closed the connection while its request waits for something else.
//!
//! A request that is whole and has nothing behind it is given up when the client ends its direction, unless the listener serves
//! clients that half-close on purpose. Must not consume what belongs to the next request.

use std::task::{Context, Poll};
use std::time::Duration;

use weir_observe::Cause;

use crate::exchange::exchange_state::client::Client;
use crate::net::clock;
use crate::net::connection::Connection;
use crate::net::socket::PeerState;
use crate::relay::http1::Incoming;

/// Interval of the checks whether a client has closed whose request cannot be read yet.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How long an abort may go unnoticed, once per connection: see [`poll_aborted`].
const FIRST_LOOK: Duration = Duration::from_millis(10);

/// Why the client has aborted a request of which `body` is still to come; `None` if it has not. Registers `cx` for the next event.
///
/// The event loop watches a client for that from the second look on, [`FIRST_LOOK`] after the first: most answers
/// are there by then, and a client that sends one request costs two system calls less.
pub(super) fn poll_aborted(
    cx: &mut Context<'_>,
    connection: &mut Connection,
    looked: &mut bool,
    client: &mut Client,
    body: &Incoming,
) -> Option<Cause> {
    if !connection.socket.is_watched() && !std::mem::replace(looked, true) {
        client.deadline.look_again(client.now + FIRST_LOOK);
        return None;
    }
    if connection.has_input() {
        return poll_closed(cx, connection, client, body);
    }
    match connection.socket.poll_peer(cx) {
        PeerState::Quiet => None,
        PeerState::Gone => Some(Cause::Reset),
        PeerState::Readable | PeerState::Ended => poll_closed(cx, connection, client, body),
    }
}

/// The same while the response is being sent: then only a reset shows that the client does not read it.
pub(super) fn poll_reset(
    cx: &mut Context<'_>,
    connection: &mut Connection,
    looked: &mut bool,
    client: &mut Client,
) -> Option<Cause> {
    if connection.has_input() {
        return None;
    }
    if !connection.socket.is_watched() && !std::mem::replace(looked, true) {
        client.deadline.look_again(client.now + FIRST_LOOK);
        return None;
    }
    (connection.socket.poll_peer(cx) == PeerState::Gone).then_some(Cause::Reset)
}

/// Checks for the end of the client's direction, which is seen behind the last byte of the body only: the body is read, as far as
/// the buffer has room.
#[cold]
fn poll_closed(
    cx: &mut Context<'_>,
    connection: &mut Connection,
    client: &mut Client,
    body: &Incoming,
) -> Option<Cause> {
    if !gives_up_on_close(client) {
        return None;
    }
    while !body.ends_within(connection.received()) {
        if connection.input.as_ref().is_some_and(|input| input.is_full()) {
            // The rest of a long body waits in the kernel, and there is no event for it.
            client.deadline.look_again(clock::now() + LOOK_INTERVAL);
            return connection.socket.is_read_closed().then_some(Cause::Closed);
        }
        match connection.poll_fill(cx, &client.worker.stock) {
            Poll::Pending => return None,
            Poll::Ready(Ok(0)) => break,
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            Poll::Ready(Err(_)) => return Some(Cause::Reset),
        }
    }
    if body.is_followed_in(connection.received()) {
        return None;
    }
    match connection.poll_peer(cx) {
        PeerState::Quiet | PeerState::Readable => None,
        PeerState::Gone => Some(Cause::Reset),
        PeerState::Ended => Some(Cause::Closed),
    }
}

/// Whether a client that ends its direction aborts its request.
pub(super) fn gives_up_on_close(client: &Client) -> bool {
    client.protocol.routes_requests() && client.listener.plan().config.abort_on_close
}
