//! A WebSocket over HTTP/2 (RFC 8441): what the upgrade of HTTP/1 becomes, and back.

use weir_http::ResponseHead;
use weir_http::h2::switch_protocols;

use crate::upstream::websocket::WebsocketKey;

/// The only protocol that extended CONNECT is used for.
pub(super) const WEBSOCKET: &[u8] = b"websocket";

/// A WebSocket that was asked for.
#[derive(Debug)]
pub(super) struct AskedWebsocket {
    /// The key of a client that waits for the proof that it was understood.
    key: Option<WebsocketKey>,
}

impl AskedWebsocket {
    pub(super) fn new(key: Option<&[u8]>) -> Self {
        Self { key: key.and_then(WebsocketKey::of_client) }
    }

    /// Gives a response the form that it has in HTTP/1: a success is a switch of protocols there.
    pub(super) fn translate(&self, response: &mut ResponseHead, text: &mut Vec<u8>) {
        if (200..300).contains(&response.status()) {
            let accept = self.key.as_ref().map(WebsocketKey::accept);
            switch_protocols(response, text, WEBSOCKET, accept.as_ref().map(|accept| &accept[..]));
        }
    }
}
