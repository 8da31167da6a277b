//! What stands for a server in a cookie.
//!
//! A token says nothing but which server: 128 bits of a hash of its name, so it is the same on every node and after
//! every restart, and tells no address. With a secret it is HMAC-SHA-256 (RFC 2104, FIPS 180-4) and nobody can make one
//! up; to bind it to one client would gain nothing, since a client that got hold of another one's token has only chosen
//! its server.

use std::collections::HashMap;
use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::server::ServerId;

/// What is hashed under, when there is no secret.
const NO_SECRET: &[u8] = b"weir";

/// The tokens of the servers of one upstream, in hexadecimal.
#[derive(Debug)]
pub(super) struct Tokens {
    texts: Box<[Box<str>]>,
    servers: HashMap<Box<[u8]>, ServerId>,
}

impl Tokens {
    pub(super) fn new(scope: &str, servers: &[&str], secret: Option<&[u8]>) -> Tokens {
        let texts: Box<[Box<str>]> =
            servers.iter().map(|server| token(scope, server, secret.unwrap_or(NO_SECRET))).collect();
        let known = (0..).zip(&texts).map(|(id, text)| (text.as_bytes().into(), ServerId(id)));
        Tokens { servers: known.collect(), texts }
    }

    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|text| &**text)
    }

    pub(super) fn text(&self, server: ServerId) -> &str {
        &self.texts[server.index()]
    }

    /// The server that `token` stands for.
    pub(super) fn server(&self, token: &[u8]) -> Option<ServerId> {
        self.servers.get(token).copied()
    }
}

fn token(scope: &str, server: &str, secret: &[u8]) -> Box<str> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of every length");
    // Lengths first, so that no two pairs of names read alike.
    for part in [scope, server] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    let mut text = String::with_capacity(32);
    for byte in &mac.finalize().into_bytes()[..16] {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    text.into()
}
