//! The key of a WebSocket and the proof that a server has understood it (RFC 6455 sections 4.1 and 4.2.2).
//!
//! For clients and servers of which one has a key and the other, by its protocol, has none (RFC 8441): Weir asks a server of HTTP/1 on behalf of
//! a client of HTTP/2, and answers a client of HTTP/1 on behalf of a server of HTTP/2. Must not touch what passes from HTTP/1 to HTTP/1.

use aws_lc_rs::{digest, rand};
use data_encoding::BASE64;

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

    /// Whether `value` is the `Sec-WebSocket-Accept` of this key.
    pub(super) fn is_accepted_by(&self, value: &[u8]) -> bool {
        value == self.accept()
    }

    /// The `Sec-WebSocket-Accept` of this key.
    pub(super) fn accept(&self) -> [u8; 28] {
        let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        hash.update(&self.0);
        hash.update(GUID);
        let mut accept = [0; 28];
        BASE64.encode_mut(hash.finish().as_ref(), &mut accept);
        accept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_hash_of_the_key_accepts_it() {
        // RFC 6455 section 1.3.
        let key = WebsocketKey(*b"dGhlIHNhbXBsZSBub25jZQ==");
        assert!(key.is_accepted_by(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        for wrong in [
            &b""[..],
            b"dGhlIHNhbXBsZSBub25jZQ==",
            b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo",
            b"S3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        ] {
            assert!(!key.is_accepted_by(wrong), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn keys_are_sixteen_bytes_and_differ() {
        let keys = [WebsocketKey::random(), WebsocketKey::random()];
        assert_ne!(keys[0], keys[1]);
        assert_eq!(BASE64.decode(keys[0].as_bytes()).map(|bytes| bytes.len()), Ok(16));
    }
}
