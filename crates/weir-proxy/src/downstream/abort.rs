//! Client aborts: whether the client has closed the connection while its request waits for something else.
//!
//! A request that is whole and has nothing behind it is given up when the client ends its direction, unless the listener serves
//! clients that half-close on purpose. Must not consume what belongs to the next request.

use std::task::{Context, Poll};
use std::time::Duration;

use weir_config::ListenerProtocol;
use weir_observe::Cause;

use super::session::{LOOK_INTERVAL, Session};
use crate::net::clock;
use crate::net::socket::PeerState;
use crate::relay::reframe::Incoming;

/// How long an abort may go unnoticed, once per connection: see [`Session::poll_aborted`].
const FIRST_LOOK: Duration = Duration::from_millis(10);

/// Bytes of unread requests that are looked at to tell one from several.
const UNREAD_BYTES_MAX: usize = 4 * 1024;

impl Session {
    /// Why the client does not want the response any more, of whose request `body` is still to come; registers `cx` for the next news.
    ///
    /// The event loop watches a client for that from the second look on, [`FIRST_LOOK`] after the first: most answers
    /// are there by then, and a client that sends one request costs two system calls less.
    pub(crate) fn poll_aborted(&mut self, cx: &mut Context<'_>, body: &Incoming) -> Option<Cause> {
        if !self.client.socket.is_watched() && !std::mem::replace(&mut self.looked, true) {
            self.deadline.look_again(self.now + FIRST_LOOK);
            return None;
        }
        if self.client.has_input() {
            return self.poll_closed(cx, body);
        }
        match self.client.socket.poll_peer(cx) {
            PeerState::Quiet => None,
            PeerState::Gone => Some(Cause::Reset),
            PeerState::Readable | PeerState::Ended => self.poll_closed(cx, body),
        }
    }

    /// The same while the response is on its way: then only a reset tells that the client does not read it.
    pub(crate) fn poll_reset(&mut self, cx: &mut Context<'_>) -> Option<Cause> {
        if self.client.has_input() {
            return None;
        }
        if !self.client.socket.is_watched() && !std::mem::replace(&mut self.looked, true) {
            self.deadline.look_again(self.now + FIRST_LOOK);
            return None;
        }
        (self.client.socket.poll_peer(cx) == PeerState::Gone).then_some(Cause::Reset)
    }

    /// What the end of the client's direction means, which shows behind the last byte of the body only: that is taken in, as far as the
    /// buffer has room.
    #[cold]
    fn poll_closed(&mut self, cx: &mut Context<'_>, body: &Incoming) -> Option<Cause> {
        if !self.gives_up_on_close() {
            return None;
        }
        while !body.ends_within(self.client.received()) {
            if self.client.input.as_ref().is_some_and(|input| input.is_full()) {
                // The rest of a long body waits in the kernel, and the event loop has nothing new to tell.
                self.deadline.look_again(clock::now() + LOOK_INTERVAL);
                return self.client.socket.is_read_closed().then_some(Cause::Closed);
            }
            match self.client.poll_fill(cx, &self.worker.stock) {
                Poll::Pending => return None,
                Poll::Ready(Ok(0)) => break,
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
                Poll::Ready(Err(_)) => return Some(Cause::Reset),
            }
        }
        if body.is_followed_in(self.client.received()) {
            return None;
        }
        match self.client.poll_peer(cx) {
            PeerState::Quiet | PeerState::Readable => None,
            PeerState::Gone => Some(Cause::Reset),
            PeerState::Ended => Some(Cause::Closed),
        }
    }

    /// Why the client does not want an answer any more, as long as there is no memory to read its request. Asks the kernel.
    #[cold]
    pub(super) fn is_abandoned(&self) -> Option<Cause> {
        if self.client.socket.is_gone() {
            return Some(Cause::Reset);
        }
        let is_closed = self.gives_up_on_close() && self.client.socket.is_read_closed();
        (is_closed && self.sent_one_request()).then_some(Cause::Closed)
    }

    /// Whether what waits to be read can only be one request. What is encrypted counts as one.
    fn sent_one_request(&self) -> bool {
        if self.client.tls.is_some() {
            return true;
        }
        let mut unread = [0; UNREAD_BYTES_MAX];
        let len = self.client.socket.peek(&mut unread).unwrap_or(0);
        let heads = |bytes: &[u8]| memchr::memmem::find_iter(bytes, b"\r\n\r\n").count();
        len < UNREAD_BYTES_MAX && heads(self.client.received()) + heads(&unread[..len]) <= 1
    }

    /// Whether a client that ends its direction wants no answer.
    fn gives_up_on_close(&self) -> bool {
        self.protocol == ListenerProtocol::Http && self.listener.plan().config.abort_on_close
    }
}
