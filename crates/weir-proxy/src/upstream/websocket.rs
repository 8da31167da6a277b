//! The key of a WebSocket and the proof that a server has understood it (RFC 6455 sections 4.1 and 4.2.2).
//!
//! Weir has keys of its own for clients and servers of which one has a key and the other, by its protocol, has none (RFC 8441): it asks a server of
//! HTTP/1 on behalf of a client of HTTP/2, and answers a client of HTTP/1 on behalf of a server of HTTP/2. What passes from HTTP/1 to HTTP/1 is only
//! verified: a server that has not understood the request must not get a tunnel.

use aws_lc_rs::{digest, rand};
use data_encoding::BASE64;
use weir_observe::Cause;

/// What a server appends to the key before it hashes it (RFC 6455 section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A value of `Sec-WebSocket-Key`: 16 random bytes in Base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WebsocketKey([u8; 24]);

impl WebsocketKey {
    /// A fresh key. It is no secret, only not to be foreseen.
    pub(super) fn random() -> Self {
        let mut nonce = [0; 16];
        rand::fill(&mut nonce).expect("the generator has been seeded: it cannot fail");
        let mut text = [0; 24];
        BASE64.encode_mut(&nonce, &mut text);
        Self(text)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key of a client; `None` when it is none.
    pub(super) fn of_client(value: &[u8]) -> Option<Self> {
        Some(Self(value.try_into().ok()?))
    }

    /// The `Sec-WebSocket-Accept` of this key.
    pub(super) fn accept(&self) -> [u8; 28] {
        accept_of(&self.0)
    }
}

/// The `Sec-WebSocket-Accept` of a key, whatever it is.
fn accept_of(key: &[u8]) -> [u8; 28] {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key);
    hash.update(GUID);
    let mut accept = [0; 28];
    BASE64.encode_mut(hash.finish().as_ref(), &mut accept);
    accept
}

/// The protocol that a server of HTTP/1 was asked to switch to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AskedUpgrade {
    protocol: Box<[u8]>,
    /// The key of a WebSocket, that of the client or one of Weir's.
    key: Option<Box<[u8]>>,
}

impl AskedUpgrade {
    /// `key`: that which the server has got.
    pub(super) fn new(protocol: &[u8], key: Option<&[u8]>) -> Self {
        let key = key.filter(|_| Self::is_websocket(protocol));
        Self { protocol: protocol.into(), key: key.map(Box::from) }
    }

    pub(super) fn is_websocket(protocol: &[u8]) -> bool {
        protocol.eq_ignore_ascii_case(b"websocket")
    }

    /// What is wrong with a switch (101) whose head has these values of `Upgrade` and `Sec-WebSocket-Accept`: it has to be to this protocol (RFC 9110
    /// section 7.8), and one to WebSockets has the proof that the request was understood (RFC 6455 section 4.1).
    pub(super) fn check<'a>(
        &self,
        mut protocols: impl Iterator<Item = &'a [u8]>,
        mut accepts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), Cause> {
        match (protocols.next(), protocols.next()) {
            (Some(one), None) if one.eq_ignore_ascii_case(&self.protocol) => {}
            _ => return Err(Cause::UnexpectedUpgrade),
        }
        let Some(key) = &self.key else { return Ok(()) };
        match (accepts.next(), accepts.next()) {
            (Some(accept), None) if accept == accept_of(key) => Ok(()),
            _ => Err(Cause::WebsocketAcceptMismatch),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hash_of_the_key_accepts_it() {
        // RFC 6455 section 1.3.
        let asked = AskedUpgrade::new(b"WebSocket", Some(b"dGhlIHNhbXBsZSBub25jZQ=="));
        let check = |accepts: &[&str]| {
            asked.check([&b"websocket"[..]].into_iter(), accepts.iter().map(|accept| accept.as_bytes()))
        };
        assert_eq!(check(&["s3pPLMBiTxaQ9kYGzzhZRbK+xOo="]), Ok(()));
        for wrong in [
            &[][..],
            &[""],
            &["dGhlIHNhbXBsZSBub25jZQ=="],
            &["s3pPLMBiTxaQ9kYGzzhZRbK+xOo"],
            &["S3pPLMBiTxaQ9kYGzzhZRbK+xOo="],
            &["s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="],
        ] {
            assert_eq!(check(wrong), Err(Cause::WebsocketAcceptMismatch), "{wrong:?}");
        }
    }

    #[test]
    fn a_server_switches_to_what_it_was_asked_for() {
        let no_accepts = std::iter::empty;
        for (asked, protocols, expected) in [
            ("chat", &["chat"][..], true),
            ("chat", &["Chat"], true),
            ("chat", &["other"], false),
            ("chat", &["chat, other"], false),
            ("chat", &["chat", "chat"], false),
            ("chat", &[], false),
            // A client without a key can have no proof.
            ("websocket", &["websocket"], true),
        ] {
            let asked = AskedUpgrade::new(asked.as_bytes(), None);
            let checked = asked.check(protocols.iter().map(|one| one.as_bytes()), no_accepts());
            let expected = if expected { Ok(()) } else { Err(Cause::UnexpectedUpgrade) };
            assert_eq!(checked, expected, "{asked:?} {protocols:?}");
        }
    }

    #[test]
    fn keys_are_sixteen_bytes_and_differ() {
        let keys = [WebsocketKey::random(), WebsocketKey::random()];
        assert_ne!(keys[0], keys[1]);
        assert_eq!(BASE64.decode(keys[0].as_bytes()).map(|bytes| bytes.len()), Ok(16));
    }
}
