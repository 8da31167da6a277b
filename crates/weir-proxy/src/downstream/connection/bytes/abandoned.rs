//! Client aborts before the request can be read, while there is no buffer for it.

use weir_observe::Cause;

use super::ByteConnection;
use crate::downstream::abort::gives_up_on_close;

/// Bytes of unread requests that are examined to distinguish one request from several.
const UNREAD_BYTES_MAX: usize = 4 * 1024;

impl ByteConnection {
    /// Why the client has aborted, while there is no buffer to read its request; `None` if it has not. Asks the kernel.
    #[cold]
    pub(super) fn is_abandoned(&self) -> Option<Cause> {
        if self.transport.connection.socket.is_gone() {
            return Some(Cause::Reset);
        }
        let is_closed = gives_up_on_close(&self.client) && self.transport.connection.socket.is_read_closed();
        (is_closed && self.sent_one_request()).then_some(Cause::Closed)
    }

    /// Whether what waits to be read can only be one request. What is encrypted counts as one.
    fn sent_one_request(&self) -> bool {
        if self.transport.connection.tls.is_some() {
            return true;
        }
        let mut unread = [0; UNREAD_BYTES_MAX];
        let len = self.transport.connection.socket.peek(&mut unread).unwrap_or(0);
        let heads = |bytes: &[u8]| memchr::memmem::find_iter(bytes, b"\r\n\r\n").count();
        len < UNREAD_BYTES_MAX && heads(self.transport.connection.received()) + heads(&unread[..len]) <= 1
    }
}
