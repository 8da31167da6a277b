//! Users and passwords, away from the workers: files that change, and the threads that compute slow hashes.

mod users;
mod password_threads;

pub(crate) use password_threads::PasswordThreads;
pub(crate) use users::keep_current as keep_users_current;
