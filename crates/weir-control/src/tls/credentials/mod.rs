//! Users, passwords and keys, away from the workers: files that change, keys that servers have, and the threads that compute slow hashes.

mod files;
mod remote;
mod password_threads;

pub(crate) use files::{CredentialKind, KEYS, USERS, keep_current};
pub(crate) use password_threads::PasswordThreads;
pub(crate) use remote::keep_fetched;
