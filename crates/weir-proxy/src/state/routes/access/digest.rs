//! What credentials are remembered by: a keyed digest, of which nothing can be learnt outside this process.

use std::fmt;

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;

/// The digest of credentials and of all that their verdict hangs on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CredentialDigest([u8; 32]);

impl fmt::Debug for CredentialDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialDigest(..)")
    }
}

/// The key of the digests, made when the process starts.
pub(crate) struct DigestKey(hmac::Key);

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey(..)")
    }
}

impl Default for DigestKey {
    fn default() -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        Self(key.expect("the system has random numbers: TLS could not run without them either"))
    }
}

impl DigestKey {
    /// The digest of these parts; the same bytes divided in another way give another one.
    pub(crate) fn digest(&self, parts: &[&[u8]]) -> CredentialDigest {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        CredentialDigest(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_keys_count() {
        let (key, other) = (DigestKey::default(), DigestKey::default());
        let digest = key.digest(&[b"ann", b"secret"]);
        assert_eq!(digest, key.digest(&[b"ann", b"secret"]));
        assert_ne!(digest, key.digest(&[b"anns", b"ecret"]));
        assert_ne!(digest, key.digest(&[b"annsecret", b""]));
        assert_ne!(digest, other.digest(&[b"ann", b"secret"]));
        assert_eq!(format!("{digest:?} {key:?}"), "CredentialDigest(..) DigestKey(..)");
    }
}
