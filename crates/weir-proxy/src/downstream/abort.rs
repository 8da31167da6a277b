//! Client aborts: whether the client has closed the connection while its request waits for something else.
//!
//! A request that is whole and has nothing behind it is given up when the client ends its direction, unless the listener serves
//! clients that half-close on purpose. Must not consume what belongs to the next request.

use std::task::{Context, Poll};
use std::time::Duration;

use weir_config::ListenerProtocol;
use weir_observe::Cause;

use super::session::{LOOK_INTERVAL, Session};
use crate::exchange::client::Client;
use crate::net::clock;
use crate::net::connection::Connection;
use crate::net::socket::PeerState;
use crate::relay::http1::Incoming;

/// How long an abort may go unnoticed, once per connection: see [`poll_aborted`].
const FIRST_LOOK: Duration = Duration::from_millis(10);

/// Bytes of unread requests that are looked at to tell one from several.
const UNREAD_BYTES_MAX: usize = 4 * 1024;

/// Why the client does not want the response any more, of whose request `body` is still to come; registers `cx` for the next news.
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

/// The same while the response is on its way: then only a reset tells that the client does not read it.
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

/// What the end of the client's direction means, which shows behind the last byte of the body only: that is taken in, as far as
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
            // The rest of a long body waits in the kernel, and the event loop has nothing new to tell.
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

/// Whether a client that ends its direction wants no answer.
fn gives_up_on_close(client: &Client) -> bool {
    client.protocol == ListenerProtocol::Http && client.listener.plan().config.abort_on_close
}

impl Session {
    /// Why the client does not want an answer any more, as long as there is no memory to read its request. Asks the kernel.
    #[cold]
    pub(super) fn is_abandoned(&self) -> Option<Cause> {
        if self.connection.socket.is_gone() {
            return Some(Cause::Reset);
        }
        let is_closed = gives_up_on_close(&self.client) && self.connection.socket.is_read_closed();
        (is_closed && self.sent_one_request()).then_some(Cause::Closed)
    }

    /// Whether what waits to be read can only be one request. What is encrypted counts as one.
    fn sent_one_request(&self) -> bool {
        if self.connection.tls.is_some() {
            return true;
        }
        let mut unread = [0; UNREAD_BYTES_MAX];
        let len = self.connection.socket.peek(&mut unread).unwrap_or(0);
        let heads = |bytes: &[u8]| memchr::memmem::find_iter(bytes, b"\r\n\r\n").count();
        len < UNREAD_BYTES_MAX && heads(self.connection.received()) + heads(&unread[..len]) <= 1
    }
}
