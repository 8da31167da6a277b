//! The token of a server in a cookie.
//!
//! It identifies the server only: 128 bits of a hash of its name, so it is the same on every node and after every restart, and reveals no
//! address. With a secret it is HMAC-SHA-256 (RFC 2104, FIPS 180-4) and cannot be forged. It is not bound to a client: a client that
//! obtains the token of another one has only chosen its server.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The hash key when there is no secret.
const NO_SECRET: &[u8] = b"weir";

/// The token of `server` in hexadecimal. `scope` keeps servers of the same name in other upstreams apart.
pub(in crate::config) fn token(scope: &str, server: &str, secret: Option<&[u8]>) -> Box<str> {
    let key = secret.unwrap_or(NO_SECRET);
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of every length");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_depend_on_all_that_goes_in_and_on_nothing_else() {
        let secret = Some(&b"0123456789abcdef"[..]);
        let all = [
            token("app", "a:80", None),
            token("app", "b:80", None),
            token("other", "a:80", None),
            token("app", "a:80", secret),
            token("appa", ":80", None),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(one.len(), 32);
            assert!(all[at + 1..].iter().all(|other| other != one));
        }
        // Computed with Python's hmac module: another node, another version, the same token.
        assert_eq!(&*token("app", "10.0.0.1:80", secret), "d3ed00455f94dfe7817fb71ff155dfa0");
    }
}
