//! Proofs of who sends a request: passwords and their hashes, signed tokens and their keys.
//!
//! Text and bytes in, verdicts out. Reads no file, no clock and no socket, and starts no thread: where credentials come from, what time it
//! is and which thread computes a slow hash is decided by the callers.

#![forbid(unsafe_code)]

// `Authorization: Basic`, users with their hashes.
mod basic;
mod users;
mod password_hash;
mod crypt;

// Signed tokens and the keys that they are verified with.
mod token;

mod constant_time;

pub use basic::{BasicCredentials, CREDENTIALS_BYTES_MAX, MalformedCredentials};
pub use password_hash::{HashError, PasswordHash, Strength};
pub use token::{
    Algorithms, Claims, KeyProblem, KeySet, SignatureAlgorithm, SignedToken, TimeProblem, TokenError,
};
pub use users::{User, UserProblem, UserProblemKind, Users};
