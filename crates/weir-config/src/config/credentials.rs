//! Credentials of the admin listener: a user with a password, a token, or both.
//!
//! Only the SHA-256 of a secret is stored, and compared with the SHA-256 of the presented one: the comparison takes constant time, and
//! neither a log nor a core file contains a secret. A slow hash would protect a stolen file with short passwords; here the file with the
//! secret itself is on the same machine.

use std::fmt;
use std::hint::black_box;

use sha2::{Digest as _, Sha256};

/// The credentials for the admin listener; none, when neither is set.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The digest of the user's name and password.
    password: Option<[u8; 32]>,
    token: Option<[u8; 32]>,
}

impl Credentials {
    pub(crate) fn new(user: Option<(&str, &str)>, token: Option<&str>) -> Self {
        Self {
            password: user.map(|(user, password)| of_user(user.as_bytes(), password.as_bytes())),
            token: token.map(|token| Sha256::digest(token.as_bytes()).into()),
        }
    }

    /// Whether anything has to be presented.
    pub fn are_needed(&self) -> bool {
        self.password.is_some() || self.token.is_some()
    }

    /// Whether there is a user, so that browsers can prompt for the password.
    pub fn have_user(&self) -> bool {
        self.password.is_some()
    }

    /// Whether a user with a password may come in.
    pub fn accept_user(&self, user: &[u8], password: &[u8]) -> bool {
        self.password.is_some_and(|known| is_same(&known, &of_user(user, password)))
    }

    /// Whether this token grants access.
    pub fn accept_token(&self, token: &[u8]) -> bool {
        self.token.is_some_and(|known| is_same(&known, &Sha256::digest(token).into()))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(..)")
    }
}

/// The length comes first, so that no two pairs have the same encoding.
fn of_user(user: &[u8], password: &[u8]) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update((user.len() as u64).to_be_bytes());
    digest.update(user);
    digest.update(password);
    digest.finalize().into()
}

/// Compares every byte, wherever the first difference is.
fn is_same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differing =
        one.iter().zip(other).fold(0, |differing, (one, other)| black_box(differing | (one ^ other)));
    differing == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_configured_credentials_are_accepted() {
        let both = Credentials::new(Some(("ops", "correct horse")), Some("0123456789abcdef"));
        assert!(both.are_needed() && both.have_user());
        assert!(both.accept_user(b"ops", b"correct horse") && both.accept_token(b"0123456789abcdef"));
        for (user, password) in [("ops", "correct horsE"), ("op", "scorrect horse"), ("", ""), ("ops", "")] {
            assert!(!both.accept_user(user.as_bytes(), password.as_bytes()), "{user} {password}");
        }
        assert!(!both.accept_token(b"0123456789abcdeF") && !both.accept_token(b""));
        let token = Credentials::new(None, Some("0123456789abcdef"));
        assert!(token.are_needed() && !token.have_user() && !token.accept_user(b"", b""));
        let nothing = Credentials::default();
        assert!(!nothing.are_needed() && !nothing.accept_user(b"", b"") && !nothing.accept_token(b""));
        assert_eq!(format!("{both:?}"), "Credentials(..)");
    }
}
